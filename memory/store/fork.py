"""A new store that holds the beginning of another: the steps up to one of them, and what was made of these."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

from memory.errors import NotStored
from memory.store import reads, writes
from memory.store.check import CLEAN
from memory.stored import Event

COPIED: Mapping[str, str] = {
    "meta": f"key <> '{CLEAN}'",
    # a question put after the step belongs to what came next; the first one is what the session is about
    "questions": "from_step <= {asked} ORDER BY task",
    "steps": "number <= {step} ORDER BY number",
    "chunks": "number <= {step} ORDER BY number",
    "packs": "number IN (SELECT pack FROM {of}packed WHERE chunk <= {step})",
    "packed": "chunk <= {step}",
    "tombstones": "chunk <= {step}",
    "views": "chunk <= {step} ORDER BY chunk, level, version, producer",
    "encoders": "TRUE ORDER BY number",
    "keys": "chunk <= {step} ORDER BY encoder, chunk",
    "plans": "step <= {step}",
    "blocks": "published_step <= {next} ORDER BY number",
    "usage": "step <= {step} ORDER BY id",
}
"""Table -> what of it belongs to the beginning, in the order in which rows may refer to each other."""
LEFT = frozenset({"migrations", "owner", "intents", "events"})
"""Tables that say what was done with the old file, and nothing of its steps."""
NUMBERED = frozenset({"usage", "events"})
"""Tables whose rows have a number that only orders them."""
_CHANGED = {
    # what came to be shown later has not been shown yet
    ("views", "published_step"): "CASE WHEN published_step <= {next} THEN published_step END",
    ("keys", "published"): "CASE WHEN published <= {next} THEN published ELSE {next} END",
}


def beginning(table: str, columns: Sequence[str], step: int, of: str = "") -> str:
    """The rows of a table that belong to the first ``step`` steps, as a SELECT of ``columns``, for any database.

    ``of``: the prefix that names the database to read from.
    """
    given = {"step": step, "next": step + 1, "asked": max(step, 1), "of": of}
    cells = ", ".join(_CHANGED.get((table, column), column).format(**given) for column in columns)
    return f"SELECT {cells} FROM {of}{table} WHERE {COPIED[table].format(**given)}"


def expect_step(step: int, last: int) -> None:
    """Raises NotStored when there is no such step; 0 is the beginning of the session."""
    if not 0 <= step <= last:
        raise NotStored(f"there is no step {step}: the session has {last}")


def copy_beginning(connection: sqlite3.Connection, uri: str, step: int, event: Event | None = None) -> None:
    """Fill the empty store of ``connection`` from the one at ``uri``, which has the same schema, as of one moment, and
    put ``event`` on its record.

    Raises NotStored when there is no such step.
    """
    connection.execute("ATTACH ? AS old", (uri,))
    try:
        connection.execute("BEGIN IMMEDIATE")
        try:
            (last,) = connection.execute("SELECT COALESCE(MAX(number), 0) FROM old.steps").fetchone()
            expect_step(step, last)
            for table in COPIED:
                columns = columns_of(connection, table)
                rows = beginning(table, columns, step, of="old.")
                connection.execute(f"INSERT INTO main.{table} ({', '.join(columns)}) {rows}")
            assert reads.last_step(connection) == step
            if event is not None:
                writes.add_event(connection, event)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    finally:
        connection.execute("DETACH old")


def columns_of(connection: sqlite3.Connection, table: str) -> tuple[str, ...]:
    """The columns of a table whose rows are copied; where their number only orders them, they are numbered anew."""
    names = [str(row[1]) for row in connection.execute(f"PRAGMA main.table_info({table})")]
    return tuple(name for name in names if not (name == "id" and table in NUMBERED))

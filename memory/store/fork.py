"""A new store that holds the beginning of another: the steps up to one of them, and what was made of these."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from memory.errors import NotStored
from memory.store import reads
from memory.store.check import CLEAN

COPIED: Mapping[str, str] = {
    "meta": f"SELECT * FROM old.meta WHERE key != '{CLEAN}'",
    # a question put after the step belongs to what came next; the first one is what the session is about
    "questions": "SELECT * FROM old.questions WHERE from_step <= MAX(:step, 1) ORDER BY task",
    "steps": "SELECT * FROM old.steps WHERE number <= :step ORDER BY number",
    "chunks": "SELECT * FROM old.chunks WHERE number <= :step ORDER BY number",
    "packs": "SELECT * FROM old.packs WHERE number IN (SELECT pack FROM old.packed WHERE chunk <= :step)",
    "packed": "SELECT * FROM old.packed WHERE chunk <= :step",
    "tombstones": "SELECT * FROM old.tombstones WHERE chunk <= :step",
    # what came to be shown later has not been shown yet
    "views": "SELECT chunk, level, version, producer, text, tokens, prompt_hash,"
    " CASE WHEN published_step <= :step + 1 THEN published_step END, fidelity FROM old.views WHERE chunk <= :step",
    "encoders": "SELECT * FROM old.encoders",
    "keys": "SELECT encoder, chunk, MIN(published, :step + 1), vector FROM old.keys WHERE chunk <= :step",
    "plans": "SELECT * FROM old.plans WHERE step <= :step",
    "blocks": "SELECT * FROM old.blocks WHERE published_step <= :step + 1 ORDER BY number",
    "usage": "SELECT * FROM old.usage WHERE step <= :step ORDER BY id",
}
"""Table -> what of it belongs to the beginning, in the order in which rows may refer to each other."""
LEFT = frozenset({"migrations", "owner", "intents", "events"})
"""Tables that say what was done with the old file, and nothing of its steps."""


def copy_beginning(connection: sqlite3.Connection, uri: str, step: int) -> None:
    """Fill the empty store of ``connection`` from the one at ``uri``, which has the same schema, as of one moment.

    Raises NotStored when there is no such step; 0 is the beginning of the session.
    """
    connection.execute("ATTACH ? AS old", (uri,))
    try:
        connection.execute("BEGIN IMMEDIATE")
        try:
            (last,) = connection.execute("SELECT COALESCE(MAX(number), 0) FROM old.steps").fetchone()
            if not 0 <= step <= last:
                raise NotStored(f"there is no step {step}: the session has {last}")
            for table, rows in COPIED.items():
                connection.execute(f"INSERT INTO main.{table} {rows}", {"step": step})
            assert reads.last_step(connection) == step
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    finally:
        connection.execute("DETACH old")

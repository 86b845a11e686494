"""A copy of a store with texts replaced: what leaves the machine when a whole session is handed on."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from memory.chunking import make_chunk
from memory.records import Chunk
from memory.store import codec, cold, reads
from memory.store.database import BUSY_TIMEOUT_S
from memory.store.files import connect, create_file, translated
from memory.store.migrations import migrate
from memory.tokens import ScriptCounter

_TEXTS = ("meta", "questions", "intents", "steps", "chunks", "views", "blocks", "plans", "usage", "events")
"""Tables with cells of text; keys and packs are vectors and bytes."""
_BINARY = {"plans": {"changed", "query_key"}}
_KEPT = {"chunks": {"content_hash"}, "plans": {"render_hash", "encoder_id"}, "views": {"prompt_hash"}}
"""Columns that are compared, never read by a person."""


def copy_redacted(source: Path, target: Path, redact: Callable[[str], str]) -> int:
    """Copy a store, as of one moment, to the new file ``target`` with ``redact`` applied to every text; returns how
    many rows changed. A changed step keeps its hash true, so contexts that showed it no longer rebuild to theirs.

    Packs are taken apart in the copy. Raises StoreFault, StoreCorrupt.
    """
    with translated(source, reading=True):
        create_file(target, busy_timeout_s=BUSY_TIMEOUT_S)
        copied = connect(target, busy_timeout_s=BUSY_TIMEOUT_S)
        try:
            _backup(source, copied)
            migrate(copied)
            copied.execute("BEGIN IMMEDIATE")
            copied.execute("DELETE FROM owner")
            changed = _redact(copied, redact)
            copied.execute("COMMIT")
            if changed:
                copied.execute("VACUUM")  # nothing of what was replaced stays in free pages
            copied.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            copied.close()
    return changed


def _backup(source: Path, copied: sqlite3.Connection) -> None:
    opened = connect(source, busy_timeout_s=BUSY_TIMEOUT_S)
    try:
        opened.backup(copied)
    finally:
        opened.close()


def _redact(connection: sqlite3.Connection, redact: Callable[[str], str]) -> int:
    (trigger,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'steps_keep'").fetchone()
    connection.execute("DROP TRIGGER steps_keep")
    _unpack(connection)
    changed = {table: _redact_table(connection, table, redact) for table in _TEXTS}
    for number in changed["steps"]:
        (chunk,) = reads.chunks(connection, [number])
        _derive(connection, make_chunk(chunk.step, ScriptCounter()))
    connection.execute(str(trigger))
    return sum(len(rows) for rows in changed.values())


def _derive(connection: sqlite3.Connection, chunk: Chunk) -> None:
    """What was derived from a step's texts, again: a placeholder may have cut a secret in two."""
    connection.execute(
        "UPDATE chunks SET placeholder = ?, tokens_full = ?, tokens_placeholder = ?, content_hash = ? WHERE number = ?",
        (
            codec.text_in(chunk.placeholder),
            chunk.tokens_full,
            chunk.tokens_placeholder,
            chunk.content_hash,
            chunk.step.number,
        ),
    )


def _unpack(connection: sqlite3.Connection) -> None:
    """A pack may hold what has to go: the copy has none."""
    texts = cold.ColdTexts(connection)
    members = connection.execute("SELECT chunk FROM packed ORDER BY pack, start").fetchall()
    for (number,) in members:
        cell = codec.long_in(texts.text(number))
        connection.execute("UPDATE steps SET observations = ? WHERE number = ?", (cell, number))
    connection.execute("DELETE FROM packed")
    connection.execute("DELETE FROM packs")


def _redact_table(connection: sqlite3.Connection, table: str, redact: Callable[[str], str]) -> list[int]:
    """Rowids of the rows that changed. ``meta`` has none and is written by key."""
    names = [str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})")]
    skipped = _BINARY.get(table, set()) | _KEPT.get(table, set())
    wanted = [at for at, name in enumerate(names) if name not in skipped]
    key = "key" if table == "meta" else "rowid"
    rows = connection.execute(f"SELECT {key} FROM {table}").fetchall()
    changed: list[int] = []
    for (row_id,) in rows:
        row = connection.execute(f"SELECT * FROM {table} WHERE {key} = ?", (row_id,)).fetchone()
        after = {names[at]: cell for at in wanted if (cell := _cell(row[at], redact)) != row[at]}
        if after:
            sets = ", ".join(f"{name} = ?" for name in after)
            connection.execute(f"UPDATE {table} SET {sets} WHERE {key} = ?", (*after.values(), row_id))
            changed.append(row_id)
    return changed


def _cell(cell: codec.Cell, redact: Callable[[str], str]) -> codec.Cell:
    if not isinstance(cell, str | bytes):
        return cell
    before = codec.text_out(cell)
    after = redact(before)
    return cell if after == before else codec.long_in(after)

"""A copy of a store with texts replaced: what leaves the machine when a whole session is handed on.

It is made row by row, so that at no moment the disk holds more of the original than before.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from memory.chunking import make_chunk
from memory.errors import StoreFault
from memory.store import codec, cold
from memory.store.database import BUSY_TIMEOUT_S
from memory.store.files import create_file, translated
from memory.store.postgres import PostgresStore
from memory.store.postgres_link import Link
from memory.store.sql import Connection
from memory.store.sqlite import SqliteStore
from memory.store.sqlstore import SqlStore
from memory.store.transfer import read_rows, selection, tables
from memory.tokens import ScriptCounter

PAGE = 64
"""Steps read at once."""
_UNPACKED = frozenset({"packs", "packed"})
"""A pack may hold what has to go: the copy has none."""
_KEPT = {
    "chunks": {"content_hash"},
    "plans": {"render_hash", "encoder_id", "changed", "query_key"},
    "views": {"prompt_hash"},
    "encoders": {"id"},
    "keys": {"vector"},
    "tombstones": {"rule", "content_hash"},
}
"""Columns that are no text, or are compared and never read by a person."""
Redact = Callable[[str], str]
Row = tuple[Any, ...]


async def copy_redacted(source: SqlStore, target: Path, redact: Redact) -> int:
    """Copy a store, as of one moment, to the new file ``target`` with ``redact`` applied to every text; returns how
    many rows changed. A changed step keeps its hash true, so contexts that showed it no longer rebuild to theirs.

    Packs are taken apart in the copy. Raises StoreFault, StoreCorrupt.
    """
    if isinstance(source, PostgresStore):
        return await source._database.read(lambda link: _copy(_Rows(link), target, redact), piped=False)
    assert isinstance(source, SqliteStore)
    path = source.path
    return await source._database.read(lambda connection: _copy(_Rows(connection, path), target, redact))


class _Rows:
    """The rows of the original."""

    def __init__(self, connection: Connection, path: Path | None = None) -> None:
        self._connection = connection
        self._path = path
        self._texts = cold.ColdTexts(connection)

    def of(self, table: str, columns: Sequence[str]) -> Iterator[Row]:
        """Those of a table; steps with their observations in place."""
        rows = self._steps(columns) if table == "steps" else self._select(selection(table, columns))
        if self._path is None:
            yield from rows
        else:
            with translated(self._path, reading=True):
                yield from rows

    def _select(self, statement: str) -> Iterator[Row]:
        if isinstance(self._connection, Link):
            return read_rows(self._connection, statement)
        return iter(self._connection.execute(statement))

    def _steps(self, columns: Sequence[str]) -> Iterator[Row]:
        page = f"SELECT {', '.join(columns)} FROM steps WHERE number > ? ORDER BY number LIMIT {PAGE}"
        last = 0
        while rows := self._connection.execute(page, (last,)).fetchall():
            yield from map(self._texts.whole, rows)
            last = rows[-1][0]


def _copy(rows: _Rows, target: Path, redact: Redact) -> int:
    changed = 0

    def fill(connection: sqlite3.Connection) -> None:
        nonlocal changed
        connection.execute("BEGIN IMMEDIATE")
        changed = sum(_redact(rows, connection, redact))
        connection.execute("COMMIT")

    with translated(target, reading=False):
        if target.exists() or not create_file(target, busy_timeout_s=BUSY_TIMEOUT_S, fill=fill):
            raise StoreFault(f"{target} is there already", hint="choose another place")
    return changed


def _redact(rows: _Rows, connection: sqlite3.Connection, redact: Redact) -> Iterator[int]:
    """Write the copy; yields how many rows of each table changed."""
    derived: dict[int, Row] = {}
    for table, columns in tables(connection):
        if table not in _UNPACKED:
            into = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
            changed = 0
            for row in rows.of(table, columns):
                after = _row(row, columns, _KEPT.get(table, set()), redact)
                changed += after != row
                if table == "steps" and after != row:
                    derived[row[0]] = _derived(after)
                elif table == "chunks" and row[0] in derived:
                    after = _with(after, columns, derived[row[0]])
                connection.execute(into, after)
            yield changed


def _row(row: Row, columns: Sequence[str], kept: set[str], redact: Redact) -> Row:
    return tuple(cell if name in kept else _cell(cell, redact) for name, cell in zip(columns, row, strict=True))


_DERIVED = ("placeholder", "tokens_full", "tokens_placeholder", "content_hash")


def _derived(step: Row) -> Row:
    """What is derived from a step's texts, again: a placeholder may have cut a secret in two."""
    chunk = make_chunk(codec.step_out(step), ScriptCounter())
    return (codec.text_in(chunk.placeholder), chunk.tokens_full, chunk.tokens_placeholder, chunk.content_hash)


def _with(row: Row, columns: Sequence[str], derived: Row) -> Row:
    values = dict(zip(_DERIVED, derived, strict=True))
    return tuple(values.get(name, cell) for name, cell in zip(columns, row, strict=True))


def _cell(cell: object, redact: Redact) -> object:
    if not isinstance(cell, str | bytes):
        return cell
    before = codec.text_out(cell)
    after = redact(before)
    return cell if after == before else codec.long_in(after)

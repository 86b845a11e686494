"""A session from its file into a database, and back: every row as it is, as of one moment, whole or not at all.

What is copied is read and written as a stream. Neither side may have an owner meanwhile. A copy that was cut off leaves
nothing behind; one that is there already is compared, row by row, and is no fault when it is equal.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from memory.errors import StoreFault
from memory.store import reads
from memory.store.address import Address
from memory.store.check import CLEAN
from memory.store.database import BUSY_TIMEOUT_S
from memory.store.files import connect, create_file, translated
from memory.store.fork import NUMBERED, columns_of
from memory.store.owner import busy
from memory.store.postgres import PostgresStore, session_files
from memory.store.postgres_database import faults_of, opened
from memory.store.postgres_link import Link, raw_of
from memory.store.postgres_schema import TABLES, make_session, prepare
from memory.store.sqlite import SqliteStore

ORDER = {"views": "chunk, level, version, producer", "keys": "encoder, chunk"}
"""By what the rows of a table are put in order, where that is not its first column."""
LEFT = frozenset({"owner"})
"""Tables that say who is at work on one side."""
_BATCH = 500
Files = Iterable[tuple[str, bytes]]
"""(path, content) of the session's files."""


async def push(source: Path, address: Address, files: Files = ()) -> bool:
    """Copy the session of the file ``source`` to ``address``; False where an equal one was there.

    Raises StoreBusy where either is owned, StoreFault where another session of that name is there.
    """
    async with await SqliteStore.open(source, create=False) as store:
        await store.claim("push")
        return await store._database.read(lambda connection: _push(connection, address, files))


def _push(connection: sqlite3.Connection, address: Address, files: Files) -> bool:
    with opened(address) as link, faults_of(address, reading=False):
        prepare(link, write=True)
        link.script("BEGIN")
        number = make_session(link)
        if number is None:
            link.script("ROLLBACK")
            (number,) = link.execute("SELECT id FROM longstride.sessions WHERE name = ?", (address.session,)).fetchone()
            link.script(f"SET longstride.session = '{number}'")
            _expect_equal(connection, link, str(address))
            return False
        link.script(f"SET LOCAL longstride.session = '{number}'")
        for table, columns in tables(connection):
            write_rows(link, table, columns, connection.execute(selection(table, columns)))
        link.executemany("INSERT INTO longstride.files (path, body) VALUES (?, ?)", files)
        link.script("COMMIT")
    return True


async def pull(address: Address, target: Path) -> tuple[bool, dict[str, bytes]]:
    """Copy the session at ``address`` to the file ``target``; returns whether it was made (False: an equal one was
    there), and the session's files. Raises as `push` does, NotStored."""
    async with await PostgresStore.open(address, create=False, read_only=True) as store:
        held = await store.owner()
        if held is not None:
            raise busy(held, lambda one: True)
        return await store._database.read(lambda link: _pull(link, target), piped=False)


def _pull(link: Link, target: Path) -> tuple[bool, dict[str, bytes]]:
    with translated(target, reading=False):
        made = not target.exists() and create_file(
            target, busy_timeout_s=BUSY_TIMEOUT_S, fill=lambda connection: _fill(connection, link)
        )
        if not made:
            connection = connect(target, busy_timeout_s=BUSY_TIMEOUT_S, read_only=True)
            try:
                _expect_equal(connection, link, str(target))
            finally:
                connection.close()
    number = link.execute("SELECT current_setting('longstride.session')::integer").fetchone()[0]
    return made, session_files(link, number)


def _fill(connection: sqlite3.Connection, link: Link) -> None:
    connection.execute("BEGIN IMMEDIATE")
    for table, columns in tables(connection):
        into = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
        connection.executemany(into, read_rows(link, selection(table, columns)))
    connection.execute("COMMIT")


def write_rows(link: Link, table: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write rows to a table on the server, as a stream."""
    into = f"COPY longstride.{table} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)"
    with link.connection.cursor().copy(into) as copy:
        for row in rows:
            copy.write_row([raw_of(cell) for cell in row])


def read_rows(link: Link, select: str) -> Iterator[tuple[Any, ...]]:
    """The rows of a SELECT on the server, as a stream."""
    types = [column.type_code for column in link.connection.execute(f"{select} LIMIT 0").description]
    with link.connection.cursor().copy(f"COPY ({select}) TO STDOUT (FORMAT BINARY)") as copy:
        copy.set_types(types)
        yield from copy.rows()


def tables(connection: sqlite3.Connection) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every table that is copied, with its columns."""
    for table in TABLES:
        if table not in LEFT:
            yield table, columns_of(connection, table)


def selection(table: str, columns: Sequence[str]) -> str:
    """What of a table is copied, in order."""
    order = ORDER.get(table) or ("id" if table in NUMBERED else columns[0])
    only = f" WHERE key <> '{CLEAN}'" if table == "meta" else ""
    return f"SELECT {', '.join(columns)} FROM {table}{only} ORDER BY {order}"


def _expect_equal(connection: sqlite3.Connection, link: Link, where: str) -> None:
    """Raises StoreFault where the two sessions differ."""
    differing = StoreFault(f"another session is there already: {where}", hint="give the copy another name")
    if reads.last_step(link) != reads.last_step(connection):
        raise differing
    for table, columns in tables(connection):
        here = connection.execute(selection(table, columns))
        for one, other in zip_longest(here, read_rows(link, selection(table, columns))):
            if one != other:
                raise differing

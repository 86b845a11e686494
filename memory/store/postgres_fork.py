"""Forks to and from a database: whole or not at all, and never in the place of a session that is there.

Within one database the server copies the rows itself. Between two places they are read and written as a stream.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from memory.errors import StoreBusy, StoreFault
from memory.store import reads, writes
from memory.store.address import Address
from memory.store.database import BUSY_TIMEOUT_S
from memory.store.files import create_file, translated
from memory.store.fork import COPIED, NUMBERED, beginning, columns_of, expect_step
from memory.store.postgres import PostgresStore
from memory.store.postgres_database import faults_of, opened
from memory.store.postgres_link import Link
from memory.store.postgres_schema import make_session, prepare
from memory.store.sqlite import SqliteStore
from memory.store.sqlstore import SqlStore
from memory.store.transfer import Files, read_rows, write_rows
from memory.stored import Event

_PUT = """INSERT INTO longstride.files (session, path, body) VALUES (?, ?, ?)
    ON CONFLICT (session, path) DO UPDATE SET body = excluded.body"""


async def fork(source: SqlStore, target: Path | Address, step: int, event: Event, files: Files = ()) -> None:
    """Make a session at ``target`` that holds the beginning of ``source``, up to ``step`` (0: the first question only),
    and ``event``. ``source`` is only read; it may be running. ``files``: of the session, for a database; those that
    ``source`` has in its own go along within it.

    Raises NotStored for a step that is not there, StoreFault where a session already is.
    """
    if isinstance(target, Address):
        await _to_database(source, target, step, event, files)
    elif isinstance(source, PostgresStore):
        await source._database.read(lambda link: _to_file(link, target, step, event), piped=False)
    else:
        await cast(SqliteStore, source).fork(target, step, event)


async def _to_database(source: SqlStore, target: Address, step: int, event: Event, files: Files) -> None:
    if isinstance(source, PostgresStore) and source.address.database == target.database:
        number = source._database.number
        await asyncio.to_thread(_made, target, lambda link, to: _within(link, number, to, step), event, files)
    elif isinstance(source, PostgresStore):
        await source._database.read(
            lambda read: _made(target, lambda link, to: _from_link(read, link, step), event, files), piped=False
        )
    else:
        database = cast(SqliteStore, source)._database
        await database.read(lambda read: _made(target, lambda link, to: _from_file(read, link, step), event, files))


def _made(target: Address, fill: Callable[[Link, int], None], event: Event, files: Files) -> None:
    """Make the session of ``target`` in one transaction; ``fill`` is given its link, set to it, and its number."""
    given = list(files)
    with opened(target) as link, faults_of(target, reading=False):
        prepare(link, write=True)
        link.script("BEGIN ISOLATION LEVEL REPEATABLE READ READ WRITE")
        try:
            number = make_session(link)
        except StoreBusy:  # another one made it meanwhile, unless the server says something else next time
            link.script("ROLLBACK")
            link.script("BEGIN ISOLATION LEVEL REPEATABLE READ READ WRITE")
            number = make_session(link)
        if number is None:
            raise StoreFault(f"a session is there already: {target}", hint="choose another name")
        link.script(f"SET LOCAL longstride.session = '{number}'")
        fill(link, number)
        writes.add_event(link, event)
        link.executemany(_PUT, [(number, path, body) for path, body in given])
        link.script("COMMIT")


def _within(link: Link, source: int, target: int, step: int) -> None:
    """Copy within one database, in the transaction of ``link``; the rows do not leave the server."""
    link.script(f"SET LOCAL longstride.session = '{source}'")
    expect_step(step, reads.last_step(link))
    for table in COPIED:
        columns = _columns(link, table)
        rows = beginning(table, [str(target), *columns], step, of="longstride_session.")
        link.script(f"INSERT INTO longstride.{table} (session, {', '.join(columns)}) {rows}")
    link.script(
        f"INSERT INTO longstride.files (session, path, body)"
        f" SELECT {target}, path, body FROM longstride.files WHERE session = {source}"
    )
    link.script(f"SET LOCAL longstride.session = '{target}'")


def _from_link(source: Link, link: Link, step: int) -> None:
    expect_step(step, reads.last_step(source))
    for table in COPIED:
        columns = _columns(source, table)
        write_rows(link, table, columns, read_rows(source, beginning(table, columns, step)))


def _from_file(source: sqlite3.Connection, link: Link, step: int) -> None:
    expect_step(step, reads.last_step(source))
    for table in COPIED:
        columns = columns_of(source, table)
        write_rows(link, table, columns, source.execute(beginning(table, columns, step)))


def _to_file(link: Link, target: Path, step: int, event: Event) -> None:
    def fill(connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        for table in COPIED:
            columns = columns_of(connection, table)
            into = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
            connection.executemany(into, read_rows(link, beginning(table, columns, step)))
        writes.add_event(connection, event)
        connection.execute("COMMIT")

    expect_step(step, reads.last_step(link))
    with translated(target, reading=False):
        if target.exists() or not create_file(target, busy_timeout_s=BUSY_TIMEOUT_S, fill=fill):
            raise StoreFault(f"{target} is there already", hint="choose another place")


def _columns(link: Link, table: str) -> Sequence[str]:
    found = link.connection.execute(f"SELECT * FROM longstride_session.{table} LIMIT 0").description
    return [column.name for column in found if not (column.name == "id" and table in NUMBERED)]

"""A place for a session, on either database: what the conformance tests open."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memory.store.address import Address
from memory.store.postgres import PostgresStore
from memory.store.postgres_database import opened
from memory.store.sql import Connection
from memory.store.sqlite import SqliteStore
from memory.store.sqlstore import SqlStore


@dataclass(frozen=True)
class Place:
    """Where one session is: a file, or an address."""

    where: Path | Address

    async def open(self, **options: Any) -> SqlStore:
        """The store there; made, unless told otherwise."""
        return await open_at(self.where, **{"create": True, **options})

    def other(self, name: str) -> Place:
        """A place for another session beside it."""
        if isinstance(self.where, Address):
            return Place(self.where.of(name))
        return Place(self.where.with_name(f"{name}.db"))


async def open_at(where: Path | Address, **options: Any) -> SqlStore:
    """The store at a file or an address."""
    if isinstance(where, Address):
        return await PostgresStore.open(where, **options)
    return await SqliteStore.open(where, **options)


async def taken_for_dead(owner: SqlStore, other: SqlStore) -> None:
    """Let ``other`` believe that the owner of their session is gone: by its record, or since its connection is."""
    if isinstance(owner, PostgresStore):
        pid = backend(owner)
        await other._database.write(
            lambda c: c.execute("SELECT pg_terminate_backend(CAST(? AS integer), 10000)", (pid,))
        )
    else:
        await other._database.write(lambda c: c.execute("UPDATE owner SET boot = 'an earlier one'"))


def backend(store: PostgresStore) -> int:
    """Process of the server that does the store's writing."""
    link = store._database._link
    assert link is not None
    return link.connection.info.backend_pid


def reading(store: Path) -> sqlite3.Connection:
    """A connection that changes nothing, not even by closing: the next one finds the log as it was left."""
    return sqlite3.connect(f"{store.absolute().as_uri()}?mode=ro", uri=True)


@contextlib.contextmanager
def looking(where: Path | Address) -> Iterator[Connection | None]:
    """Look into a store from outside; None where there is none yet."""
    if isinstance(where, Path):
        if not where.exists():
            yield None
            return
        with contextlib.closing(reading(where)) as connection:
            yield connection
        return
    with opened(where) as link:
        (there,) = link.execute("SELECT to_regclass('longstride.sessions') IS NOT NULL").fetchone()
        row = there and link.execute("SELECT id FROM longstride.sessions WHERE name = ?", (where.session,)).fetchone()
        if row:
            link.script(f"SET longstride.session = '{row[0]}'")
        yield link if row else None

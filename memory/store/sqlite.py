"""`SqliteStore`: the default chunk store, one SQLite file per session."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from memory.ports import Faults
from memory.store.check import Checking, check_opened
from memory.store.database import BUSY_TIMEOUT_S, Database
from memory.store.fork import copy_beginning
from memory.store.migrations import applied
from memory.store.owner import Lives, Owner
from memory.store.sizes import sizes
from memory.store.sql import Connection
from memory.store.sqlstore import SqlStore
from memory.store.verify import Finding, verify
from memory.stored import Event, StoreSizes


class SqliteStore(SqlStore):
    """The store on SQLite (WAL, synchronous FULL)."""

    _database: Database

    def __init__(self, database: Database) -> None:
        super().__init__(database)

    @classmethod
    async def open(
        cls,
        path: Path | str,
        *,
        create: bool,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
        read_only: bool = False,
        checking: Checking | None = None,
        faults: Faults | None = None,
    ) -> SqliteStore:
        """Open the store at ``path``; with ``create`` a missing file is made, an existing one is never replaced.

        After an exit that was not clean the file is checked (PRAGMA quick_check); ``checking`` is told how that goes.
        ``read_only``: nothing is written, also where nothing can be; every writing method is a StoreFault.
        Raises NotStored when there is no file, StoreCorrupt for a damaged, empty or foreign one, StoreTooNew,
        StoreBusy, StoreFull, StoreFault.
        """
        database = Database(Path(path), busy_timeout_s=busy_timeout_s, read_only=read_only, faults=faults)
        store = cls(database)

        def check(connection: sqlite3.Connection, outdated: bool) -> None:
            # what has been checked need not be checked again and again: closing says that it is in order now
            store._touched = check_opened(connection, outdated, checking) and not read_only

        await database.open(create=create and not read_only, check=check)
        return store

    @property
    def path(self) -> Path:
        return self._database.path

    @property
    def shown(self) -> str:
        return str(self.path)

    def beside(self, name: str) -> Path:
        """Where a file that is derived from this store may stand."""
        return self.path.with_name(f"{self.path.name}-{name}")

    def _lives(self, connection: Connection) -> Lives:
        return Owner.alive

    async def schema(self) -> int:
        return await self._database.read(applied)

    async def verify(self, checking: Checking | None = None) -> list[Finding]:
        return await self._read(lambda c: verify(c, checking))

    async def fork(self, path: Path, step: int, event: Event | None = None) -> None:
        """Make a store at ``path`` that holds the beginning of this one, up to ``step`` (0: the first question only),
        and ``event``.

        Raises NotStored for a step that is not there, StoreFault where a file already is.
        """
        await self._database.derive(path, lambda connection, uri: copy_beginning(connection, uri, step, event))

    async def sizes(self) -> StoreSizes:
        return await self._read(sizes)

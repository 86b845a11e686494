"""`PostgresStore`: many sessions in one PostgreSQL database, shared by many processes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from memory.errors import StoreFault
from memory.ports import Faults
from memory.store import owner
from memory.store.address import Address
from memory.store.check import Checking
from memory.store.database import BUSY_TIMEOUT_S
from memory.store.postgres_database import PAUSE_S, REMOVE, PostgresDatabase, opened
from memory.store.postgres_link import Link, NotOwner
from memory.store.postgres_schema import applied, remove_session
from memory.store.postgres_vectors import behind, fill, nearest
from memory.store.sizes import sizes_in_database
from memory.store.sql import Connection
from memory.store.sqlstore import SqlStore
from memory.store.verify import Finding, verify
from memory.stored import Nearest, StoreSizes

T = TypeVar("T")
CATCH_UP = 2_000
"""Keys that a search waits for until they can be found."""


class PostgresStore(SqlStore):
    """The store of one session on PostgreSQL.

    Its owner holds an advisory lock of the server, which goes with its connection: an owner whose machine, process or
    network is gone can be displaced from anywhere, and one that comes back finds another on record and stops.
    """

    _database: PostgresDatabase

    def __init__(self, database: PostgresDatabase, beside: Path | None = None) -> None:
        super().__init__(database)
        self._beside = beside

    @classmethod
    async def open(
        cls,
        address: Address,
        *,
        create: bool,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
        read_only: bool = False,
        beside: Path | None = None,
        faults: Faults | None = None,
    ) -> PostgresStore:
        """Open the session at ``address``; with ``create`` a missing one is made, and our schema with it.

        ``busy_timeout_s``: how long another writer, or a server that is gone, is waited for. ``beside``: a folder for
        files that are derived from the store. ``read_only``: every writing method is a StoreFault.
        Raises NotStored when there is none, StoreCorrupt, StoreTooNew, StoreBusy, StoreFull, StoreFault.
        """
        database = PostgresDatabase(address, busy_timeout_s=busy_timeout_s, read_only=read_only, faults=faults)
        await database.open(create=create and not read_only)
        store = cls(database, beside)
        try:
            # as with files: closing in order says that all is well again, also when there was nothing left to do
            store._touched = not read_only and not await store.clean()
        except BaseException:
            await database.aclose()
            raise
        return store

    @property
    def address(self) -> Address:
        return self._database.address

    @property
    def shown(self) -> str:
        return str(self.address)

    def beside(self, name: str) -> Path | None:
        """Where a file that is derived from this store may stand, on this machine."""
        return None if self._beside is None else self._beside / f"session.{name}"

    async def claim(self, label: str = "") -> owner.Owner | None:
        try:
            return await super().claim(label)
        except StoreFault:
            await self._database.let_go()
            raise

    def _lives(self, connection: Connection) -> owner.Lives:
        return lambda held: self._database.is_locked(cast(Link, connection))

    def _take(self, connection: Connection, mine: owner.Owner) -> owner.Owner | None:
        held, until = owner.current(connection), time.monotonic() + self._database.busy_timeout_s
        while not self._database.locked and not self._database.try_lock(cast(Link, connection)):
            if held is None or held.boot != mine.boot or held.alive() or time.monotonic() > until:
                raise owner.busy(held or mine, lambda one: True)
            # a process of this machine that is gone: the server is about to notice
            time.sleep(PAUSE_S / 10)
        self._database.locked = True
        return owner.take(connection, mine, lambda one: False)

    async def release(self) -> None:
        with contextlib.suppress(NotOwner):  # then there is nothing to give up
            await super().release()

    def _give_up(self, connection: Connection, token: str) -> None:
        self._database.unlock(cast(Link, connection))
        # a former owner leaves no trace: its successor must find its own last transaction on record
        connection.execute("SELECT longstride.fence(?, ?)", (token, self._database.number))
        owner.give_up(connection, token)

    def _fence(self, connection: Connection) -> None:
        # by the server, as the next one: the answer need not be waited for
        connection.execute("SELECT longstride.fence(?, ?)", (self._token, self._database.number))

    def _expect_next(self, connection: Connection, number: int) -> None:
        connection.execute("SELECT longstride.expect_next(?, ?)", (number, self._database.number))

    async def _write(self, work: Callable[[Connection], T], name: str = "") -> T:
        token = self._token
        try:
            return await super()._write(work, name)
        except NotOwner:
            await self._database.give_way()
            await self._read(lambda c: owner.fence(c, token, self._lives(c)))
            raise

    async def schema(self) -> int:
        return await self._database.read(applied)

    async def verify(self, checking: Checking | None = None) -> list[Finding]:
        return await self._read(verify)

    async def sizes(self) -> StoreSizes:
        return await self._read(sizes_in_database)

    async def nearest(self, encoder_id: str, query: NDArray[np.float32], count: int) -> Nearest | None:
        """The ``count`` keys nearest to ``query`` (dim,), best first, found in the database by pgvector, approximately
        in long sessions. None where it cannot be asked, or not yet (`index_keys`): the keys themselves say it then."""
        number = self._database.number
        late = await self._read(lambda c: behind(cast(Link, c), number, encoder_id))
        if late is None or late > CATCH_UP:
            return None
        if late and not self._database.read_only:
            await self.index_keys()
        return await self._read(lambda c: nearest(cast(Link, c), number, encoder_id, query, count))

    async def files(self) -> dict[str, bytes]:
        """The files that went into the database with the session, by path."""
        return await self._database.read(lambda link: session_files(link, self._database.number))

    async def index_keys(self) -> bool:
        """Make the keys findable by `nearest`, beside other work; it takes minutes for a long session. False where the
        server has no pgvector."""

        def work() -> bool:
            with opened(self.address) as link:
                return fill(link, self._database.number)

        return await asyncio.to_thread(work)

    async def remove(self) -> None:
        """Delete the session for good; the caller owns it, and closes the store."""
        number = self._database.number
        await self._write(lambda c: remove_session(cast(Link, c), number), REMOVE)
        self._touched = False
        self._token = None


def session_files(link: Link, number: int) -> dict[str, bytes]:
    """Path -> content of the files of a session."""
    rows = link.execute("SELECT path, body FROM longstride.files WHERE session = ?", (number,))
    return {str(path): body.encode() if isinstance(body, str) else body for path, body in rows}


async def session_names(address: Address) -> list[str]:
    """The sessions of a database, by name; none where nothing of ours is in it. Raises StoreFault."""

    def read() -> list[str]:
        with opened(address) as link:
            if not applied(link):
                return []
            return [str(row[0]) for row in link.execute("SELECT name FROM longstride.sessions ORDER BY name")]

    return await asyncio.to_thread(read)

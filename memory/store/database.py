"""Connections, threads and transactions: the part of the store that knows SQLite but no tables.

One thread owns the one connection that writes; a small pool of threads reads, each through its own read-only
connection. The event loop only ever waits for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from memory.errors import NotStored, StoreCorrupt, StoreFault
from memory.ports import Faults
from memory.store.copies import Copies
from memory.store.files import connect, create_file, expect_whole, make_durable, translated, uri_of, write_back
from memory.store.migrations import MIGRATIONS, Migration, migrate, pending

T = TypeVar("T")
READERS = 2
BUSY_TIMEOUT_S = 30.0


class Database:
    """The threads and connections of one open store."""

    def __init__(
        self,
        path: Path,
        *,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
        read_only: bool = False,
        faults: Faults | None = None,
    ) -> None:
        self.path = path
        self._source = path
        """What readers connect to: the file itself, or a private copy of one that lies where nothing can be written."""
        self._immutable = False
        self._copies: Copies | None = None
        self._read_only = read_only
        self._faults = faults
        self._busy_timeout_s = busy_timeout_s
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="store-writer")
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="store-reader")
        self._connection: sqlite3.Connection | None = None
        self._local = threading.local()
        self._reading: list[sqlite3.Connection] = []
        self._closed = False

    async def open(self, *, create: bool, check: Callable[[sqlite3.Connection, bool], None]) -> None:
        """Connect, verify that the file is ours and whole, migrate (a copy, where it is only to be read).

        ``check`` is given the connection and whether migrations are to come; it may refuse.
        Raises NotStored when there is no file, StoreCorrupt, StoreTooNew, StoreBusy, StoreFull, StoreFault.
        """
        try:
            opening = self._open_to_read if self._read_only else partial(self._open, create)
            await settled(self._writer, lambda: opening(check))
        except BaseException:
            await self.aclose()
            raise

    def _open(self, create: bool, check: Callable[[sqlite3.Connection, bool], None]) -> None:
        with translated(self.path, reading=True):
            if not self.path.exists():
                if not create:
                    raise NotStored(f"there is no session store at {self.path}")
                create_file(self.path, busy_timeout_s=self._busy_timeout_s)
            connection = self._connection = connect(self.path, busy_timeout_s=self._busy_timeout_s)
            waiting = self._expect_ours(connection)
            check(connection, bool(waiting))
            # Only now: a file that is not ours must not be touched.
            make_durable(connection)
            write_back(connection)
            if waiting:
                self._point("migrate", "begun")
                migrate(connection)
                self._point("migrate", "committed")

    def _expect_ours(self, connection: sqlite3.Connection) -> list[Migration]:
        """The migrations to come; refuses what is not a whole store of ours."""
        log = self._beside("-wal")
        waiting = pending(connection)
        if waiting and waiting[0] is MIGRATIONS[0]:
            raise StoreCorrupt(f"{self.path} is empty: not a longstride store", hint="restore it from a copy")
        expect_whole(self._source, connection, log=log)
        return waiting

    def _open_to_read(self, check: Callable[[sqlite3.Connection, bool], None]) -> None:
        """Open without changing a stored byte. The kept connection may write, where the folder lets it, so that SQLite
        takes its log away again when it is closed."""
        with translated(self.path, reading=True):
            if not self.path.exists():
                raise NotStored(f"there is no session store at {self.path}")
            try:
                connection = self._keep(connect(self.path, busy_timeout_s=self._busy_timeout_s))
                waiting = self._expect_ours(connection)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
                    raise
                connection = self._elsewhere()
                waiting = self._expect_ours(connection)
            if waiting and self._copies is None:
                self._copy()
                connection = self._keep(connect(self._source, busy_timeout_s=self._busy_timeout_s))
            if waiting:
                migrate(connection)
            check(connection, False)
            connection.execute("PRAGMA query_only = ON")

    def _keep(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        before, self._connection = self._connection, connection
        if before is not None:
            before.close()
        return connection

    def _elsewhere(self) -> sqlite3.Connection:
        """A connection where SQLite cannot put its files beside the store: a log needs a copy to be applied to."""
        if self._beside("-wal") or self._beside("-journal"):
            self._copy()
            return self._keep(connect(self._source, busy_timeout_s=self._busy_timeout_s))
        self._immutable = True
        return self._keep(connect(self._source, busy_timeout_s=self._busy_timeout_s, read_only=True, immutable=True))

    def _beside(self, suffix: str) -> bool:
        """Whether a log with something in it lies beside the file."""
        log = self._source.with_name(self._source.name + suffix)
        return log.exists() and log.stat().st_size > 0

    def _copy(self) -> None:
        self._copies = Copies()
        self._source, self._immutable = self._copies.of(self.path, ("-wal", "-journal")), False

    async def write(self, work: Callable[[sqlite3.Connection], T], name: str = "") -> T:
        """Run ``work`` in one durable transaction. Once called it runs to its end, even if the caller is cancelled.
        ``name``: of the points that `Faults` is told of."""
        self._ensure_open()
        if self._read_only:
            raise StoreFault(f"{self.path} was opened to be read, not for writing")
        return await settled(self._writer, lambda: self._transact(work, name))

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``work`` on one snapshot."""
        self._ensure_open()
        return await settled(self._readers, lambda: self._snapshot(work))

    async def derive(self, path: Path, fill: Callable[[sqlite3.Connection, str], None]) -> None:
        """Make another store at ``path``; ``fill`` is given its connection and the URI of this one, to be read."""
        self._ensure_open()
        uri = uri_of(self._source, read_only=True, immutable=self._immutable)

        def work() -> None:
            with translated(path, reading=False):
                if path.exists() or not create_file(
                    path, busy_timeout_s=self._busy_timeout_s, fill=lambda connection: fill(connection, uri)
                ):
                    raise StoreFault(f"{path} is there already", hint="choose another place")

        await settled(self._readers, work)

    def _point(self, name: str, where: str) -> None:
        if self._faults is not None and name:
            self._faults.at(f"{name}:{where}")

    def _transact(self, work: Callable[[sqlite3.Connection], T], name: str) -> T:
        with translated(self.path, reading=False):
            connection = self._connection
            if connection is None:
                raise StoreFault("the store is closed")
            connection.execute("BEGIN IMMEDIATE")
            try:
                self._point(name, "begun")
                result = work(connection)
                self._point(name, "written")
                connection.execute("COMMIT")
            except BaseException:
                _roll_back(connection)
                raise
            self._point(name, "committed")
            return result

    def _snapshot(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with translated(self.path, reading=True):
            connection = getattr(self._local, "connection", None)
            if connection is None:
                connection = connect(
                    self._source, busy_timeout_s=self._busy_timeout_s, read_only=True, immutable=self._immutable
                )
                self._local.connection = connection
                self._reading.append(connection)
            connection.execute("BEGIN")
            try:
                return work(connection)
            finally:
                _roll_back(connection)

    async def aclose(self) -> None:
        """Let what was called finish, then close. Closing twice is fine."""
        self._closed = True
        await asyncio.get_running_loop().run_in_executor(None, self._close)

    def _close(self) -> None:
        self._readers.shutdown(wait=True)
        self._writer.shutdown(wait=True)
        while self._reading:
            self._reading.pop().close()
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()
        copies, self._copies = self._copies, None
        if copies is not None:
            copies.close()

    def _ensure_open(self) -> None:
        if self._closed:
            raise StoreFault("the store is closed")


async def settled(threads: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    """Run ``work`` in one of ``threads``, to its end."""
    future = asyncio.get_running_loop().run_in_executor(threads, work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        # Asked for is asked for: wait for the outcome, so that a cancelled caller finds the store at rest.
        future.add_done_callback(_seen)
        await asyncio.wait([future])
        raise


def _seen(future: asyncio.Future[T]) -> None:
    if not future.cancelled():
        future.exception()


def _roll_back(connection: sqlite3.Connection) -> None:
    # After a full disk SQLite has rolled back by itself; a failed rollback is finished by the next open.
    with contextlib.suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")

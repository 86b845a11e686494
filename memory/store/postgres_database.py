"""Threads, connections and transactions of a session on PostgreSQL: the counterpart of `memory.store.database`.

Each store has one connection that writes, in a thread of its own; it also holds the session's lock while the session is
owned. Reading is done by a few connections that all stores of a process on one database share.

A transaction begins by naming itself in the session's row. That locks the row, so writers of one session go one after
another; and when a connection breaks off while a commit is under way, the row says afterwards whether it took place.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from memory.errors import MemoryFault, NotStored, StoreBusy, StoreCorrupt, StoreFault
from memory.ports import Faults
from memory.store.address import Address
from memory.store.database import BUSY_TIMEOUT_S, READERS, settled
from memory.store.postgres_link import LOCKS, Link, connect, driver, fault_of
from memory.store.postgres_schema import applied, make_session, prepare

T = TypeVar("T")
REMOVE = "remove"
"""Name of the transaction that leaves no session behind."""
PAUSE_S = 0.1
"""Between two attempts to reach a server that is gone."""


@dataclass
class _Attempt(Generic[T]):
    """One go at a transaction."""

    mark: str = ""
    """Its name."""
    ending: bool = False
    """Whether its commit was asked for: when the connection is lost then, it may have taken place."""
    results: list[T] = field(default_factory=list)
    """What the work gave, once it was done."""


class PostgresDatabase:
    """The connections of one open session."""

    def __init__(
        self,
        address: Address,
        *,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
        read_only: bool = False,
        faults: Faults | None = None,
    ) -> None:
        self.address = address
        self.number = 0
        """Of the session, within its database."""
        self.locked = False
        """Whether this store holds the session's lock, and takes it again on a new connection."""
        self.read_only = read_only
        self._faults = faults
        self.busy_timeout_s = busy_timeout_s
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="store-writer")
        self._link: Link | None = None
        self._readers: _Readers | None = None
        self._writes = 0
        self._token = secrets.token_hex(8)
        self._closed = False

    async def open(self, *, create: bool) -> bool:
        """Connect, migrate, find the session or make it; returns whether it was made.

        Raises NotStored where there is none, StoreCorrupt, StoreTooNew, StoreBusy, StoreFault.
        """
        try:
            return await settled(self._writer, lambda: self._open(create))
        except BaseException:
            await self.aclose()
            raise

    def _open(self, create: bool) -> bool:
        link = self._connect()
        try:
            prepare(link, write=create or (not self.read_only and applied(link) > 0))
            made = create and make_session(link) is not None
            row = link.execute("SELECT id FROM longstride.sessions WHERE name = ?", (self.address.session,)).fetchone()
            if row is None:
                raise NotStored(f"there is no session {self.address}")
            self.number = int(row[0])
            self._readers = _Readers.of(self.address, self.busy_timeout_s)
        except BaseException:
            link.connection.close()
            raise
        if self.read_only:
            link.connection.close()
        else:
            self._enter(link)
        return made

    def _connect(self) -> Link:
        try:
            return Link(connect(self.address, busy_timeout_s=self.busy_timeout_s), self.address)
        except driver().Error as error:
            raise fault_of(error, self.address) from error

    def _enter(self, link: Link) -> None:
        link.script(f"SET longstride.session = '{self.number}'")
        self._link = link

    def _held(self, until: float) -> Link:
        """The connection that writes; a new one in place of one that is gone, with the lock that it had, unless another
        process has taken the session meanwhile."""
        while self._link is None or self._link.lost:
            link: Link | None = None
            try:
                link = self._connect()
                self._lock_again(link, until)
                self._enter(link)
            except StoreFault as fault:
                gone = link is None or link.lost
                if link is not None:  # without the lock it is of no use
                    link.connection.close()
                if not gone or not fault.retryable or time.monotonic() > until:
                    raise
                time.sleep(PAUSE_S)
        return self._link

    def _lock_again(self, link: Link, until: float) -> None:
        while self.locked and not self.try_lock(link):
            if not self._ours(link):
                self.locked = False  # it was taken over: the fence says by whom
            elif time.monotonic() > until:
                raise StoreBusy(f"{self.address}: the server still holds the lock of a connection that is gone")
            else:  # the server has not noticed yet
                time.sleep(PAUSE_S)

    def _ours(self, link: Link) -> bool:
        row = link.execute("SELECT last_write FROM longstride.sessions WHERE id = ?", (self.number,)).fetchone()
        return row is not None and str(row[0]).startswith(self._token)

    def try_lock(self, link: Link) -> bool:
        """Take the session's lock for this connection, unless another one has it."""
        (got,) = link.execute(
            "SELECT pg_try_advisory_lock(CAST(? AS integer), CAST(? AS integer))", (LOCKS, self.number)
        ).fetchone()
        return bool(got)

    def unlock(self, link: Link) -> None:
        """Give the session's lock up."""
        self.locked = False
        link.script(f"SELECT pg_advisory_unlock({LOCKS}, {self.number})")

    async def give_way(self) -> None:
        """Unlock the session, which another process owns: it may have to lock it again."""

        def unlock() -> None:
            if self.locked and self._link is not None:
                with contextlib.suppress(MemoryFault):  # gone, and the lock with it
                    self.unlock(self._link)

        await settled(self._writer, unlock)

    async def let_go(self) -> None:
        """Hold the session's lock no longer, whatever became of the connection."""

        def close() -> None:
            self.locked = False
            if self._link is not None:
                self._link.connection.close()

        await settled(self._writer, close)

    def is_locked(self, link: Link) -> bool:
        """Whether any connection has the session's lock."""
        found = link.execute(
            "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2"
            " AND classid = CAST(? AS oid) AND objid = CAST(? AS oid)"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
            (LOCKS, self.number),
        )
        return found.fetchone() is not None

    async def write(self, work: Callable[[Link], T], name: str = "") -> T:
        """Run ``work`` in one durable transaction. Once called it runs to its end, even if the caller is cancelled; it
        may be run again where the server broke off before it took place."""
        self._ensure_open()
        if self.read_only:
            raise StoreFault(f"{self.address} was opened to be read, not for writing")
        return await settled(self._writer, lambda: self._transact(work, name))

    async def read(self, work: Callable[[Link], T], *, piped: bool = True) -> T:
        """Run ``work`` on one snapshot; not ``piped``: it may COPY."""
        self._ensure_open()
        readers = self._readers
        assert readers is not None
        return await settled(readers.threads, lambda: readers.snapshot(work, self.number, piped))

    def _transact(self, work: Callable[[Link], T], name: str) -> T:
        until = time.monotonic() + self.busy_timeout_s
        attempt: _Attempt[T] = _Attempt()
        while True:
            link = self._held(until)
            try:
                if not attempt.ending or not self._took_place(link, attempt.mark, name):
                    self._writes += 1
                    attempt = _Attempt(f"{self._token}:{self._writes}")
                    self._try(link, work, name, attempt)
            except StoreFault:
                if not link.lost or time.monotonic() > until:
                    raise
                continue
            with faults_of(self.address, reading=False):
                self._point(name, "committed")
            return attempt.results[0]

    def _try(self, link: Link, work: Callable[[Link], T], name: str, attempt: _Attempt[T]) -> None:
        with faults_of(self.address, reading=False), rolling_back(link), link.pipeline() as pipeline:
            self._begin(link, attempt.mark)
            self._point(name, "begun")
            attempt.results.append(work(link))
            if self._faults is not None:
                pipeline.fetch()
                self._point(name, "written")
            attempt.ending = True
            end = pipeline.script("COMMIT")
        if end.status != "COMMIT":  # what the server says of a transaction that it gave up
            raise StoreFault(f"{self.address}: the server rolled back what it was to commit")

    def _begin(self, link: Link, mark: str) -> None:
        link.script("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
        # the end of another writer's transaction is waited for here
        link.execute("SELECT longstride.begin_write(convert_from(?, 'UTF8'), ?)", (mark, self.number))

    def _took_place(self, link: Link, mark: str, name: str = "") -> bool:
        """Whether the transaction with that mark was committed; waits while its end is still under way. One that has
        yet to arrive is shut out."""
        self._writes += 1
        with faults_of(self.address, reading=False):
            # where the session has another owner by now, it stays as that one left it
            row = link.execute(
                "UPDATE longstride.sessions s SET last_write = CASE WHEN last_write <> convert_from(?, 'UTF8')"
                " AND (split_part(last_write, ':', 1) = convert_from(?, 'UTF8') OR NOT EXISTS"
                " (SELECT FROM longstride.owner o WHERE o.session = s.id)) THEN convert_from(?, 'UTF8')"
                " ELSE last_write END WHERE id = ? RETURNING last_write",
                (mark, self._token, f"{self._token}:{self._writes}", self.number),
            ).fetchone()
        return bool(row[0] == mark) if row is not None else name == REMOVE

    def _point(self, name: str, where: str) -> None:
        if self._faults is not None and name:
            self._faults.at(f"{name}:{where}")

    async def aclose(self) -> None:
        """Let what was called finish, then close. Closing twice is fine."""
        self._closed = True
        await asyncio.get_running_loop().run_in_executor(None, self._close)

    def _close(self) -> None:
        self._writer.shutdown(wait=True)
        readers, self._readers = self._readers, None
        if readers is not None:
            readers.leave()
        link, self._link = self._link, None
        if link is not None:
            link.connection.close()

    def _ensure_open(self) -> None:
        if self._closed:
            raise StoreFault("the store is closed")


class _Readers:
    """Connections that read, shared by the stores of one process on one database."""

    _all: dict[tuple[int, str], _Readers] = {}  # noqa: RUF012
    _turn = threading.Lock()

    def __init__(self, place: tuple[int, str], address: Address, busy_timeout_s: float) -> None:
        self._place = place
        self.threads = ThreadPoolExecutor(READERS, thread_name_prefix="store-reader")
        self._address = address
        self._busy_timeout_s = busy_timeout_s
        self._local = threading.local()
        self._links: list[Link] = []
        self._listing = threading.Lock()
        self._users = 0

    @classmethod
    def of(cls, address: Address, busy_timeout_s: float) -> _Readers:
        """Those of a database, used once more."""
        with cls._turn:
            # neither threads nor connections are of use to a process that was forked
            place = (os.getpid(), address.url)
            found = cls._all.get(place)
            if found is None:
                found = cls._all[place] = cls(place, address.of(""), busy_timeout_s)
            found._users += 1
            return found

    def leave(self) -> None:
        """Used once less; the last one closes them."""
        with self._turn:
            self._users -= 1
            if self._users:
                return
            del self._all[self._place]
        self.threads.shutdown(wait=True)
        while self._links:
            self._links.pop().connection.close()

    def snapshot(self, work: Callable[[Link], T], number: int, piped: bool) -> T:
        """Run ``work`` on one state of one session; once more, on a new connection, where the server broke off.
        ``piped``: in few round trips, but without COPY."""
        until = time.monotonic() + self._busy_timeout_s
        while True:
            link: Link | None = getattr(self._local, "link", None)
            try:
                with faults_of(self._address, reading=True):
                    if link is None or link.lost:
                        link = self._local.link = self._connect()
                    with rolling_back(link), link.pipeline() if piped else contextlib.nullcontext():
                        link.script("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                        link.script(f"SET LOCAL longstride.session = '{number}'")
                        result = work(link)
                        link.script("ROLLBACK")
                    return result
            except StoreFault as fault:
                gone = link is None or link.lost
                if not gone or not fault.retryable or time.monotonic() > until:
                    raise
                time.sleep(PAUSE_S)

    def _connect(self) -> Link:
        link = Link(connect(self._address, busy_timeout_s=self._busy_timeout_s), self._address)
        with self._listing:
            self._links = [*(one for one in self._links if not one.lost), link]
        return link


@contextlib.contextmanager
def opened(address: Address, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> Iterator[Link]:
    """A connection for something that is not the work of one session."""
    with faults_of(address, reading=False):
        link = Link(connect(address, busy_timeout_s=busy_timeout_s), address)
    try:
        yield link
    finally:
        link.connection.close()


@contextlib.contextmanager
def faults_of(address: Address, *, reading: bool) -> Iterator[None]:
    """Map what psycopg and the codec raise to the memory's errors."""
    try:
        yield
    except driver().Error as error:
        raise fault_of(error, address) from error
    except (TypeError, ValueError, OverflowError, RecursionError, struct.error, zlib.error) as error:
        if reading:
            raise StoreCorrupt(f"{address}: a stored row cannot be read: {error}") from error
        raise StoreFault(f"a value cannot be stored: {error}") from error


@contextlib.contextmanager
def rolling_back(link: Link) -> Iterator[None]:
    """End the transaction when what is inside fails; a connection that is gone has done so by itself."""
    try:
        yield
    except BaseException:
        if not link.lost:
            try:
                link.script("ROLLBACK")
            except MemoryFault:  # of no use any more
                link.connection.close()
        raise

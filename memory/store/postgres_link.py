"""Connections to PostgreSQL, and the store's SQL on them: statements, values and faults in its terms.

Every text cell is a bytea, because a ``text`` of PostgreSQL holds neither NUL nor lone surrogates. A str is its UTF-8;
a cell that is bytes (`memory.store.codec`) is told apart by a leading 0xFF, which no UTF-8 has. So every cell comes out
as it went in, and ``convert_from(thought, 'UTF8')`` reads ordinary text in any tool.
"""

from __future__ import annotations

import contextlib
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

from memory.errors import MemoryFault, NotStored, StoreBusy, StoreCorrupt, StoreFault, StoreFull
from memory.store.address import Address
from memory.store.postgres_pipe import Pipe, Prepared
from memory.store.sql import AMONG, Numbers, Rows

LOCKS = 0x4C535452
"""``LSTR``: class of the advisory locks of sessions, by number."""
MAKING = LOCKS + 1
"""Class of the locks under which something is made that all sessions share."""
NOT_TEXT = b"\xff"
REMOVED, NOT_OWNED, NOT_NEXT = "LS001", "LS002", "LS003"
"""SQLSTATEs of our own."""
_BYTEA, _INT8, _FLOAT8, _INT8S = 17, 20, 701, 1016
"""Numbers of types."""
_AMONG, _INDEX, _BLOB = re.escape(AMONG.replace("?", "%s")), r" INDEXED BY \w+", r"CAST\((\w+) AS BLOB\)"


class NotOwner(StoreBusy):
    """Another process owns the session, or none; `memory.store.owner.fence` says which."""


_FAULTS: Mapping[str, tuple[type[MemoryFault], str, str]] = {
    REMOVED: (StoreFault, "", ""),
    NOT_OWNED: (NotOwner, "", "resume the session"),
    NOT_NEXT: (StoreFault, "", ""),
    "23503": (NotStored, "a chunk that is referred to is not stored", ""),
    "53100": (StoreFull, "no room left on the server", "free some space, then resume: committed steps are safe"),
    "53300": (StoreBusy, "the server has no connection left", "raise its max_connections, or open fewer sessions"),
    "55P03": (StoreBusy, "the session is locked by another process", "wait for it, or end it, then resume"),
    "40001": (StoreBusy, "another process wrote at the same time", "try again"),
    "40P01": (StoreBusy, "another process wrote at the same time", "try again"),
    "42501": (StoreFault, "the user may not do this", "grant the rights that docs/postgres.md names"),
    "3D000": (NotStored, "there is no such database", "createdb makes one"),
    "XX001": (StoreCorrupt, "the database is damaged", "restore it from a copy"),
    "XX002": (StoreCorrupt, "an index of the database is damaged", "REINDEX it, or restore it from a copy"),
}
"""SQLSTATE -> what it is here; without words of ours the server's are ours."""
_REFUSED = {
    "FATAL: role ": "28000",
    "authentication failed": "28P01",
    "no password supplied": "28P01",
    "no pg_hba.conf entry": "28000",
    "too many clients": "53300",
    "connection slots are reserved": "53300",
    '" does not exist': "3D000",
}
"""What a server says that takes no connection; the driver gives no code then."""


def driver() -> Any:
    """The module psycopg. Raises StoreFault where it is not installed."""
    try:
        import psycopg
    except ImportError as error:
        raise StoreFault("PostgreSQL needs psycopg", hint="pip install 'longstride[postgres]'") from error
    return psycopg


def fault_of(error: Any, address: Address) -> MemoryFault:
    """What psycopg raised, as one of ours."""
    text = " ".join(str(error).split())
    for secret in address.passwords:
        text = text.replace(secret, "***")
    state = getattr(error, "sqlstate", None) or next((code for said, code in _REFUSED.items() if said in text), "")
    if state in _FAULTS:
        kind, said, hint = _FAULTS[state]
        return kind(f"{address}: {said} ({text})" if said else error.diag.message_primary, hint=hint)
    if state[:2] == "28":
        return StoreFault(f"{address}: {text}", hint="check user and password (~/.pgpass or PGPASSWORD)")
    if outdated(error):
        return StoreFault(f"{address}: {text}", hint="try again", retryable=True)
    if isinstance(error, driver().OperationalError):
        return StoreFault(
            f"{address}: the server cannot be reached, or broke off: {text}",
            hint="see that it runs, then try again or resume",
            retryable=True,
        )
    return StoreFault(f"{address}: {text}")


def outdated(error: BaseException) -> bool:
    """Whether the server knows a prepared statement no more, or prepared it for tables that were changed since."""
    state = getattr(error, "sqlstate", None)
    # by the place in the server that says so: its words are translated
    return state == "26000" or (state == "0A000" and error.diag.source_function == "RevalidateCachedQuery")  # type: ignore[attr-defined]


def connect(address: Address, *, busy_timeout_s: float) -> Any:
    """A connection as the store needs it; transactions are explicit. Raises what psycopg does."""
    connection = driver().connect(
        address.url,
        autocommit=True,
        connect_timeout=10,
        application_name="longstride",
        client_encoding="utf8",
        keepalives_idle=30,
        keepalives_interval=10,
        keepalives_count=3,
        tcp_user_timeout=60_000,
    )
    try:
        _register(connection)
        connection.execute("; ".join(_settings(connection.info.server_version, busy_timeout_s)))
    except BaseException:
        connection.close()
        raise
    return connection


def _settings(version: int, busy_timeout_s: float) -> Iterator[str]:
    """What the store relies on, whatever a server, a database, a role or the environment has for its default."""
    # a session may be idle for hours, and a copy of one take minutes
    yield "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0"
    if version >= 140_000:
        yield "SET idle_session_timeout = 0"
    if version >= 170_000:
        yield "SET transaction_timeout = 0"
    yield "SET search_path = longstride_session; SET standard_conforming_strings = on"
    yield "SET default_transaction_isolation = 'read committed'; SET default_transaction_read_only = off"
    yield f"SET lock_timeout = {max(1, int(busy_timeout_s * 1000))}"
    # a peer that is gone without a word must not hold its session for hours
    yield "SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3"
    yield "SET tcp_user_timeout = 60000"
    # commits are on the disk
    yield "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"


class Raw(bytes):
    """A cell in the bytes that stand for it: a COPY takes one type a column."""

    __slots__ = ()


def raw_of(cell: object) -> object:
    """A cell for a COPY."""
    if isinstance(cell, str):
        return Raw(cell.encode())
    return Raw(NOT_TEXT + cell) if isinstance(cell, bytes) else cell


class Link:
    """`memory.store.sql.Connection` over one connection to PostgreSQL."""

    def __init__(self, connection: Any, address: Address) -> None:
        self.connection = connection
        self.address = address
        self._error: type[Exception] = driver().Error
        self._prepared = Prepared()
        self._pipe: Pipe | None = None

    @property
    def lost(self) -> bool:
        """Whether the connection is gone."""
        return bool(self.connection.closed or self.connection.broken)

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Rows:
        """As sqlite3 does."""
        with self._mapped():
            if self._pipe is not None:
                return self._pipe.execute(translated(statement), values)
            found: Rows = self.connection.execute(translated(statement), values, binary=True)
            return found

    def executemany(self, statement: str, rows: Iterable[Any], /) -> Rows | None:
        """As sqlite3 does."""
        text, done = translated(statement), None
        with self._mapped():
            if self._pipe is not None:
                for row in rows:
                    done = self._pipe.execute(text, row)
                return done
            cursor: Any = self.connection.cursor()
            cursor.executemany(text, list(rows))
            return cast(Rows, cursor)

    def script(self, statements: str) -> None:
        """Statements without values; one, in a pipeline."""
        with self._mapped():
            if self._pipe is not None:
                self._pipe.script(statements)
            else:
                self.connection.execute(statements)

    @contextlib.contextmanager
    def pipeline(self) -> Iterator[Pipe]:
        """A context in which only what is fetched is waited for, and the end: errors come then, too. Without it each
        statement is a round trip."""
        pipe = self._pipe = Pipe(self.connection, self._prepared)
        try:
            yield pipe
            pipe.end()
        except BaseException as error:
            try:
                if not self.lost:
                    pipe.give_up()
                usable = not outdated(error)
            except self._error:
                usable = False
            if not usable:  # a new one takes its place
                self.connection.close()
            raise
        finally:
            self._pipe = None

    @contextlib.contextmanager
    def _mapped(self) -> Iterator[None]:
        try:
            yield
        except self._error as error:
            raise fault_of(error, self.address) from error


@lru_cache(maxsize=512)
def translated(statement: str) -> str:
    """A statement of the store in PostgreSQL's terms."""
    text = statement.replace("%", "%%").replace("?", "%s")
    text = re.sub(_INDEX, "", text)
    text = re.sub(_BLOB, r"\1", text)
    # a cell is longer by the mark that tells bytes from text
    text = text.replace("LENGTH(", "longstride.cell_length(")
    return re.sub(_AMONG, "= ANY(%s)", text)


def _register(connection: Any) -> None:
    from psycopg.adapt import Dumper, Loader
    from psycopg.pq import Format

    def dumper(kind: type, oid: int, form: Any, dump: Callable[[Any], bytes | None]) -> None:
        made = type("In", (Dumper,), {"oid": oid, "format": form, "dump": lambda self, value: dump(value)})
        connection.adapters.register_dumper(kind, made)

    dumper(str, _BYTEA, Format.BINARY, str.encode)
    dumper(bytes, _BYTEA, Format.BINARY, NOT_TEXT.__add__)
    dumper(Raw, _BYTEA, Format.BINARY, bytes)
    dumper(int, _INT8, Format.BINARY, lambda value: value.to_bytes(8, "big", signed=True))
    # as in SQLite, NaN is nothing
    dumper(float, _FLOAT8, Format.BINARY, lambda value: struct.pack("!d", value) if value == value else None)
    dumper(Numbers, _INT8S, Format.TEXT, lambda value: f"{{{','.join(map(str, value))}}}".encode())
    cell = type("Out", (Loader,), {"format": Format.BINARY, "load": lambda self, data: cell_of(bytes(data))})
    connection.adapters.register_loader("bytea", cell)


def cell_of(raw: bytes) -> str | bytes:
    """A cell as it went in, of the bytes that stand for it."""
    return raw[1:] if raw[:1] == NOT_TEXT else raw.decode()

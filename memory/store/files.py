"""Store files: connections to them, how a new one comes to be, what SQLite's faults are called here."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from memory.errors import NotStored, StoreBusy, StoreCorrupt, StoreFault, StoreFull
from memory.store.migrations import migrate

_PAGE = 8192
"""Bytes. Rows of 2-3 KB waste much of 4096; larger pages make every commit write more."""
_WAL_LIMIT = 16 * 1024 * 1024
"""Bytes that the write-ahead log keeps after a checkpoint."""


@contextlib.contextmanager
def translated(path: Path, *, reading: bool) -> Iterator[None]:
    """Map what sqlite3 and the codec raise to the memory's errors."""
    try:
        yield
    except sqlite3.Error as error:
        raise _fault(error, path) from error
    except OSError as error:
        raise _os_fault(error, path, "cannot be opened") from error
    except (TypeError, ValueError, OverflowError, RecursionError, zlib.error) as error:
        if reading:
            raise StoreCorrupt(f"{path}: a stored row cannot be read: {error}") from error
        raise StoreFault(f"a value cannot be stored: {error}") from error


def _fault(error: sqlite3.Error, path: Path) -> StoreFault | NotStored:
    code = getattr(error, "sqlite_errorcode", 0)
    primary = code & 0xFF
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreBusy(f"{path} is locked by another process", hint="wait for it, or end it, then resume")
    if primary == sqlite3.SQLITE_FULL or (primary == sqlite3.SQLITE_IOERR and _disk_full(path)):
        return StoreFull(f"no room left for {path}", hint="free some space, then resume: committed steps are safe")
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return StoreCorrupt(f"{path} is damaged or not a longstride store: {error}", hint="restore it from a copy")
    if code == sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
        return NotStored("a chunk that is referred to is not stored")
    if primary in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return StoreFault(
            f"{path} cannot be opened, or not for writing: {error}", hint="check the folder and its permissions"
        )
    return StoreFault(f"{path}: {error}")


def _os_fault(error: OSError, path: Path, what: str) -> StoreFault:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreFull(f"no room left for {path}, or for a copy of it", hint="free some space")
    return StoreFault(f"{path} {what}: {error}", hint="check the folder and its permissions")


def _disk_full(path: Path) -> bool:
    try:
        disk = os.statvfs(path.parent)
    except (OSError, AttributeError):
        return False
    return disk.f_bavail == 0


def uri_of(path: Path, *, read_only: bool, immutable: bool) -> str:
    return f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rw'}{'&immutable=1' if immutable else ''}"


def connect(
    path: Path, *, busy_timeout_s: float, read_only: bool = False, immutable: bool = False
) -> sqlite3.Connection:
    """A connection to an existing file; never creates one. Transactions are explicit. ``immutable``: nothing is locked
    and no log is looked for, so nobody may write meanwhile."""
    connection = sqlite3.connect(
        uri_of(path, read_only=read_only, immutable=immutable),
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=busy_timeout_s,
        cached_statements=128,
    )
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA foreign_keys = ON")
        if read_only:
            connection.execute("PRAGMA query_only = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def make_durable(connection: sqlite3.Connection) -> None:
    # Where WAL is not granted (some network file systems) the rollback journal is as durable, only slower.
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA journal_size_limit = {_WAL_LIMIT}")


def write_back(connection: sqlite3.Connection) -> None:
    """Put what the log holds into the file, as far as there is room and no reader is in the way. First of all on a disk
    that was full: each further transaction takes the room that this needs, and only this gives the log's room back."""
    with contextlib.suppress(sqlite3.OperationalError):
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()


def expect_whole(path: Path, connection: sqlite3.Connection, *, log: bool) -> None:
    """Refuse a file that ends within a page, which SQLite overlooks. With a log beside it, it is completed from there.

    Only its size is asked for: to open and close the file here would drop the locks of SQLite in this process.
    """
    (page,) = connection.execute("PRAGMA page_size").fetchone()
    if not log and path.stat().st_size % page:
        raise StoreCorrupt(f"{path} is cut short", hint="restore it from a copy")


def create_file(path: Path, *, busy_timeout_s: float, fill: Callable[[sqlite3.Connection], None] | None = None) -> bool:
    """Make a whole store appear at ``path`` in one step, empty or as ``fill`` made it; an existing file is left alone.
    Returns whether it was made."""
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(4)}.new")
    try:
        fresh.touch(exist_ok=False)
        connection = connect(fresh, busy_timeout_s=busy_timeout_s)
        try:
            connection.execute(f"PRAGMA page_size = {_PAGE}")
            make_durable(connection)
            migrate(connection)
            if fill is not None:
                fill(connection)
            # closing would do this too, but keep silent when it fails, and the log is about to go
            (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if busy:
                raise StoreFault(f"{path} cannot be created: its log cannot be written back")
        finally:
            connection.close()
        made = _put(fresh, path)
        _sync_folder(path.parent)
        return made
    except OSError as error:
        raise _os_fault(error, path, "cannot be created") from error
    finally:
        for leftover in (fresh, fresh.with_name(fresh.name + "-wal"), fresh.with_name(fresh.name + "-shm")):
            leftover.unlink(missing_ok=True)


def _put(fresh: Path, path: Path) -> bool:
    """Give a file its final name; the first of two racing processes wins."""
    try:
        os.link(fresh, path)
    except FileExistsError:
        return False
    except OSError:  # no hard links on this file system
        if path.exists():
            return False
        fresh.rename(path)
    return True


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

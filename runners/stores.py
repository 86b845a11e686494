"""Where a session's store is: a file in its folder, or a database that many share. The one place that decides.

A session of a database has a folder of its own on each machine that works on it, for what people read and for files
that are derived from the store: everything that matters is in the database.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import shutil
from dataclasses import replace
from pathlib import Path

from memory.errors import MemoryFault, NotStored
from memory.store.address import NAME, Address, is_address, parse_address
from memory.store.check import Checking
from memory.store.database import BUSY_TIMEOUT_S
from memory.store.postgres import PostgresStore, session_names
from memory.store.sqlite import SqliteStore
from memory.store.sqlstore import SqlStore
from runners.environment import STORE, Environment, Secret
from runners.errors import UsageFault
from runners.folders import SessionFolder, find_folder, new_folder, session_name


async def open_store(
    folder: SessionFolder,
    *,
    create: bool,
    read_only: bool = False,
    checking: Checking | None = None,
    wait_s: float = BUSY_TIMEOUT_S,
) -> SqlStore:
    """Open the store of a session. ``wait_s``: how long its operations wait for another writer, or for a server that is
    gone. Raises NotStored, StoreFault."""
    if folder.address is None:
        return await SqliteStore.open(
            folder.store, create=create, busy_timeout_s=wait_s, read_only=read_only, checking=checking
        )
    known = folder.path.exists()
    if not read_only:
        await asyncio.to_thread(folder.path.mkdir, parents=True, exist_ok=True)
    try:
        return await PostgresStore.open(
            folder.address, create=create, busy_timeout_s=wait_s, read_only=read_only, beside=folder.path
        )
    except MemoryFault:
        if not (known or read_only):
            folder.leave_empty()  # another one may have begun there meanwhile
            with contextlib.suppress(OSError):
                folder.path.parent.rmdir()
        raise


async def begun(folder: SessionFolder) -> bool:
    """Whether there is a session, whole or not. Raises StoreFault."""
    if folder.address is None:
        return folder.store.exists()
    try:
        async with await PostgresStore.open(folder.address, create=False, read_only=True):
            return True
    except NotStored:
        return False


async def discard(folder: SessionFolder) -> None:
    """Remove what opening a new session wrote; its store is closed."""
    if folder.address is not None:
        with contextlib.suppress(MemoryFault):  # the server may be why it could not be opened; an empty session is left
            async with await open_store(folder, create=False) as store:
                await store.claim("discard")
                await remove_from_database(store)
    await asyncio.to_thread(folder.discard)


async def remove_from_database(store: SqlStore) -> None:
    """Delete a session that we own from its database; nothing for one in a file."""
    if isinstance(store, PostgresStore):
        await store.remove()


def find_session(environment: Environment, session: str) -> SessionFolder:
    """An existing session: by address, by its folder, by its name or a unique beginning of it. Raises NotStored,
    UsageFault."""
    if is_address(session):
        address = _address(environment, session)
        if not address.session:
            raise UsageFault(f"{address} names a database", hint=f"name a session of it: {address}#NAME")
        return in_database(environment.home, address)
    try:
        return find_folder(environment.home, session)
    except NotStored as fault:
        database = default_database(environment)
        if database is None:
            raise
        names = asyncio.run(session_names(database))
        matches = [name for name in names if session and name.startswith(session)]
        if session in names or len(matches) == 1:
            return in_database(environment.home, database.of(session if session in names else matches[0]))
        if matches:
            fits = f"fits {len(matches)} sessions of {database.database}: {', '.join(matches[:5])}"
            raise NotStored(f"{session!r} {fits}") from fault
        raise NotStored(f"{fault}; nor is it one of the {len(names)} of {database.database}") from fault


def expect_there(folder: SessionFolder) -> None:
    """Raises NotStored where the database of a session does not have it, StoreFault where that cannot be known."""
    if folder.address is not None and folder.address.session not in asyncio.run(session_names(folder.address)):
        raise NotStored(f"there is no session {folder}")


def new_session(environment: Environment, out: str | None, beside: SessionFolder | None = None) -> SessionFolder:
    """Where a new session goes: to an address, into a folder, or where ``beside`` is, else the environment says.
    Raises UsageFault."""
    if out:
        database = _address(environment, out) if is_address(out) else None
    else:
        database = default_database(environment) if beside is None else beside.address and beside.address.of("")
    if database is None:
        return new_folder(environment.home, Path(out) if out else None)
    return in_database(environment.home, database if database.session else database.of(session_name()))


def default_database(environment: Environment) -> Address | None:
    """The database that the environment names. Raises UsageFault."""
    given = environment.given(STORE)
    return _parsed(given) if given else None


def database_at(environment: Environment, at: str | None) -> Address | None:
    """The database that an option names, else the environment's. Raises UsageFault."""
    return _address(environment, at) if at else default_database(environment)


def with_database(environment: Environment, at: str | None) -> tuple[Environment, Address | None]:
    """The environment as `knowing` gives it, and the database of `database_at`, whatever session it names.

    Raises UsageFault."""
    database = database_at(environment, at)
    return _knowing(environment, database), database and database.of("")


def memory_place(environment: Environment, memory: str) -> SessionFolder:
    """Where the memory of somebody else's agent is, or is to begin: at an address; in the environment's database, when
    it is a mere name, and no session is in the folder of that name; in a folder. Raises UsageFault."""
    database = None
    if is_address(memory):
        database = _address(environment, memory)
        if not database.session:
            raise UsageFault(f"{database} names a database", hint=f"name a session of it: {database}#NAME")
    elif NAME.fullmatch(memory) and not SessionFolder(Path(memory)).store.exists():
        database = default_database(environment)
        database = database and database.of(memory)
    return in_database(environment.home, database) if database else new_folder(environment.home, Path(memory))


def knowing(environment: Environment, folder: SessionFolder) -> Environment:
    """The environment with the password of a session's address among what must not be shown."""
    return _knowing(environment, folder.address)


def _knowing(environment: Environment, address: Address | None) -> Environment:
    passwords = address.passwords if address else ()
    known = {f"address {place}": Secret(password) for place, password in enumerate(passwords)}
    return replace(environment, secrets={**environment.secrets, **known})


def in_database(home: Path, address: Address) -> SessionFolder:
    """A session of a database, with its folder on this machine."""
    key = hashlib.sha256(address.database.encode()).hexdigest()[:12]
    return SessionFolder(home / "databases" / key / address.session, address)


def forget(folder: SessionFolder) -> None:
    """Remove the folder of a session of a database, and that of the database once it is empty."""
    if folder.address is not None:
        shutil.rmtree(folder.path, ignore_errors=True)
        with contextlib.suppress(OSError):  # others of this database have theirs there
            folder.path.parent.rmdir()


def _address(environment: Environment, text: str) -> Address:
    """An address as it is given; one that is shown has no password, and gets back what the environment has for its
    database. Raises UsageFault."""
    address, given = _parsed(text), environment.given(STORE) or ""
    if address.passwords or not is_address(given):
        return address
    known = _parsed(given)
    return known.of(address.session) if known.database == address.database else address


def _parsed(text: str) -> Address:
    try:
        return parse_address(text)
    except ValueError as fault:
        raise UsageFault(str(fault), hint="as in postgresql://user@host:5432/database#session") from None

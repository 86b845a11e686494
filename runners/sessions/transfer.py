"""``longstride sessions push`` and ``pull``: a session from its folder into a database, and back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

from memory.store.address import NAME, Address
from memory.store.sqlite import SqliteStore
from memory.store.transfer import pull, push
from runners.errors import UsageFault
from runners.folders import SessionFolder, refuse_address


def push_session(folder: SessionFolder, database: Address) -> tuple[Address, bool]:
    """Copy a session with its files; the address that it has there, and whether it was not there yet.

    Raises StoreBusy while a process holds it, StoreFault where another session has that name, UsageFault.
    """
    if folder.address is not None:
        raise UsageFault(f"{folder} is in a database already", hint="pull it, then push the copy")
    if not database.session and not NAME.fullmatch(folder.name):
        raise UsageFault(f"{folder.name!r} is no name for a session of a database", hint=f"name it: {database}#NAME")
    address = database if database.session else database.of(folder.name)
    return address, asyncio.run(push(folder.store, address, local_files(folder)))


def pull_session(source: SessionFolder, folder: SessionFolder) -> bool:
    """Copy a session of a database into its own folder, with its files, also those that were made on this machine;
    whether it was not there yet. Raises as `push_session`, NotStored."""
    address = source.address
    if address is None:
        raise UsageFault(f"{source} is in no database", hint="a session on the disk comes first: give the address")
    refuse_address(folder.path)
    try:
        folder.path.mkdir(parents=True, exist_ok=True)
        made, files = asyncio.run(pull(address, folder.store))
        for name, body in (*files.items(), *local_files(source)):
            write_file(folder.workspace, name, body)
        asyncio.run(_write_config(folder))
    except OSError as fault:
        raise UsageFault(f"{folder.path}: {fault.strerror or fault}") from fault
    finally:
        folder.leave_empty()
    return made


def local_files(folder: SessionFolder) -> Iterator[tuple[str, bytes]]:
    """(path, content) of the files of a session on this machine; links are left out."""
    for path in sorted(folder.workspace.rglob("*")):
        if path.is_file() and not path.is_symlink():
            yield path.relative_to(folder.workspace).as_posix(), path.read_bytes()


def write_file(workspace: Path, name: str, body: bytes) -> None:
    """Raises UsageFault for a path that leads elsewhere."""
    path = workspace / name
    if not path.resolve().is_relative_to(workspace.resolve()):
        raise UsageFault(f"the database holds a file {name!r} that would lie outside of the session")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(body)


async def _write_config(folder: SessionFolder) -> None:
    async with await SqliteStore.open(folder.store, create=False, read_only=True) as store:
        settings = await store.meta("settings")
    if settings is not None:
        folder.write_config(json.loads(settings))

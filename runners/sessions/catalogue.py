"""What sessions there are: each in figures, the ones that cannot be read as such."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from memory.errors import MemoryFault, NotStored, StoreBusy
from memory.ports import ChunkStore
from memory.store.address import Address
from memory.store.postgres import session_names
from memory.store.sqlstore import SqlStore
from runners.folders import CONFIG, STORE, TRAJECTORY, SessionFolder
from runners.sessions.content import status_of
from runners.stores import in_database, open_store

GOING = re.compile(r"\.removing-[0-9a-f]{8}$")
"""Name of a folder that a removal has taken out of sight."""
BROKEN, RUNNING = "broken", "running"


@dataclass(frozen=True, slots=True)
class SessionEntry:
    """One session of ``sessions list``."""

    session: str
    folder: str
    """Or its address."""
    status: str
    """Of its last run; ``running`` while a process holds it, ``open`` when the last run did not end, ``new`` before the
    first, ``broken`` when it cannot be read."""
    steps: int
    question: str
    """The first."""
    bytes: int
    """Of everything in its folder; in a database, what ``memory size`` says."""
    policy: str
    last_activity: float
    """Unix time, seconds; of a broken one, when its files were changed last."""
    problem: str = ""
    """Why it is broken, or who holds it."""

    @property
    def held(self) -> bool:
        """Whether a process holds it."""
        return self.status == RUNNING

    def where(self, home: Path, database: Address | None = None) -> SessionFolder:
        """It; ``database``: the one it was found in."""
        if database is not None:
            return in_database(home, database.of(self.session))
        return SessionFolder(Path(self.folder))

    @property
    def when(self) -> str:
        """Last activity for people, UTC."""
        return f"{datetime.fromtimestamp(self.last_activity, UTC):%Y-%m-%d %H:%M}"


def session_folders(home: Path) -> list[Path]:
    """Folders below ``home`` that hold a session, or what is left of one, by name."""
    runs = home / "runs"
    if not runs.is_dir():
        return []
    parts = (STORE, CONFIG, TRAJECTORY)
    return sorted(
        path
        for path in runs.iterdir()
        if path.is_dir() and not GOING.search(path.name) and any((path / part).exists() for part in parts)
    )


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What sessions there are, latest activity first."""

    sessions: tuple[SessionEntry, ...]
    database: str = ""
    """The database, where not all of it could be seen, without a password."""
    problem: str = ""
    """Why."""


def catalogue(home: Path, database: Address | None = None) -> Catalogue:
    """Every session below ``home``, and of ``database``; nothing that is wrong with one, or with the database, hides
    the others."""
    there = catalogue_of(home, database) if database is not None else Catalogue(())
    return replace(there, sessions=_ordered([*asyncio.run(_here(home)), *there.sessions]))


def catalogue_of(home: Path, database: Address) -> Catalogue:
    """Every session of ``database``."""
    entries, problem = asyncio.run(_there(home, database))
    return Catalogue(_ordered(entries), database.database if problem else "", problem)


def _ordered(entries: Iterable[SessionEntry]) -> tuple[SessionEntry, ...]:
    return tuple(sorted(entries, key=lambda entry: (-entry.last_activity, entry.session)))


async def _here(home: Path) -> list[SessionEntry]:
    return [await entry_of(SessionFolder(path)) for path in session_folders(home)]


async def _there(home: Path, database: Address) -> tuple[list[SessionEntry], str]:
    entries: list[SessionEntry] = []
    try:
        for name in await session_names(database):
            with contextlib.suppress(NotStored):  # removed meanwhile
                entries.append(await _entry_there(in_database(home, database.of(name))))
    except MemoryFault as fault:
        return entries, " ".join(str(fault).split()) + (f" ({fault.hint})" if fault.hint else "")
    return entries, ""


async def _entry_there(folder: SessionFolder) -> SessionEntry:
    """One session of a database. Raises StoreFault where the server is gone, NotStored."""
    try:
        async with await open_store(folder, create=False, read_only=True) as store:
            return await _read(folder, store, (await store.sizes()).file, 0.0)
    except NotStored:
        raise
    except MemoryFault as fault:
        if fault.retryable and not isinstance(fault, StoreBusy):
            raise
        return _broken(folder, " ".join(str(fault).split()), 0, 0.0)
    except (ValueError, KeyError, TypeError) as fault:
        return _broken(folder, " ".join(str(fault).split()), 0, 0.0)


async def entry_of(folder: SessionFolder) -> SessionEntry:
    """One session on the disk in figures; never raises for what is in its folder."""
    try:
        size, changed = _size(folder.path)
    except OSError as fault:
        return _broken(folder, f"{fault.strerror or fault}", 0, 0.0)
    if not folder.store.is_file():
        return _broken(folder, f"there is no {STORE} in it", size, changed)
    try:
        async with await open_store(folder, create=False, read_only=True) as store:
            return await _read(folder, store, size, changed)
    except (MemoryFault, OSError, ValueError, KeyError, TypeError) as fault:
        return _broken(folder, " ".join(str(fault).split()), size, changed)


async def _read(folder: SessionFolder, store: SqlStore, size: int, changed: float) -> SessionEntry:
    questions = await store.questions()
    events = await store.events()
    last = await store.last_step()
    held = await store.owner()
    times = [*(event.created for event in events), *(question.created for question in questions)]
    if last:
        times.append((await store.chunks([last]))[0].step.created)
    return SessionEntry(
        session=folder.name,
        folder=str(folder),
        status=RUNNING if held else status_of(events) if questions else "new",
        steps=last,
        question=questions[0].text if questions else await store.meta("asked") or "",
        bytes=size,
        policy=await _policy(store),
        last_activity=max(times, default=changed),
        problem=f"held by process {held.pid} on {held.host}" if held else "",
    )


async def _policy(store: ChunkStore) -> str:
    settings = await store.meta("settings")
    if settings is None:
        return ""
    policy = json.loads(settings)["config"]["policy"]
    return str(policy.get("variant") or policy["name"])


def _broken(folder: SessionFolder, problem: str, size: int, changed: float) -> SessionEntry:
    return SessionEntry(folder.name, str(folder), BROKEN, 0, "", size, "", changed, problem)


def _size(folder: Path) -> tuple[int, float]:
    """(bytes, latest change) of the files below a folder."""
    stats = [path.lstat() for path in _files(folder)]
    return sum(stat.st_size for stat in stats), max((stat.st_mtime for stat in stats), default=0.0)


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_symlink() or path.is_file())

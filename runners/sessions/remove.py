"""Removing sessions: by name, or by age, number and status; never one that a process holds."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import shutil
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from memory.errors import MemoryFault, StoreBusy, StoreTooNew
from memory.store.sqlstore import SqlStore
from runners.environment import Environment
from runners.errors import UsageFault
from runners.folders import SessionFolder
from runners.sessions.catalogue import GOING, SessionEntry, session_folders
from runners.stores import expect_there, find_session, forget, open_store, remove_from_database

_AGE = re.compile(r"(\d+)\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


@dataclass(frozen=True, slots=True)
class Retention:
    """Which sessions go: all conditions hold together. ``older_than`` in seconds since the last activity; ``keep``: the
    latest so many stay, whatever else; ``statuses`` empty: any."""

    older_than: float | None = None
    keep: int = 0
    statuses: frozenset[str] = frozenset()

    def chosen(self, entries: Sequence[SessionEntry], now: float | None = None) -> list[SessionEntry]:
        """Those of ``entries`` (latest first) that go, oldest first; one that is held stays."""
        moment = time.time() if now is None else now
        found = [
            entry
            for entry in entries[self.keep :]
            if not entry.held
            and (not self.statuses or entry.status in self.statuses)
            and (self.older_than is None or moment - entry.last_activity > self.older_than)
        ]
        return found[::-1]


def age(text: str) -> float:
    """``30d``, ``12h``, ``2w`` in seconds. Raises UsageFault."""
    match = _AGE.fullmatch(text.strip().lower())
    if match is None:
        raise UsageFault(f"--older-than {text}: not an age", hint="a number and s, m, h, d or w, as in 30d")
    return float(int(match[1]) * _SECONDS[match[2]])


def known_folder(environment: Environment, name: str) -> SessionFolder:
    """A session by name, beginning, folder or address, a broken one by its whole name. Raises NotStored."""
    broken = environment.home / "runs" / name
    if name and Path(name).name == name and broken in session_folders(environment.home):
        return SessionFolder(broken)
    folder = find_session(environment, name)
    expect_there(folder)
    return folder


def remove(folder: SessionFolder, home: Path) -> None:
    """Remove every file of a session, or its rows. Raises StoreBusy when a process holds it, StoreTooNew where that
    cannot be known, NotStored and StoreFault of a database, UsageFault where files cannot go.

    One below ``home`` goes with its whole folder, which first gets a name that no session has: a crash half way leaves
    nothing that looks like a session, and the next removal finishes it. Elsewhere only our own files go.
    """
    try:
        asyncio.run(_detach(folder, home))
    except OSError as fault:
        raise UsageFault(f"{folder.path}: cannot be removed: {fault.strerror or fault}") from fault
    finish(home)


async def _detach(folder: SessionFolder, home: Path) -> None:
    """Take the session out of sight while we are its only owner."""
    store = await _claimed(folder)
    try:
        if folder.address is not None:
            assert store is not None
            await remove_from_database(store)
            forget(folder)
            return
        if _is_ours(folder.path, home):
            folder.path.rename(folder.path.with_name(f"{folder.name}.removing-{secrets.token_hex(4)}"))
        else:
            for aside in folder.path.glob("trajectory.*.old"):
                aside.unlink()
            folder.discard()
    finally:
        if store is not None:
            await store.aclose()


def holder(folder: SessionFolder) -> str:
    """Which process holds a session; empty when none does, or it cannot be read."""

    async def read() -> str:
        async with await open_store(folder, create=False, read_only=True) as store:
            held = await store.owner()
            return f"process {held.pid} on {held.host}" if held else ""

    try:
        return asyncio.run(read())
    except MemoryFault:
        return ""


async def _claimed(folder: SessionFolder) -> SqlStore | None:
    """Own the session; None for a file that cannot be opened, which nobody can hold. Of a later version that is
    not known: raises StoreTooNew. Nor is it of a database that cannot be asked: raises what it says."""
    try:
        store = await open_store(folder, create=False)
    except (StoreBusy, StoreTooNew):
        raise
    except MemoryFault:
        if folder.address is not None:
            raise
        return None
    try:
        await store.claim("remove")
    except StoreBusy:
        await store.aclose()
        raise
    except MemoryFault:
        await store.aclose()
        if folder.address is not None:
            raise
        return None
    return store


def _is_ours(path: Path, home: Path) -> bool:
    return path.resolve().parent == (home / "runs").resolve()


def finish(home: Path) -> None:
    """Remove what an earlier removal left half done."""
    runs = home / "runs"
    if not runs.is_dir():
        return
    for path in runs.iterdir():
        if GOING.search(path.name):
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(path)


def check_statuses(given: str | None, known: Collection[str]) -> frozenset[str]:
    """``completed,broken`` as a set. Raises UsageFault for one that does not exist."""
    wanted = frozenset(part.strip() for part in (given or "").split(",") if part.strip())
    unknown = sorted(wanted - set(known))
    if unknown:
        raise UsageFault(f"--status {','.join(unknown)}: no such status", hint=", ".join(sorted(known)))
    return wanted

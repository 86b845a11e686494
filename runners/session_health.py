"""What ``longstride doctor --session`` looks at: whether a session on the disk is whole, whoever holds it."""

from __future__ import annotations

import json
import time

from memory.errors import MemoryFault, NotStored
from memory.store.check import Checking
from memory.store.owner import Owner
from memory.store.sqlite import SqliteStore
from memory.store.sqlstore import SqlStore
from memory.store.verify import Finding
from runners.config import tree_hash
from runners.folders import SessionFolder
from runners.health import Check
from runners.stores import open_store
from runners.trajectory import TrajectoryFile


async def check_session(folder: SessionFolder, checking: Checking | None = None) -> list[Check]:
    """Every finding about a session; it is only read, and may be running. Raises NotStored for one that a database does
    not have."""
    try:
        async with await open_store(folder, create=False, read_only=True, checking=checking) as store:
            return [
                await _opened(store),
                _owner(await store.recorded_owner(), await store.owner()),
                await _settings(store),
                *(_invariant(finding) for finding in await store.verify(checking)),
                _trajectory(folder, await store.last_step()),
            ]
    except MemoryFault as fault:
        if isinstance(fault, NotStored) and folder.address is not None:
            raise
        return [Check("store", "fail", " ".join(str(fault).split()), fault.hint)]


async def _opened(store: SqlStore) -> Check:
    size = f"{_size(store)}, schema {await store.schema()}"
    if await store.clean():
        return Check("store", "ok", f"{size}, closed in order")
    if await store.owner() is not None:
        return Check("store", "ok", f"{size}, in use")
    return Check(
        "store", "warn", f"{size}, not closed in order", "resume checks it and loses nothing that was committed"
    )


def _size(store: SqlStore) -> str:
    if not isinstance(store, SqliteStore):
        return store.shown
    log = store.path.with_name(store.path.name + "-wal")
    waiting = log.stat().st_size if log.exists() else 0
    return f"{store.path.stat().st_size:,} bytes" + (f", a log of {waiting:,} bytes" if waiting else "")


def _owner(held: Owner | None, living: Owner | None) -> Check:
    if held is None:
        return Check("owner", "ok", "nobody")
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(held.since))
    who = f"process {held.pid} on {held.host} ({held.label or 'no label'}, since {since})"
    if living is not None:
        return Check("owner", "ok", who)
    return Check("owner", "warn", f"{who}, which is gone", "resume takes the session over")


async def _settings(store: SqlStore) -> Check:
    settings = await store.meta("settings")
    if settings is None:
        return Check("settings", "fail", "none: the session was never opened whole", "start it again with run --out")
    try:
        same = tree_hash(json.loads(settings)["config"]) == await store.meta("config_hash")
    except (ValueError, KeyError, TypeError) as fault:
        return Check("settings", "fail", f"cannot be read: {fault!r}")
    if not same:
        return Check("settings", "fail", "are not those that the session wrote down")
    return Check("settings", "ok", "match their hash")


def _invariant(finding: Finding) -> Check:
    if finding.problems:
        return Check(finding.name, "fail", "; ".join(finding.problems), "restore the session from a copy")
    return Check(finding.name, "ok", finding.detail)


def _trajectory(folder: SessionFolder, steps: int) -> Check:
    try:
        held = TrajectoryFile(folder.trajectory).steps()
    except OSError as fault:
        return Check("trajectory", "warn", f"cannot be read: {fault.strerror}")
    if held is None or held > steps:
        detail = "no beginning of this session" if held is None else f"{held} steps, the store has {steps}"
        return Check("trajectory", "warn", detail, "resume keeps it under another name and writes it anew")
    behind = "" if held == steps else f" of {steps}; resume writes the rest"
    return Check("trajectory", "ok", f"{held} steps{behind}")

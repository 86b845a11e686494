"""``fork``: a new session that shares the beginning of another one, up to a step."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from dataclasses import dataclass

from memory.errors import StoreCorrupt, StoreFault
from memory.store.check import Checking
from memory.store.sqlite import SqliteStore
from memory.stored import Event
from runners.folders import SessionFolder


@dataclass(frozen=True, slots=True)
class ForkReport:
    """What ``fork`` reports."""

    session: str
    """The new session."""
    folder: str
    forked_from: str
    at_step: int
    """Steps that the two have in common."""


async def fork_session(
    source: SessionFolder, target: SessionFolder, at_step: int | None, checking: Checking | None = None
) -> ForkReport:
    """Make the session of ``target``: steps 1 to ``at_step`` (None: all) of ``source``, everything made of them, and
    its settings and files as they are now. ``source`` is only read; it may be running.

    Raises NotStored for a step that is not there, StoreFault where a session already is, or files cannot be copied.
    """
    async with await SqliteStore.open(source.store, create=False, read_only=True, checking=checking) as store:
        settings = await store.meta("settings")
        if settings is None:
            raise StoreCorrupt(f"{source.store} holds no settings: its session was never opened whole")
        step = await store.last_step() if at_step is None else at_step
        await asyncio.to_thread(_copy_files, source, target)
        await store.fork(target.store, step)
    async with await SqliteStore.open(target.store, create=False) as made:
        await made.add_event(Event("forked", time.time(), {"from": source.name, "at_step": step}))
    target.write_config(json.loads(settings))
    return ForkReport(target.name, str(target.path), source.name, step)


def _copy_files(source: SessionFolder, target: SessionFolder) -> None:
    if not source.workspace.is_dir():
        return
    try:
        shutil.copytree(source.workspace, target.workspace, symlinks=True)
    except OSError as fault:
        raise StoreFault(f"the files of {source.name} cannot be copied: {fault}") from fault

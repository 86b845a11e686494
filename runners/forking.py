"""``fork``: a new session that shares the beginning of another one, up to a step."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import time
from dataclasses import dataclass

from memory.errors import StoreCorrupt, StoreFault
from memory.store.check import Checking
from memory.store.fork import expect_step
from memory.store.postgres import PostgresStore
from memory.store.postgres_fork import fork
from memory.store.sqlstore import SqlStore
from memory.stored import Event
from runners.folders import SessionFolder
from runners.sessions.transfer import local_files, write_file
from runners.stores import open_store


@dataclass(frozen=True, slots=True)
class ForkReport:
    """What ``fork`` reports."""

    session: str
    """The new session."""
    folder: str
    """Or its address."""
    forked_from: str
    at_step: int
    """Steps that the two have in common."""


async def fork_session(
    source: SessionFolder, target: SessionFolder, at_step: int | None, checking: Checking | None = None
) -> ForkReport:
    """Make the session of ``target``: steps 1 to ``at_step`` (None: all) of ``source``, everything made of them, and
    its settings and files as they are now; each in a folder or in a database. ``source`` is only read; it may be
    running.

    Raises NotStored for a step that is not there, StoreFault where a session already is, or files cannot be copied.
    """
    async with await open_store(source, create=False, read_only=True, checking=checking) as store:
        settings = await store.meta("settings")
        if settings is None:
            raise StoreCorrupt(f"{source} holds no settings: its session was never opened whole")
        last = await store.last_step()
        step = last if at_step is None else at_step
        expect_step(step, last)
        event = Event("forked", time.time(), {"from": source.name, "at_step": step})
        if target.address is not None:
            await fork(store, target.address, step, event, local_files(source))
        else:
            await _to_folder(source, store, target, step, event)
    with contextlib.suppress(OSError):  # for people; the store has it
        await asyncio.to_thread(target.path.mkdir, parents=True, exist_ok=True)
        target.write_config(json.loads(settings))
    return ForkReport(target.name, str(target), source.name, step)


async def _to_folder(source: SessionFolder, store: SqlStore, target: SessionFolder, step: int, event: Event) -> None:
    if target.store.exists() or target.workspace.exists():
        raise StoreFault(f"{target.store if target.store.exists() else target.workspace} is there already")
    stored = await store.files() if isinstance(store, PostgresStore) else {}
    try:
        # first, so that a session that is there has them
        await asyncio.to_thread(_copy_files, source, target, stored)
        await fork(store, target.store, step, event)
    except BaseException:
        if not target.store.exists():
            shutil.rmtree(target.workspace, ignore_errors=True)
        raise


def _copy_files(source: SessionFolder, target: SessionFolder, stored: dict[str, bytes]) -> None:
    try:
        if source.workspace.is_dir():
            shutil.copytree(source.workspace, target.workspace, symlinks=True)
        for name, body in stored.items():
            if not (source.workspace / name).exists():
                write_file(target.workspace, name, body)
    except OSError as fault:
        raise StoreFault(f"the files of {source.name} cannot be copied: {fault}") from fault

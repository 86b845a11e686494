"""Compaction of a session where it lies: owned meanwhile, its trajectory in step, its free pages given back."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from agent.citations import find_mentions
from memory.errors import StoreFault
from memory.index.wordfile import SUFFIX as WORDS
from memory.lifecycle.compact import Compaction, CompactReport, compact
from memory.ports import ChunkStore
from memory.store.postgres import PostgresStore
from memory.store.sizes import shrink
from memory.store.sqlstore import SqlStore
from memory.stored import Event
from memory.tokens import ScriptCounter
from runners.clock import SystemClock
from runners.folders import SessionFolder
from runners.stores import open_store
from runners.trajectory import TrajectoryFile

PAGE = 64
"""Steps read at once."""
OUTDATED = "trajectory.outdated"
"""Key in the store's ``meta``: "1" while texts are evicted of which the trajectory may hold copies."""


async def compact_session(folder: SessionFolder, wanted: Compaction) -> CompactReport:
    """Compact a session; what an answer cites is spared. Raises StoreBusy while another process holds it, NotStored."""
    async with await open_store(folder, create=False, read_only=wanted.dry_run) as store:
        if not wanted.dry_run:
            await store.claim("compact")
        asked = replace(wanted, spared=wanted.spared | await cited(store))
        if wanted.dry_run:
            return await compact(store, asked, ScriptCounter(), SystemClock())
        cut_off = await store.meta(OUTDATED) == "1"
        if wanted.rule is not None:
            await store.set_meta({OUTDATED: "1"})
        report = await compact(store, asked, ScriptCounter(), SystemClock())
        if report.evicted or cut_off:
            await _write_trajectory(folder, store)
            _forget_words(store)
        if wanted.rule is not None or cut_off:
            await store.set_meta({OUTDATED: ""})
        if isinstance(store, PostgresStore):
            await store.index_keys()
        if report.packed or report.views_merged or report.evicted:
            await store.add_event(Event("compacted", time.time(), {"packed": report.packed, "evicted": report.evicted}))
    assert report.sizes is not None
    if folder.address is not None:
        return report  # the server gives room back by itself
    try:
        shrink(folder.store)
    except StoreFault as fault:
        report.problem = str(fault)
    report.freed = report.sizes.file - folder.store.stat().st_size
    return report


def _forget_words(store: SqlStore) -> None:
    beside = store.beside(WORDS)
    if beside is not None:
        beside.unlink(missing_ok=True)


async def cited(store: ChunkStore) -> frozenset[int]:
    """The chunks that answers of the session cite."""
    answers = [facts.number for facts in await store.facts() if facts.kind == "answer"]
    found: set[int] = set()
    for first in range(0, len(answers), PAGE):
        for chunk in await store.chunks(answers[first : first + PAGE]):
            found.update(mention.chunk for mention in find_mentions(chunk.step.answer))
    return frozenset(found)


async def _write_trajectory(folder: SessionFolder, store: SqlStore) -> None:
    """Write the trajectory anew, whole or not at all: it held what was evicted."""
    fresh = folder.path / f"{folder.trajectory.name}.new"
    await asyncio.to_thread(fresh.unlink, missing_ok=True)
    writing, last = TrajectoryFile(fresh), await store.last_step()
    for first in range(1, last + 1, PAGE):
        chunks = await store.chunks(range(first, min(first + PAGE, last + 1)))
        await asyncio.to_thread(writing.append, [chunk.step for chunk in chunks])
    await asyncio.to_thread(fresh.replace, folder.trajectory)

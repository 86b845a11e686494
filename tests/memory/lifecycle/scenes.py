"""Sessions with copies, near copies, citations and glimpses, for compaction."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

from memory.config import MemoryConfig
from memory.lifecycle.compact import Compaction, CompactReport, compact
from memory.lifecycle.tombstones import EvictionRule
from memory.manager import Memory
from memory.records import ChunkRef, Observation, Step, ToolCall
from memory.store.sqlite import SqliteStore
from memory.tokens import ScriptCounter
from tests.memory.sessions import FakeClock, open_memory, page, visit_step

STEPS, BUDGET = 60, 6_000
COPY_OF, NEAR_TO, GLIMPSED, CITED = {21: 4, 33: 4, 34: 7}, {25: 9, 40: 9}, {30: 6}, 11
CONFIG = MemoryConfig(budget=BUDGET)
COUNTER = ScriptCounter()
COMPACT = Compaction(hot=10)
EVICT = Compaction(hot=10, rule=EvictionRule(before_step=30), spared=frozenset({CITED}))


def text_of(number: int) -> str:
    """What step ``number`` sees: pages of 40 sentences, some of them seen before."""
    if number in COPY_OF:
        return text_of(COPY_OF[number])
    if number in NEAR_TO:
        lines = text_of(NEAR_TO[number]).split(". ")
        random.Random(number).shuffle(lines)
        return ". ".join([*lines[2:], f"The bridge of step {number} was closed in 1{number}9"])
    return page(number, sentences=40)


def step(number: int) -> Step:
    if number in GLIMPSED:
        call = ToolCall(f"s{number}.0", "glimpse", {"chunk_id": f"c{GLIMPSED[number]}"})
        seen = Observation(call.id, "glimpse", "shown in full below", refs=(ChunkRef(GLIMPSED[number]),))
        return Step(number, calls=(call,), observations=(seen,), created=1_000_000.0 + number)
    if number == STEPS:
        return Step(number, "answer", answer=f"In 1831 [c{CITED}].", question="Which?", created=1_000_000.0 + number)
    return replace(visit_step(number, text_of(number)), created=1_000_000.0 + number)


async def fill(path: Path, policy: str = "pace", config: MemoryConfig = CONFIG) -> None:
    """A whole session with its contexts, keys and summaries."""
    async with open_memory(path, policy=policy, config=config) as memory:
        await memory.ask("Which harbours were rebuilt, and what did they cost?")
        for number in range(1, STEPS + 1):
            await memory.assemble(BUDGET)
            await memory.ingest(step(number))
        await memory.assemble(BUDGET)
        await memory.drain()


async def run(path: Path, wanted: Compaction) -> CompactReport:
    async with await SqliteStore.open(path, create=False, read_only=wanted.dry_run) as store:
        if not wanted.dry_run:
            await store.claim("compact")
        return await compact(store, wanted, COUNTER, FakeClock(1_800_000_000.0))


async def full_texts(memory: Memory) -> list[str]:
    return [await memory.recall.full_text(number) for number in range(1, memory.steps + 1)]


async def texts_and_hashes(
    path: Path, policy: str = "pace", config: MemoryConfig = CONFIG
) -> tuple[list[str], list[bool]]:
    """FULL texts of every step, and whether each context rebuilds to its hash."""
    async with open_memory(path, policy=policy, config=config) as memory:
        return await full_texts(memory), [one.same for one in await memory.rebuild_all()]

"""Real memories for tests: SQLite, the extractive summariser in its process, the hashing encoder."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from memory.config import MemoryConfig
from memory.encoders.hashing import HashingEncoder
from memory.formats import PlainFormat
from memory.manager import Memory, MemoryParts
from memory.policies.registry import make_policy
from memory.ports import BlockMaker, Encoder
from memory.records import Observation, Source, Step, ToolCall
from memory.store.address import Address
from memory.summaries.build import build_worker
from memory.summaries.config import SummaryConfig
from memory.summaries.ranges import build_blocks
from memory.tokens import ScriptCounter
from tests.memory.store.places import open_at


class FakeClock:
    """Time that moves when it is told to."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now


@asynccontextmanager
async def open_memory(
    path: Path | Address,
    *,
    policy: str = "pace",
    options: Mapping[str, object] | None = None,
    config: MemoryConfig | None = None,
    summaries: SummaryConfig | None = None,
    encoder: Encoder | None = None,
    system: str = "",
    blocks: BlockMaker | None = None,
) -> AsyncIterator[Memory]:
    """A memory over the store at ``path``, made when missing. Summaries: lockstep, unless told otherwise."""
    store = await open_at(path, create=True)
    counter, clock = ScriptCounter(), FakeClock()
    settings = summaries or SummaryConfig(publish="lockstep")
    encoder, chosen = encoder or HashingEncoder(), make_policy(policy, options)
    judge = encoder if "fidelity" in chosen.needs else None
    parts = MemoryParts(
        store=store,
        encoder=encoder,
        policy=chosen,
        form=PlainFormat(system),
        counter=counter,
        clock=clock,
        summaries=build_worker(settings, store, clock, counter, encoder=judge),
        blocks=blocks or build_blocks(settings, counter),
        lockstep=settings.publish == "lockstep",
    )
    memory = await Memory.open(parts, config or MemoryConfig())
    try:
        yield memory
    finally:
        await memory.aclose()


TOPICS = ("glaciers", "harbours", "violins", "bridges", "comets", "orchards", "tariffs", "lanterns")


def page(seed: int, sentences: int = 30) -> str:
    """Deterministic prose with names, numbers and dates; seeds that are equal modulo 8 share a topic."""
    rng = random.Random(seed)
    topic = TOPICS[seed % len(TOPICS)]
    return " ".join(
        f"The {rng.choice(['northern', 'old', 'second', 'royal'])} {topic} of {rng.choice(['Varden', 'Osk', 'Lirne'])} "
        f"were {rng.choice(['surveyed', 'rebuilt', 'sold', 'counted'])} in {rng.randint(1700, 2020)} "
        f"and cost {rng.randint(10, 9999)} crowns."
        for _ in range(sentences)
    )


def visit_step(number: int, text: str, title: str = "") -> Step:
    """A step that visited a page."""
    call = ToolCall(f"s{number}.0", "visit", {"urls": [f"http://corpus.local/{number}"]})
    source = Source(f"http://corpus.local/{number}", title or f"{TOPICS[number % len(TOPICS)]} {number}")
    return Step(
        number,
        thought=f"read about {TOPICS[number % len(TOPICS)]}",
        calls=(call,),
        observations=(Observation(call.id, "visit", text, sources=(source,)),),
        created=1_000_000.0 + number,
    )

"""What a session costs, measured here; what many cost, by a simulation of these costs; where the simulation breaks.

    python -m tests.perf.bench_sizing [--steps 200] [--sessions 8] [--think 10] [--cores N] [--json FILE]

Measured: sessions of visits to pages of 4,000 characters (of ``LONGSTRIDE_DATA``, else generated, which compress
better) under the policy `pace` and the embedded encoder, no model, no network: bytes by kind, processor time of
everything but the model, commits, memory, `sessions list`. Simulated: a machine of ``--cores``, its one disk, and
sessions that wait ``--think`` seconds for their model at each step (exponential), then take the processor, then the
disk, each first come first served. The same is done for real in one process, without waiting, and compared (by its
share of a core): that is how far the simulation can be trusted.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import heapq
import json
import math
import os
import random
import resource
import statistics
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

from memory.encoders.embedded import embedded_encoder
from memory.encoders.hashing import HashingEncoder
from memory.manager import Memory
from memory.store.sqlite import SqliteStore
from memory.summaries.config import SummaryConfig
from runners.sessions.catalogue import catalogue
from tests.memory.sessions import open_memory, visit_step
from tests.perf.bench_ann import texts

BUDGET = 32_000
CHARS = 4_000
"""Of a page."""
QUESTION = "When were the royal comets of Varden counted?"


@dataclass(frozen=True, slots=True)
class Costs:
    """Of one session on this machine. Seconds are of the processor unless it says wall."""

    steps: int
    empty_bytes: float
    bytes_a_step: dict[str, float]
    """By kind, the files beside the store left out."""
    file_by_dimensions: dict[int, int]
    """Bytes of the file for each step, by the dimensions of its key."""
    step_s: float
    """Everything but the model and the tools: context, commit, key, summaries."""
    summaries_s: float
    """That part of it."""
    commit_wall_s: float
    """Median of a commit, alone."""
    commits_a_second: float
    """Of sessions that commit at once."""
    open_bytes: float
    """Memory of an open session."""
    base_bytes: float
    """Memory of the process before."""
    list_s: float
    """`sessions list`, for each session."""


@dataclass(frozen=True, slots=True)
class Load:
    """``active`` sessions at a time on one machine."""

    active: int
    steps_a_second: float
    processor_busy: float
    disk_busy: float
    waited_p95_s: float
    """What one step waits for processor and disk, beyond what it takes of them."""


def simulate(costs: Costs, cores: int, active: int, think_s: float, steps: int = 20_000) -> Load:
    """A closed network: each of ``active`` sessions thinks, computes, commits, and begins again."""
    rng = random.Random(active)
    free, disk, commit_s = [0.0] * cores, 0.0, 1 / costs.commits_a_second
    events = [(rng.expovariate(1 / think_s) if think_s else 0.0, number, 0, 0.0) for number in range(active)]
    heapq.heapify(events)
    waits: list[float] = []
    now = computing = writing = 0.0
    while len(waits) < steps:
        now, number, stage, waited = heapq.heappop(events)
        if stage == 0:
            begins = max(now, heapq.heappop(free))
            heapq.heappush(free, begins + costs.step_s)
            computing += costs.step_s
            heapq.heappush(events, (begins + costs.step_s, number, 1, begins - now))
            continue
        begins = max(now, disk)
        disk = begins + commit_s
        writing += commit_s
        waits.append(waited + begins - now)
        think = rng.expovariate(1 / think_s) if think_s else 0.0
        heapq.heappush(events, (disk + think, number, 0, 0.0))
    waits.sort()
    return Load(
        active,
        len(waits) / now,
        min(1.0, computing / now / cores),
        min(1.0, writing / now),
        waits[int(0.95 * len(waits))],
    )


@lru_cache
def visited() -> list[str]:
    """Five hundred pages, each of several texts."""
    found: list[str] = []
    given = texts()
    while len(found) < 500:
        text = ""
        while len(text) < CHARS:
            text += next(given) + "\n"
        found.append(text[:CHARS])
    return found


async def walk(memory: Memory, steps: int) -> None:
    pages = visited()
    for number in range(memory.steps + 1, memory.steps + steps + 1):
        await memory.assemble(BUDGET)
        await memory.ingest(visit_step(number, pages[(number - 1) % len(pages)]))


def processor() -> float:
    """Seconds of this process and of its children that have ended."""
    return sum(use.ru_utime + use.ru_stime for use in map(resource.getrusage, (0, resource.RUSAGE_CHILDREN)))


@dataclass(frozen=True, slots=True)
class AtOnce:
    """So many sessions of so many steps, side by side in one process."""

    processor_s: float
    """All of it, children and closing included."""
    wall_s: float
    """Of the steps."""
    share: float
    """Of one core that the process had meanwhile; the rest went to other work, or to waiting for the disk."""
    each_bytes: float
    """Memory of one session while all were open."""


async def at_once(folder: Path, sessions: int, steps: int, kind: str) -> AtOnce:
    encoder, summaries = embedded_encoder(), SummaryConfig.model_validate({"kind": kind})
    visited()
    gc.collect()
    before, held = processor(), resident()
    async with AsyncExitStack() as stack:
        memories = [
            await stack.enter_async_context(
                open_memory(folder / f"{kind}-{number}.sqlite", encoder=encoder, summaries=summaries)
            )
            for number in range(sessions)
        ]
        for memory in memories:
            await memory.ask(QUESTION)
        start, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(walk(memory, steps) for memory in memories))
        wall = time.perf_counter() - start
        share = (time.process_time() - cpu) / wall
        each = (resident() - held) / sessions
        for memory in memories:
            await memory.drain()
    return AtOnce(processor() - before, wall, share, each)


def resident() -> int:
    """Bytes of this process's own, mapped files left out; 0 where the system does not say."""
    try:
        pages = Path("/proc/self/statm").read_text().split()
    except OSError:
        return 0
    return (int(pages[1]) - int(pages[2])) * os.sysconf("SC_PAGE_SIZE")


async def commits(folder: Path, sessions: int, each: int = 60) -> tuple[float, float]:
    """(median wall seconds of a commit alone, commits a second of ``sessions`` at once)."""

    pages = visited()

    async def commit(memory: Memory, times: list[float]) -> None:
        for _ in range(each):
            start = time.perf_counter()
            await memory.ingest(visit_step(memory.steps + 1, pages[memory.steps % len(pages)]))
            times.append(time.perf_counter() - start)

    off = SummaryConfig(kind="off", publish="lockstep")
    async with AsyncExitStack() as stack:
        paths = [folder / f"commits-{number}.sqlite" for number in range(sessions)]
        memories = [await stack.enter_async_context(open_memory(path, summaries=off)) for path in paths]
        alone: list[float] = []
        await commit(memories[0], alone)
        start = time.perf_counter()
        await asyncio.gather(*(commit(memory, []) for memory in memories))
        return statistics.median(alone), sessions * each / (time.perf_counter() - start)


async def stored(path: Path) -> tuple[dict[str, float], int]:
    async with await SqliteStore.open(path, create=False, read_only=True) as store:
        sizes = await store.sizes()
    parts = ("observations", "steps_text", "summaries", "keys", "plans", "other", "file")
    return {part: getattr(sizes, part) for part in parts}, sizes.steps


async def by_dimensions(folder: Path, steps: int = 80) -> dict[int, int]:
    found = {}
    for dim in (256, 384, 768, 1024, 1280):
        path, summaries = folder / f"dim-{dim}.sqlite", SummaryConfig(kind="extractive", publish="lockstep")
        async with open_memory(path, encoder=HashingEncoder(dim), summaries=summaries) as memory:
            await memory.ask(QUESTION)
            empty = path.stat().st_size
            await walk(memory, steps)
        found[dim] = round((path.stat().st_size - empty) / steps)
    return found


def listed(home: Path, sessions: int) -> float:
    """Seconds of `sessions list` for each of ``sessions`` of ten steps."""

    async def make() -> None:
        for number in range(sessions):
            folder = home / "runs" / f"s{number}"
            folder.mkdir(parents=True)
            off = SummaryConfig(kind="off", publish="lockstep")
            async with open_memory(folder / "session.sqlite", summaries=off) as memory:
                await memory.ask(QUESTION)
                await walk(memory, 10)

    asyncio.run(make())
    start = time.perf_counter()
    assert len(catalogue(home)) == sessions
    return (time.perf_counter() - start) / sessions


def measure(folder: Path, steps: int, sessions: int) -> tuple[Costs, AtOnce]:
    """The costs, and what ``sessions`` did for real."""
    base = resident()
    asyncio.run(at_once(folder, 1, 0, "off"))
    empty, _ = asyncio.run(stored(folder / "off-0.sqlite"))
    for file in folder.glob("off-0*"):
        file.unlink()
    (folder / "alone").mkdir()
    bare = asyncio.run(at_once(folder / "alone", 1, steps, "off")).processor_s / steps
    real = asyncio.run(at_once(folder, sessions, steps, "off"))
    whole = asyncio.run(at_once(folder, 1, steps, "extractive"))
    sizes, count = asyncio.run(stored(folder / "extractive-0.sqlite"))
    alone, rate = asyncio.run(commits(folder, sessions))
    costs = Costs(
        steps=count,
        empty_bytes=empty["file"],
        bytes_a_step={part: round((size - empty[part]) / count) for part, size in sizes.items()},
        file_by_dimensions=asyncio.run(by_dimensions(folder)),
        step_s=max(bare, whole.processor_s / steps),
        summaries_s=max(0.0, whole.processor_s / steps - bare),
        commit_wall_s=alone,
        commits_a_second=rate,
        open_bytes=real.each_bytes,
        base_bytes=base,
        list_s=listed(folder, 40),
    )
    return costs, real


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=200, help="of each session")
    parser.add_argument("--sessions", type=int, default=8, help="measured side by side")
    parser.add_argument("--total", type=int, default=1_000_000, help="sessions that are extrapolated to")
    parser.add_argument("--think", type=float, default=10.0, help="seconds that a model takes")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        costs, real = measure(Path(scratch), options.steps, options.sessions)
    without = Costs(**{**asdict(costs), "step_s": costs.step_s - costs.summaries_s})
    # one process: its Python runs on one core at a time
    same = simulate(without, 1, options.sessions, 0.0, 2_000)
    loads = [
        simulate(costs, options.cores, active, options.think) for active in (1, 10, 100, 300, 1_000, 3_000, 10_000)
    ]
    most = max(load.steps_a_second for load in loads)
    steps, per = options.total * costs.steps, costs.bytes_a_step["file"]
    report = {
        "load_average": os.getloadavg()[0],
        "costs": asdict(costs),
        "loads": [asdict(load) for load in loads],
        "checked": {
            "simulated_steps_a_second": same.steps_a_second,
            "for_real": options.sessions * options.steps / real.wall_s,
            "share_of_a_core": real.share,
        },
        "total": {
            "sessions": options.total,
            "steps": steps,
            "tib": (options.total * costs.empty_bytes + steps * per) / 2**40,
            "days_on_this_machine": steps / most / 86_400,
            "machine_days_of_one_core": steps * costs.step_s / 86_400,
            "list_hours": options.total * costs.list_s / 3_600,
            "sessions_waiting_for_a_model": math.ceil(most * options.think),
        },
    }
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Long sessions with large observations, measured from outside: memory, descriptors, threads, time a step, the store.

``python -m tests.soak.run STEPS [CHARS]`` runs one and prints its figures, as JSON with ``--json``; ``--no-summaries``
leaves those out, ``--policy=NAME`` takes another policy, ``--within=SECONDS`` stops early when it has taken so long.
"""

from __future__ import annotations

import asyncio
import gc
import json
import math
import os
import random
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import quantiles

from agent.limits import LimitsConfig
from memory.config import MemoryConfig
from memory.records import Observation, Reply, Request, Source, ToolCall
from memory.store.database import READERS
from memory.summaries.config import SummaryConfig
from runners.trajectory import TrajectoryFile
from tests.agent.bench import AnyArguments, Bench, FakeTool, Setup, bench
from tests.memory.sessions import page
from tools.base import CallContext

KEY_BYTES = 4 * 256
"""Of one key of the hashing encoder."""
CHARS = 50_000
BUDGET = 32_000


@dataclass(frozen=True, slots=True)
class Sample:
    """The process after ``step`` steps. ``rss``: bytes."""

    step: int
    rss: int
    descriptors: int
    threads: int


@dataclass(slots=True)
class Soak:
    """What was measured. ``seconds`` (on the clock) and ``busy`` (of the processor, every thread of the process): of
    every step, all of it but the making of its page."""

    samples: list[Sample] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)
    text_bytes: int = 0
    store_bytes: int = 0
    pending: int = 0
    """Summaries that were still to be made when the last step was done."""

    def p95(self, last: int) -> float:
        """Seconds of the 95th percentile of the ``last`` steps."""
        return quantiles(self.seconds[-last:], n=20)[-1]

    def quietest(self, last: int, window: int = 100) -> float:
        """The lowest 95th percentile among windows of the ``last`` steps: the one that no other load disturbed."""
        tail = self.seconds[-last:]
        return min(quantiles(tail[at : at + window], n=20)[-1] for at in range(0, len(tail) - window + 1, window))

    def busy_p95(self, last: int) -> float:
        """The same as `quietest` of the time that the process was busy: other load makes that longer too."""
        tail = self.busy[-last:]
        return min(quantiles(tail[at : at + 100], n=20)[-1] for at in range(0, max(1, len(tail) - 99), 100))


class Pages(FakeTool):
    """Every call is a page of its own, from a stock of sentences."""

    def __init__(self, chars: int) -> None:
        super().__init__("visit")
        self.stock = [page(seed, 12) for seed in range(4_000)]
        self.chars = chars
        self.count = 0
        self.bytes = 0
        self.making = 0.0

    async def run(self, arguments: AnyArguments, context: CallContext) -> Observation:
        started = time.perf_counter()
        self.count += 1
        rng = random.Random(self.count)
        text = "\n".join(rng.choices(self.stock, k=self.chars // 800))
        text = (text + "\n" + " ".join(rng.choices(self.stock, k=20)))[: self.chars]
        self.bytes += len(text)
        self.making += time.perf_counter() - started
        url = f"http://x.test/{self.count}"
        return Observation(context.call_id, self.name, text, sources=(Source(url, f"Page {self.count}"),))


class Visits:
    """A model that visits page after page and never answers; it keeps nothing of what it is sent."""

    name = model = "visits"
    window = 131_072
    supports_tools = supports_schema = True
    supports_images = False

    def __init__(self) -> None:
        self.count = 0

    async def complete(self, request: Request) -> Reply:
        self.count += 1
        call = ToolCall("p0", "visit", {"urls": [f"http://x.test/{self.count}"]})
        return Reply(f"next, page {self.count}", tool_calls=(call,), stop_reason="tool_calls")

    async def aclose(self) -> None:
        return None


async def soak(
    folder: Path,
    steps: int,
    *,
    every: int,
    chars: int = CHARS,
    policy: str = "pace",
    summaries: bool = True,
    within: float = math.inf,
) -> Soak:
    """A session of ``steps`` steps in ``folder``, sampled ``every`` so many."""
    made, pages = Soak(), Pages(chars)
    setup = Setup(
        limits=LimitsConfig(max_steps=steps),
        memory=MemoryConfig(budget=BUDGET),
        summaries=SummaryConfig(kind="extractive" if summaries else "off"),
        policy=policy,
        record=False,
    )
    store = folder / "session.sqlite"
    async with bench(store, Visits(), [pages], setup) as session:
        session.loop.bus.subscribe(TrajectoryFile(folder / "trajectory.jsonl").on_event)
        await session.memory.ask("Which of the places described was surveyed first?")
        await start_threads(session)
        await _steps(session, pages, made, (steps, every), time.monotonic() + within)
        made.pending = session.memory.pending_summaries
    made.text_bytes = pages.bytes
    made.store_bytes = store.stat().st_size
    return made


async def _steps(session: Bench, pages: Pages, made: Soak, steps_every: tuple[int, int], end: float) -> None:
    steps, every = steps_every
    while session.memory.steps < steps and time.monotonic() < end:
        started, busy, making = time.perf_counter(), time.process_time(), pages.making
        await session.loop.step()
        spent = pages.making - making
        made.seconds.append(time.perf_counter() - started - spent)
        made.busy.append(time.process_time() - busy - spent)
        if session.memory.steps % every == 0:
            gc.collect()
            made.samples.append(sample(session.memory.steps))


async def start_threads(session: Bench) -> None:
    """Every thread that the session may use, so that none is counted as new later."""
    count = min(32, (os.cpu_count() or 1) + 4)
    shared, readers = threading.Barrier(count), threading.Barrier(READERS)
    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(asyncio.to_thread(shared.wait))
        for _ in range(READERS):
            group.create_task(session.store._read(lambda _: readers.wait()))


def sample(step: int) -> Sample:
    """This process now. Needs /proc."""
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    return Sample(step, resident, descriptors, threading.active_count())


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def option(name: str, default: str) -> str:
    """``--name=VALUE`` of the command line."""
    return next((given.partition("=")[2] for given in sys.argv if given.startswith(f"--{name}=")), default)


def main() -> None:
    steps = int(sys.argv[1])
    chars = int(sys.argv[2]) if len(sys.argv) > 2 and sys.argv[2].isdigit() else CHARS
    summaries = "--no-summaries" not in sys.argv
    policy, within = option("policy", "pace"), float(option("within", "inf"))
    with folder() as path:
        started = time.monotonic()
        made = asyncio.run(
            soak(path, steps, every=max(1, steps // 20), chars=chars, policy=policy, summaries=summaries, within=within)
        )
        wall = time.monotonic() - started
    if "--json" in sys.argv:
        print(json.dumps(asdict(made)))  # noqa: T201
        return
    for one in made.samples:
        print(json.dumps(asdict(one)))  # noqa: T201
    last = min(500, steps)
    clock, busy = made.p95(last) * 1000, made.busy_p95(last) * 1000
    store = f"store {made.store_bytes / 1e6:.1f} MB of {made.text_bytes / 1e6:.1f} MB of text"
    print(  # noqa: T201
        f"{wall:.0f} s; p95 of the last {last}: {clock:.1f} ms, busy {busy:.1f} ms; {store}; {made.pending} pending"
    )


if __name__ == "__main__":
    main()

"""Whether summaries delay a step: ``python -m tests.perf.bench_summaries_delay [--json FILE] [--pairs N]``.

Goal: the median difference to a session without summaries is at most 1 %, whether the summariser is blocked for ever or
its child process is busy all the time. Steps with a model that takes 500 ms, in three sessions in turn; a step of one
is compared with the step of the session without summaries in the same round. The busy child runs in its own session's
turns only and is stopped in the others', which would otherwise be slowed as well.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from agent.backbones.scripted import ScriptedBackbone
from memory.records import Reply, Request, View
from memory.summaries.base import Summariser, SummaryJob
from memory.summaries.config import SummaryConfig
from memory.summaries.process import ExtractiveSummariser
from runners.report import write_json
from tests.agent.bench import Bench, FakeTool, Setup, bench, search
from tests.memory.sessions import page

MODEL_S = 0.5
WARM = 3
"""Rounds that are not measured: first imports, the child's start."""


class Blocked:
    """Never gives a summary."""

    producer, prompt_hash = "blocked", "0"

    async def summarise(self, job: SummaryJob) -> list[View]:
        await asyncio.Event().wait()
        return []

    async def aclose(self) -> None:
        return None


class Busy:
    """The real summariser, kept at big texts for ever; nothing of them is shown, so that contexts stay the same."""

    producer, prompt_hash = "busy", "0"

    def __init__(self) -> None:
        self.inner = ExtractiveSummariser(SummaryConfig())
        self.done = 0

    async def summarise(self, job: SummaryJob) -> list[View]:
        text = "\n".join(page(seed, 400) for seed in range(8))
        while True:
            await self.inner.summarise(SummaryJob(job.chunk, text, job.question, 100_000))
            self.done += 1

    async def aclose(self) -> None:
        self.signal(signal.SIGCONT)
        await self.inner.aclose()

    def signal(self, number: signal.Signals) -> None:
        if self.inner.pid is not None:
            os.kill(self.inner.pid, number)


async def measure(rounds: int, folder: Path) -> tuple[dict[str, list[float]], int]:
    """Seconds of every measured step by session, and how many big texts the busy child summarised meanwhile."""
    seconds: dict[str, list[float]] = {"absent": [], "blocked": [], "busy": []}
    busy = Busy()
    summarisers: dict[str, Summariser | None] = {"absent": None, "blocked": Blocked(), "busy": busy}
    async with AsyncExitStack() as stack:
        benches = {
            name: await stack.enter_async_context(asked(folder / name, summariser, WARM + rounds))
            for name, summariser in summarisers.items()
        }
        for number in range(WARM + rounds):
            # every session is first in a third of the rounds
            names = [*seconds][number % 3 :] + [*seconds][: number % 3]
            for name in names:
                busy.signal(signal.SIGCONT if name == "busy" else signal.SIGSTOP)
                began = time.perf_counter()
                await benches[name].loop.step()
                if number >= WARM:
                    seconds[name].append(time.perf_counter() - began)
        busy.signal(signal.SIGCONT)
    return seconds, busy.done


@asynccontextmanager
async def asked(folder: Path, summariser: Summariser | None, steps: int) -> AsyncIterator[Bench]:
    """A session with its question asked: every step searches for something new and gets a page."""
    queries = (f"harbour {number}" for number in range(steps))

    def reply(_: Request) -> Reply:
        return search(next(queries))

    model = ScriptedBackbone(reply, delay_s=MODEL_S)
    tool = FakeTool("search", [page(number, 40) for number in range(steps)])
    async with bench(folder, model, [tool], Setup(summariser=summariser)) as opened:
        await opened.memory.ask("What did the harbours of Varden cost?")
        opened.loop.start_question()
        yield opened


def differences(seconds: dict[str, list[float]]) -> dict[str, float]:
    """Median of the paired differences to the session without summaries, as a share of its median step."""
    base = statistics.median(seconds["absent"])
    return {
        name: statistics.median(x - y for x, y in zip(seconds[name], seconds["absent"], strict=True)) / base
        for name in ("blocked", "busy")
    }


def run(pairs: int) -> dict[str, float]:
    """Measure and report; the differences as shares."""
    with tempfile.TemporaryDirectory() as folder:
        seconds, summarised = asyncio.run(measure(pairs, Path(folder)))
    found = differences(seconds)
    for name, values in seconds.items():
        share = f", {found[name]:+.2%} to absent (median of {len(values)} pairs)" if name in found else ""
        sys.stdout.write(f"summariser {name:8} median step {1000 * statistics.median(values):.1f} ms{share}\n")
    sys.stdout.write(f"big texts summarised by the busy child: {summarised}\n")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", default="")
    parser.add_argument("--pairs", type=int, default=60)
    options = parser.parse_args()
    found = run(options.pairs)
    if options.json:
        write_json(dict(found), options.json)


if __name__ == "__main__":
    main()

"""Who runs trials: this process, several at a time (the workers of a Ray cluster: `runners.bench.ray_executor`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from itertools import islice
from typing import Protocol, TypeVar

from runners.bench.crew import Placement, Sign, work_off
from runners.bench.rows import TrialRow
from runners.bench.trial import Tell, Trial, run_trial
from runners.environment import Environment

T = TypeVar("T")
R = TypeVar("R")


class Executor(Protocol):
    """Runs trials in any order: a row for each, and signs of those under way. Closing the iterator cancels what is
    under way; it can be taken up again."""

    def run(self, trials: Sequence[Trial], environment: Environment) -> AsyncIterator[Sign]: ...


class LocalExecutor:
    """Trials in this process, ``concurrency`` at a time, in their order."""

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency

    def run(self, trials: Sequence[Trial], environment: Environment) -> AsyncIterator[Sign]:
        return work_off([_Here(environment)] * self._concurrency, Placement(trials, 1))


class _Here:
    """This process as a worker: it never dies alone."""

    name = ""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    async def join(self) -> None:
        """It is there."""

    async def run(self, trial: Trial, tell: Tell) -> TrialRow:
        return await run_trial(trial, self._environment, tell)


async def bounded(
    items: Iterable[T], work: Callable[[T], Coroutine[object, object, R]], concurrency: int
) -> AsyncIterator[R]:
    """Results as they come, ``concurrency`` of them in work. Closed or failed, it cancels the rest and waits for it."""
    waiting = iter(items)
    running: set[asyncio.Task[R]] = set()
    try:
        while True:
            running |= {asyncio.create_task(work(item)) for item in islice(waiting, concurrency - len(running))}
            if not running:
                return
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                yield task.result()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

"""Who runs trials: this process, several at a time (the workers of a Ray cluster: `runners.bench.ray_executor`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from runners.bench.rows import TrialRow
from runners.bench.trial import Trial, run_trial
from runners.environment import Environment


class Executor(Protocol):
    """Runs trials in any order. Closing the iterator cancels what is under way; it can be taken up again."""

    def run(self, trials: Sequence[Trial], environment: Environment) -> AsyncIterator[TrialRow]: ...


class LocalExecutor:
    """Trials in this process, ``concurrency`` at a time."""

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency

    async def run(self, trials: Sequence[Trial], environment: Environment) -> AsyncIterator[TrialRow]:
        waiting = iter(trials)
        running: set[asyncio.Task[TrialRow]] = set()
        try:
            while True:
                while len(running) < self._concurrency and (trial := next(waiting, None)) is not None:
                    running.add(asyncio.create_task(run_trial(trial, environment), name=str(trial.key)))
                if not running:
                    return
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    yield task.result()
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

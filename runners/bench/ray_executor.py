"""Trials on a Ray cluster (extra ``ray``)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from runners.bench.rows import TrialRow
from runners.bench.trial import Trial, run_trial
from runners.environment import Environment
from runners.errors import UsageFault


class RayExecutor:
    """Trials on a cluster started here for the time of the run, or on the one at ``address``.

    Every worker has to see the folders of the run, the data and the corpus under the same paths. A worker that dies
    costs nothing but time: its trial is taken up again from its last whole step.
    """

    def __init__(self, workers: int, address: str | None = None) -> None:
        """Raises UsageFault where Ray is not installed."""
        self._ray = _library()
        self._workers = workers
        self._address = address

    async def run(self, trials: Sequence[Trial], environment: Environment) -> AsyncIterator[TrialRow]:
        self._start()
        try:
            work = self._ray.remote(num_cpus=1, max_retries=3)(_work)
            waiting = iter(trials)
            running: set[asyncio.Task[TrialRow]] = set()
            while True:
                while len(running) < self._workers and (trial := next(waiting, None)) is not None:
                    running.add(asyncio.create_task(_result(work.remote(trial, environment)), name=str(trial.key)))
                if not running:
                    return
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    yield task.result()
        finally:
            self._ray.shutdown()

    def _start(self) -> None:
        quiet = {"log_to_driver": False, "logging_level": "error"}
        if self._address is not None:
            self._ray.init(address=self._address, **quiet)
        else:
            self._ray.init(address="local", num_cpus=self._workers, include_dashboard=False, **quiet)


async def _result(reference: Any) -> TrialRow:
    row: TrialRow = await reference
    return row


def _work(trial: Trial, environment: Environment) -> TrialRow:
    """In a worker."""
    return asyncio.run(run_trial(trial, environment))


def _library() -> Any:
    try:
        import ray
    except ImportError as fault:
        raise UsageFault("--executor ray needs Ray", hint="pip install 'longstride[ray]'") from fault
    return ray

"""Trials on a Ray cluster (extra ``ray``)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

from runners.bench.executors import bounded
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
            rows = bounded(trials, lambda trial: _result(work.remote(trial, environment)), self._workers)
            async with aclosing(rows):  # type: ignore[type-var]
                async for row in rows:
                    yield row
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

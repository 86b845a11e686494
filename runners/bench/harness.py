"""A run: what is left of its plan, done by an executor, written down one by one, within its limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path

from memory.store.address import Address
from runners.bench.crew import Sign
from runners.bench.executors import Executor
from runners.bench.places import Sessions, Shelf, new_run, settled
from runners.bench.results import Results
from runners.bench.rows import RunPlan, TrialKey, TrialRow
from runners.bench.secrecy import (
    Sealer,
    discard,
    expect_no_leak,
    private_environment,
    private_folder,
)
from runners.bench.standing import NO_LIMITS, Progress, RunLimits, Standing
from runners.bench.tasks import Answered, Benchmark, Dataset
from runners.bench.trajectories import keep_trajectory
from runners.bench.trial import Trial
from runners.environment import Environment
from runners.errors import UsageFault
from runners.folders import SessionFolder
from runners.stores import knowing

IN_A_ROW = 5
"""Trials that end one after another without a result, after which the run stops: what fails them will not go away."""


@dataclass(frozen=True, slots=True)
class Ran:
    """How a run ended. ``stopped``: why before its end; empty when every trial has its result or was tried."""

    progress: Progress
    stopped: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """One run: where, of what, by whom. ``sessions``: kept in that folder or database, also those of a private set;
    None: beside the results, or for a private set in memory until their result is written."""

    out: Path
    plan: RunPlan
    benchmark: Benchmark
    dataset: Dataset
    environment: Environment
    limits: RunLimits = NO_LIMITS
    sessions: Sessions | None = None
    told: Callable[[Progress], None] | None = None

    @property
    def volatile(self) -> bool:
        """Whether sessions go when their result is written."""
        return self.benchmark.private and self.sessions is None


async def run(job: Job, executor: Executor) -> Ran:
    """Every trial of the plan that has no result yet. Raises UsageFault (see `Results`), and what `run_trial` raises.

    Interrupted at any time, the same call goes on: finished trials are not run again, others from their last step.
    """
    results = Results(job.out, job.plan)
    try:
        todo = [key for key in job.plan.trial_keys() if not results.finished(key)]
        trials, environment = await _prepared(job, results, todo) if todo else ([], job.environment)
        ran = await _run(job, executor, results, trials, environment)
        if job.volatile and all(map(results.finished, job.plan.trial_keys())):
            discard(private_folder(job.out, job.plan.shard))
    finally:
        results.close()
    if job.benchmark.private:
        expect_no_leak([job.out], job.dataset.tasks)
    return ran


async def _prepared(job: Job, results: Results, todo: Sequence[TrialKey]) -> tuple[list[Trial], Environment]:
    """The trials, and what they run under."""
    shelf = await _shelf(job, results)
    environment = job.environment
    if shelf.database is not None:
        environment = knowing(environment, SessionFolder(shelf.folder, shelf.database))
    elif job.volatile:
        environment = private_environment(environment, shelf.folder)
    await _index(job, environment)
    return _trials(job, todo, shelf), environment


async def _shelf(job: Job, results: Results) -> Shelf:
    """Raises UsageFault where sessions of this run are in a database that is not named, StoreFault for one that cannot
    be reached."""
    kept = results.kept()
    if isinstance(job.sessions, Address):
        address, _ = await asyncio.to_thread(settled, job.sessions)
        run_name = results.keep_in(job.sessions.database, new_run()).run
        return Shelf.in_database(job.environment.home, address, run_name)
    if job.sessions is None and kept is not None:
        raise UsageFault(
            f"sessions of this run are in {kept.database}",
            hint=f"go on there: --sessions {kept.database}, or name a folder, where unfinished trials begin anew",
        )
    return Shelf(private_folder(job.out, job.plan.shard) if job.volatile else job.sessions or job.out / "sessions")


async def _index(job: Job, environment: Environment) -> None:
    """Index the corpus once, before several trials would do it at the same time. Raises UsageFault."""
    corpus = job.plan.corpus or job.dataset.corpus
    if corpus is None:
        return
    from tools.search.base import CorpusFault
    from tools.search.corpus import LocalCorpus

    try:
        opened = await asyncio.to_thread(LocalCorpus.open, corpus, environment.home / "cache" / "corpora")
    except CorpusFault as fault:
        raise UsageFault(str(fault), hint=fault.hint) from fault
    await opened.aclose()


async def _run(job: Job, executor: Executor, results: Results, trials: list[Trial], environment: Environment) -> Ran:
    measure = job.benchmark.measures[0] if job.benchmark.measures else ""
    standing = Standing(job.plan, results.rows, measure, job.limits, job.told)
    writer = _Writer(job, results, {trial.key: Path(trial.folder) for trial in trials})
    stopped = standing.limit()
    if not stopped:
        try:
            async with asyncio.timeout(standing.seconds_left) as limit:
                stopped = await _consume(executor.run(trials, environment), writer, standing)
        except TimeoutError:
            if not limit.expired():
                raise
            stopped = standing.out_of_time
    if stopped:
        for row in standing.cut_short():
            standing.take(writer.write(row))
    return Ran(standing.progress(), stopped)


async def _consume(signs: AsyncIterator[Sign], writer: _Writer, standing: Standing) -> str:
    """Rows are written and limits held to as signs come; returns why the run was stopped before its end."""
    failed = 0
    async with aclosing(signs):  # type: ignore[type-var]
        async for sign in signs:
            if isinstance(sign, TrialRow):
                sign = writer.write(sign)
                failed = 0 if sign.finished else failed + 1
            standing.take(sign)
            stopped = (_stop(sign, failed) if isinstance(sign, TrialRow) else "") or standing.limit()
            if stopped:
                return stopped
    return ""


class _Writer:
    """Writes rows down, with their official measures, sealed where they have to be."""

    def __init__(self, job: Job, results: Results, folders: Mapping[TrialKey, Path]) -> None:
        self._job, self._results, self._folders = job, results, folders
        self._tasks = {task.id: task for task in job.dataset.tasks}

    def write(self, row: TrialRow) -> TrialRow:
        """The row as it is on the disk now."""
        job, task = self._job, self._tasks[row.task]
        measures = job.benchmark.score(task, Answered(row.answer, row.visited)) if row.finished else {}
        sealer = Sealer.of(task, job.dataset, private=job.benchmark.private)
        sealed = sealer.sealed(replace(row, measures=measures))
        if job.volatile and row.finished:
            keep_trajectory(job.out, row.key, self._folders[row.key], sealer)
        self._results.append(sealed)
        if job.volatile and row.finished:
            discard(self._folders[row.key])
        return sealed


def _stop(row: TrialRow, failed: int) -> str:
    if row.status == "auth":
        return "the provider does not accept the key"
    if row.status == "storage_full":
        return "no space is left for sessions"
    return f"{failed} trials in a row gave no result ({row.status})" if failed >= IN_A_ROW else ""


def _trials(job: Job, keys: Sequence[TrialKey], shelf: Shelf) -> list[Trial]:
    tasks = {task.id: task for task in job.dataset.tasks}
    configs = {variant.label: variant.tree() for variant in job.plan.variants}
    corpus = job.plan.corpus or job.dataset.corpus
    return [
        Trial(
            key,
            tasks[key.task].prompt,
            configs[key.policy],
            str(place.path),
            tasks[key.task].files,
            corpus,
            place.address,
            job.benchmark.private,
        )
        for key, place in ((key, shelf.of(key)) for key in keys)
    ]

"""A run: what is left of its plan, done by an executor, written down one by one, within its limits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path

from runners.bench.executors import Executor
from runners.bench.results import Results
from runners.bench.rows import RunPlan, TrialKey, TrialRow
from runners.bench.secrecy import (
    Sealer,
    discard,
    expect_no_leak,
    private_environment,
    private_folder,
)
from runners.bench.tasks import Answered, Benchmark, Dataset, Task
from runners.bench.trajectories import keep_trajectory, trial_path
from runners.bench.trial import Trial
from runners.environment import Environment
from runners.errors import UsageFault

IN_A_ROW = 5
"""Trials that end one after another without a result, after which the run stops: what fails them will not go away."""


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Of the whole run, its earlier parts' money included. None: no limit."""

    max_cost: float | None = None
    max_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands. ``scores``: the mean of the first measure so far, by policy; None where a judge has to."""

    done: int
    planned: int
    scores: Mapping[str, float | None]
    cost: float | None
    without_result: int
    last: TrialRow | None = None


@dataclass(frozen=True, slots=True)
class Ran:
    """How a run ended. ``stopped``: why before its end; empty when every trial has its result or was tried."""

    progress: Progress
    stopped: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """One run: where, of what, by whom. ``sessions``: kept there, also those of a private set; None: beside the
    results, or for a private set in memory until their result is written."""

    out: Path
    plan: RunPlan
    benchmark: Benchmark
    dataset: Dataset
    environment: Environment
    limits: RunLimits = RunLimits()
    sessions: Path | None = None
    told: Callable[[Progress], None] | None = None

    @property
    def volatile(self) -> bool:
        """Whether sessions go when their result is written."""
        return self.benchmark.private and self.sessions is None


async def run(job: Job, executor: Executor) -> Ran:
    """Every trial of the plan that has no result yet. Raises UsageFault (see `Results`), and what `run_trial` raises.

    Interrupted at any time, the same call goes on: finished trials are not run again, others from their last step.
    """
    place = private_folder(job.out, job.plan.shard) if job.volatile else job.sessions or job.out / "sessions"
    environment = private_environment(job.environment, place) if job.volatile else job.environment
    results = Results(job.out, job.plan)
    try:
        todo = [key for key in job.plan.trial_keys() if not results.finished(key)]
        if todo:
            await _index(job, environment)
        ran = await _run(job, executor, results, [_trial(job, key, place) for key in todo], environment)
        if job.volatile and all(map(results.finished, job.plan.trial_keys())):
            discard(place)
    finally:
        results.close()
    if job.benchmark.private:
        expect_no_leak([job.out], job.dataset.tasks)
    return ran


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
    tasks = {task.id: task for task in job.dataset.tasks}
    folders = {trial.key: Path(trial.folder) for trial in trials}
    started, failed, last = time.monotonic(), 0, None
    stopped = _limit(job.limits, results.rows.values(), started)
    if not stopped:
        async with aclosing(executor.run(trials, environment)) as rows:  # type: ignore[type-var]
            async for row in rows:
                last = _written(job, results, tasks[row.task], row, folders[row.key])
                failed = 0 if row.finished else failed + 1
                if job.told is not None:
                    job.told(progress(job, results.rows, last))
                stopped = _stop(row, failed) or _limit(job.limits, results.rows.values(), started)
                if stopped:
                    break
    return Ran(progress(job, results.rows, last), stopped)


def _written(job: Job, results: Results, task: Task, row: TrialRow, folder: Path) -> TrialRow:
    """The row with its official measures, sealed where it has to be, on the disk."""
    measures = job.benchmark.score(task, Answered(row.answer, row.visited)) if row.finished else {}
    row = replace(row, measures=measures)
    sealer = Sealer.of(task, job.dataset, private=job.benchmark.private)
    sealed = sealer.sealed(row)
    if job.volatile and row.finished:
        keep_trajectory(job.out, row.key, folder, sealer)
    results.append(sealed)
    if job.volatile and row.finished:
        discard(folder)
    return sealed


def _stop(row: TrialRow, failed: int) -> str:
    if row.status == "auth":
        return "the provider does not accept the key"
    if row.status == "storage_full":
        return "no space is left for sessions"
    return f"{failed} trials in a row gave no result ({row.status})" if failed >= IN_A_ROW else ""


def _limit(limits: RunLimits, rows: Iterable[TrialRow], started: float) -> str:
    spent = sum(row.usage.cost or 0.0 for row in rows)
    if limits.max_cost is not None and spent >= limits.max_cost:
        return f"the limit of {limits.max_cost:g} US dollars is reached: {spent:.4f} spent"
    if limits.max_seconds is not None and time.monotonic() - started >= limits.max_seconds:
        return f"the limit of {limits.max_seconds:g} seconds is reached"
    return ""


def _trial(job: Job, key: TrialKey, place: Path) -> Trial:
    task = next(task for task in job.dataset.tasks if task.id == key.task)
    variant = next(variant for variant in job.plan.variants if variant.label == key.policy)
    folder = place / trial_path(key)
    corpus = job.plan.corpus or job.dataset.corpus
    return Trial(key, task.prompt, variant.tree(), str(folder), task.files, corpus)


def progress(job: Job, rows: Mapping[TrialKey, TrialRow], last: TrialRow | None = None) -> Progress:
    """Over the trials of this job's plan."""
    mine = [rows[key] for key in job.plan.trial_keys() if key in rows]
    first = job.benchmark.measures[0] if job.benchmark.measures else ""
    costs = [row.usage.cost for row in mine if row.usage.cost is not None]
    return Progress(
        done=sum(row.finished for row in mine),
        planned=sum(1 for _ in job.plan.trial_keys()),
        scores={variant.label: _mean(mine, variant.label, first) for variant in job.plan.variants},
        cost=sum(costs) if costs else None,
        without_result=sum(not row.finished for row in mine),
        last=last,
    )


def _mean(rows: list[TrialRow], label: str, measure: str) -> float | None:
    """A trial without a result counts 0; a finished one without measures has no gold to be held against."""
    mine = [row for row in rows if row.policy == label and (row.measures or not row.finished)]
    scored = any(measure in row.measures for row in mine)
    return sum(row.measures.get(measure, 0.0) for row in mine) / len(mine) if scored else None

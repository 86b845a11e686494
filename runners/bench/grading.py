"""`bench score`: every trial by the official rule, and by a judge; what it did not grade can be graded again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias

from runners.bench.executors import bounded
from runners.bench.results import read_results, result_files
from runners.bench.rows import GradeRow, TrialRow
from runners.bench.scores import Scores, answer_hash
from runners.bench.secrecy import Sealer, expect_no_leak
from runners.bench.table_judge import grade_table
from runners.bench.tasks import Answered, Benchmark, Dataset, Measures, Task
from runners.errors import UsageFault
from runners.scoring.judge import Judge, Judged

Again: TypeAlias = Literal["ungraded", "all"]
NO_ANSWER, BY_RULE, HIDDEN = "no answer", "by rule", "the split keeps its answers to itself"


@dataclass(slots=True)
class Graded:
    """What scoring did. ``official``: trials with official measures; ``grades`` of the judge, old ones included."""

    trials: int = 0
    official: int = 0
    grades: Counter[str] = field(default_factory=Counter)
    asked: int = 0
    """Trials that the judge was asked about this time."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Why trials are ungraded."""
    failed: int = 0
    """Trials that could not be graded this time: the judge failed, or left its verdict open. An old grade stays."""


@dataclass(frozen=True, slots=True)
class GradeJob:
    """One scoring. ``judge`` None: the official rule alone. ``again``: grade what has a grade already."""

    out: Path
    benchmark: Benchmark
    dataset: Dataset
    judge: Judge | None = None
    judge_name: str = ""
    again: Again = "ungraded"
    concurrency: int = 8
    told: Callable[[Graded, int], None] | None = None


async def grade(job: GradeJob) -> Graded:
    """Score every result. Raises UsageFault, AuthFailed and ModelMissing."""
    recorded = read_results(result_files(job.out))
    scores = Scores(job.out)
    try:
        tasks = {task.id: task for task in job.dataset.tasks}
        rows = [_opened(job, row, tasks) for row in recorded.rows.values()]
        graded = Graded(trials=len(rows))
        graded.official = sum(bool(official_measures(job.benchmark, tasks[row.task], row)) for row in rows)
        if job.judge is not None:
            await _judged(job, job.judge, scores, tasks, rows, graded)
    finally:
        scores.close()
    if job.benchmark.private:
        expect_no_leak([job.out], job.dataset.tasks)
    return graded


def _opened(job: GradeJob, row: TrialRow, tasks: dict[str, Task]) -> TrialRow:
    """The row with its answer in plaintext."""
    return opened(row, sealer_of(job.benchmark, job.dataset, tasks, row))


def opened(row: TrialRow, sealer: Sealer) -> TrialRow:
    """Raises UsageFault for a row that was sealed with other data."""
    try:
        return replace(row, answer=sealer.open(row.answer), message=sealer.open(row.message))
    except ValueError as fault:
        raise UsageFault(f"{row.key}: its answer cannot be opened with this data") from fault


def official_measures(benchmark: Benchmark, task: Task, row: TrialRow) -> Measures:
    """By the official rule; zeros for a trial without a result. ``row``: its answer in plaintext."""
    measures = benchmark.score(task, Answered(row.answer, row.visited))
    return measures if row.finished else dict.fromkeys(measures, 0.0)


def sealer_of(benchmark: Benchmark, dataset: Dataset, tasks: dict[str, Task], row: TrialRow) -> Sealer:
    """Raises UsageFault for a trial of another dataset."""
    task = tasks.get(row.task)
    if task is None:
        raise UsageFault(f"{row.key}: the data has no such task")
    return Sealer.of(task, dataset, private=benchmark.private)


async def _judged(
    job: GradeJob, judge: Judge, scores: Scores, tasks: dict[str, Task], rows: list[TrialRow], graded: Graded
) -> None:
    if job.benchmark.judge is None and not any(task.table for task in tasks.values()):
        raise UsageFault(f"{job.benchmark.name} needs no judge: its rule decides")
    todo = [row for row in rows if _wanted(job, scores, tasks[row.task], row)]
    made = bounded(todo, lambda row: _grade(job, judge, tasks[row.task], row), job.concurrency)
    async with aclosing(made):  # type: ignore[type-var]
        async for row in made:
            sealer = Sealer.of(tasks[row.task], job.dataset, private=job.benchmark.private)
            scores.append(sealer.sealed_grade(row))
            graded.asked += row.reason not in (NO_ANSWER, BY_RULE)
            graded.failed += row.grade == "ungraded" and row.reason != HIDDEN
            if job.told is not None:
                job.told(graded, len(todo))
    for trial in rows:
        found = scores.grades[trial.key, job.judge_name]
        graded.grades[found.grade] += 1
        if found.grade == "ungraded":
            sealer = Sealer.of(tasks[trial.task], job.dataset, private=job.benchmark.private)
            why = sealer.open(found.reason)
            # what a provider says may repeat the question
            graded.reasons[why.partition(":")[0] if job.benchmark.private else why] += 1


def _wanted(job: GradeJob, scores: Scores, task: Task, row: TrialRow) -> bool:
    old = scores.grades.get((row.key, job.judge_name))
    sealer = Sealer.of(task, job.dataset, private=job.benchmark.private)
    same = old is not None and old.answer_hash == answer_hash(row.answer, sealer.password)
    return job.again == "all" or not same or (old is not None and old.grade == "ungraded")


async def _grade(job: GradeJob, judge: Judge, task: Task, row: TrialRow) -> GradeRow:
    password = Sealer.of(task, job.dataset, private=job.benchmark.private).password
    measures: dict[str, float] = {}
    if not row.answer.strip():
        said = Judged("incorrect", reason=NO_ANSWER)
    elif task.table is not None:
        table = await grade_table(judge, task.table, row.answer)
        measures = table.measures
        right = measures["success"] == 1.0
        said = (
            Judged("ungraded", reason=table.failures[0], usage=table.usage)
            if table.failures
            else Judged("correct" if right else "incorrect", usage=table.usage)
        )
    else:
        said = await _ask(job, judge, task, row)
    return GradeRow(
        *_key(row),
        job.judge_name,
        said.grade,
        measures,
        said.extracted,
        said.reason,
        said.confidence,
        answer_hash(row.answer, password),
        said.usage,
    )


async def _ask(job: GradeJob, judge: Judge, task: Task, row: TrialRow) -> Judged:
    form = job.benchmark.judge
    assert form is not None
    if not task.golds:
        return Judged("ungraded", reason=HIDDEN)
    decided = form.decides(task, row.answer)
    if decided is not None:
        return Judged("correct" if decided else "incorrect", reason=BY_RULE)
    return await judge.grade(form.prompt(task, row.answer), form.parse)


def _key(row: TrialRow) -> tuple[str, str, int]:
    return row.policy, row.task, row.rollout

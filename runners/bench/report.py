"""The tables of a report: scores with intervals, paired differences, repeats, and what the runs took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from math import comb
from statistics import fmean

from memory.records import JsonValue, Usage, add_usage
from runners.bench.rows import TrialRow
from runners.bench.tally import ALL, JUDGE, Tally, Trials, majority
from runners.errors import UsageFault
from runners.replay.samples import estimate, paired
from runners.scoring.calibration import calibration_error


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """One measure of one policy over one group of questions. A question's value is the mean of its rollouts; ``low``
    and ``high``: 95 % by bootstrap over questions."""

    policy: str
    measure: str
    stratum: str
    n: int
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class PairRow:
    """A policy less the baseline, over the questions that both have. ``wins``, ``losses``: questions on which it is
    better, or worse."""

    policy: str
    against: str
    measure: str
    stratum: str
    n: int
    value: float
    low: float | None
    high: float | None
    wins: int
    losses: int


@dataclass(frozen=True, slots=True)
class RepeatRow:
    """Over k rollouts, by the deciding measure: ``passed`` is the chance that one of k is right (unbiased, Chen et al.,
    2021), ``average`` the mean, ``best`` the mean of each question's best, ``voted`` that of the majority's answer."""

    policy: str
    measure: str
    k: int
    n: int
    passed: float
    average: float
    best: float
    voted: float | None


@dataclass(frozen=True, slots=True)
class EffortRow:
    """What one policy's trials took, and how they ended. Means are over trials; null is unknown, never 0."""

    policy: str
    trials: int
    planned: int
    without_result: int
    terminations: dict[str, int]
    ungraded: int | None
    steps: float
    tool_calls: float
    tool_error_rate: float | None
    unsupported: int
    input_tokens: float | None
    output_tokens: float | None
    cached_share: float | None
    """Of all input, by the provider's word."""
    prefix_share: float | None
    """Of all input, what a prompt cache can hold, by our own count."""
    context_tokens: float
    peak_tokens: float
    cost: float | None
    """US dollars, all trials."""
    cost_per_question: float | None
    judge_cost: float | None
    seconds: float
    calibration_error: float | None


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """What one worker of a cluster did, over all policies. ``seconds``: at work on its trials, sums."""

    worker: str
    trials: int
    without_result: int
    steps: int
    cost: float | None
    seconds: float


@dataclass(frozen=True, slots=True)
class BenchReport:
    """One report."""

    benchmark: str
    title: str
    dataset: str
    baseline: str
    deciding: str
    judge: str
    questions: int
    seed: int
    scores: tuple[ScoreRow, ...]
    pairs: tuple[PairRow, ...]
    repeats: tuple[RepeatRow, ...]
    efforts: tuple[EffortRow, ...]
    workers: tuple[WorkerRow, ...] = ()
    """None where one process ran everything."""


def report(tally: Tally, baseline: str = "", seed: int = 0) -> BenchReport:
    """All tables. ``baseline``: the first policy by default. Raises UsageFault for one that is not there."""
    there = [each for each in tally.trials if each.rows]
    labels = [each.label for each in there]
    base = next((each for each in there if each.label == (baseline or labels[0])), None)
    if base is None:
        raise UsageFault(f"--baseline {baseline}: not among {', '.join(labels)}")
    return BenchReport(
        benchmark=tally.benchmark.name,
        title=tally.benchmark.title,
        dataset=tally.dataset.hash,
        baseline=base.label,
        deciding=tally.deciding,
        judge=tally.judge,
        questions=len(tally.strata()[ALL]),
        seed=seed,
        scores=tuple(_scores(tally, there, seed)),
        pairs=tuple(_pairs(tally, there, base, seed)),
        repeats=tuple(row for each in there for row in _repeats(tally, each)),
        efforts=tuple(_effort(tally, each) for each in there),
        workers=tuple(_workers(row for each in there for row in each.rows)),
    )


def to_json(made: BenchReport) -> dict[str, JsonValue]:
    """The report as plain JSON values."""
    plain: dict[str, JsonValue] = asdict(made)
    return plain


def _means(trials: Trials, measure: str, tasks: dict[str, object]) -> dict[str, float]:
    return {task: fmean(values) for task, values in trials.values(measure, tasks).items()}


def _scores(tally: Tally, there: Sequence[Trials], seed: int) -> list[ScoreRow]:
    rows = []
    for measure in tally.measures:
        for stratum, tasks in tally.strata().items():
            for each in there:
                means = _means(each, measure, tasks)
                if means:
                    # the name leaves the policy out: the same resamples for all
                    found = estimate(list(means.values()), seed, f"{measure} {stratum}")
                    rows.append(ScoreRow(each.label, measure, stratum, **asdict(found)))
    return rows


def _pairs(tally: Tally, there: Sequence[Trials], base: Trials, seed: int) -> list[PairRow]:
    rows = []
    for measure in tally.measures:
        for stratum, tasks in tally.strata().items():
            theirs = _means(base, measure, tasks)
            for each in there:
                ours = _means(each, measure, tasks)
                found = paired(ours, theirs, seed, f"{measure} {stratum}") if each is not base else None
                if found is None:
                    continue
                signs = Counter(
                    (ours[task] > theirs[task]) - (ours[task] < theirs[task]) for task in ours if task in theirs
                )
                rows.append(
                    PairRow(each.label, base.label, measure, stratum, **asdict(found), wins=signs[1], losses=signs[-1])
                )
    return rows


def _repeats(tally: Tally, trials: Trials) -> list[RepeatRow]:
    values = trials.values(tally.deciding)
    most = min(map(len, values.values()), default=0)
    if most < 2:
        return []
    answers: dict[str, list[tuple[str, float]]] = {}
    for row in (row for row in trials.rows if row.task in values):
        value = trials.measures[row.key].get(tally.deciding, 0.0)
        answers.setdefault(row.task, []).append((tally.benchmark.final(row.answer), value))
    rows = []
    for k in range(1, most + 1):
        passed = fmean(pass_at(k, len(each), sum(value >= 1.0 for value in each)) for each in values.values())
        average = fmean(fmean(each[:k]) for each in values.values())
        best = fmean(max(each[:k]) for each in values.values())
        voted = fmean(majority(each[:k]) for each in answers.values()) if tally.benchmark.name != "widesearch" else None
        rows.append(RepeatRow(trials.label, tally.deciding, k, len(values), passed, average, best, voted))
    return rows


def pass_at(k: int, n: int, right: int) -> float:
    """The chance that one of k draws without replacement from n rollouts, ``right`` of them right, is right."""
    return 1.0 - comb(n - right, k) / comb(n, k)


def _effort(tally: Tally, trials: Trials) -> EffortRow:
    rows = trials.rows
    usage = reduce(add_usage, (row.usage for row in rows))
    judged = reduce(add_usage, (grade.usage for grade in trials.grades.values()), Usage())
    calls, context = sum(row.tool_calls for row in rows), sum(row.context_tokens for row in rows)
    return EffortRow(
        policy=trials.label,
        trials=len(rows),
        planned=trials.planned,
        without_result=sum(not row.finished for row in rows),
        terminations=dict(Counter(row.status for row in rows).most_common()),
        ungraded=sum(grade.grade == "ungraded" for grade in trials.grades.values()) if tally.judge else None,
        steps=fmean(row.steps for row in rows),
        tool_calls=calls / len(rows),
        tool_error_rate=sum(row.tool_errors for row in rows) / calls if calls else None,
        unsupported=sum(row.unsupported for row in rows),
        input_tokens=None if usage.input_total is None else usage.input_total / len(rows),
        output_tokens=None if usage.output is None else usage.output / len(rows),
        cached_share=usage.cache_read / usage.input_total
        if usage.cache_read is not None and usage.input_total
        else None,
        prefix_share=sum(row.prefix_tokens for row in rows) / context if context else None,
        context_tokens=context / len(rows),
        peak_tokens=fmean(row.peak_tokens for row in rows),
        cost=usage.cost,
        cost_per_question=None if usage.cost is None else usage.cost / len({row.task for row in rows}),
        judge_cost=judged.cost,
        seconds=fmean(row.seconds for row in rows),
        calibration_error=_calibration(tally, trials, rows),
    )


def _workers(rows: Iterable[TrialRow]) -> list[WorkerRow]:
    mine: dict[str, list[TrialRow]] = {}
    for row in rows:
        if row.worker:
            mine.setdefault(row.worker, []).append(row)
    return [
        WorkerRow(
            worker=worker,
            trials=len(ran),
            without_result=sum(not row.finished for row in ran),
            steps=sum(row.steps for row in ran),
            cost=reduce(add_usage, (row.usage for row in ran)).cost,
            seconds=sum(row.seconds for row in ran),
        )
        for worker, ran in sorted(mine.items())
    ]


def _calibration(tally: Tally, trials: Trials, rows: Sequence[TrialRow]) -> float | None:
    """By the judge's reading of the stated confidence. A trial without one counts as 0, as upstream has it."""
    if not tally.benchmark.confident or JUDGE not in tally.measures:
        return None
    graded = [trials.grades[row.key] for row in rows if row.key in trials.grades]
    return calibration_error([grade.confidence for grade in graded], [grade.grade == "correct" for grade in graded])

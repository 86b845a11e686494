"""Figures of a report: scores with intervals, paired differences, score against context, pass@k (extra ``plots``)."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from runners.bench.report import BenchReport, PairRow, ScoreRow
from runners.bench.tally import ALL
from runners.errors import UsageFault
from runners.replay.figures import plotting, save


def draw(made: BenchReport, folder: Path) -> list[Path]:
    """Every figure that the report has the data for, as PNG and SVG; the files. Raises UsageFault."""
    pyplot = plotting()
    if not any(row.measure == made.deciding for row in made.scores):
        return []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [*_scores(made, folder, pyplot), *_pairs(made, folder, pyplot), *_cost(made, folder, pyplot),
                *_repeats(made, folder, pyplot)]  # fmt: skip
    except OSError as fault:
        raise UsageFault(f"--figures {folder}: cannot be written: {fault.strerror or fault}") from fault


def _scores(made: BenchReport, folder: Path, pyplot: ModuleType) -> list[Path]:
    rows = [row for row in made.scores if row.measure == made.deciding]
    strata = list(dict.fromkeys(row.stratum for row in rows))[:8]
    labels = list(dict.fromkeys(row.policy for row in rows))
    figure, axis = pyplot.subplots(figsize=(max(4.5, 1.1 * len(strata) * len(labels) ** 0.5 + 2), 3.4))
    width = 0.8 / len(labels)
    for at, label in enumerate(labels):
        mine = {row.stratum: row for row in rows if row.policy == label}
        there = [(place, mine[name]) for place, name in enumerate(strata) if name in mine]
        places = [place + (at - (len(labels) - 1) / 2) * width for place, _ in there]
        heights = [row.value for _, row in there]
        axis.bar(places, heights, width, label=label, yerr=_errors([row for _, row in there]), capsize=2)
    axis.set_xticks(range(len(strata)), strata)
    axis.set_ylim(0, 1.02)
    axis.set_ylabel(made.deciding.replace("_", " "))
    axis.legend(fontsize=7)
    return save(figure, folder, "scores", pyplot)


def _pairs(made: BenchReport, folder: Path, pyplot: ModuleType) -> list[Path]:
    rows = [row for row in made.pairs if row.stratum == ALL and row.measure == made.deciding]
    if not rows:
        return []
    figure, axis = pyplot.subplots(figsize=(5.2, 0.5 * len(rows) + 1.4))
    places = list(range(len(rows)))
    axis.errorbar([row.value for row in rows], places, xerr=_errors(rows), fmt="o", capsize=3)
    axis.axvline(0, color="grey", linewidth=0.8)
    axis.set_yticks(places, [row.policy for row in rows])
    axis.set_ylim(-0.6, len(rows) - 0.4)
    axis.invert_yaxis()
    axis.set_xlabel(f"{made.deciding.replace('_', ' ')} less {made.baseline}, same questions")
    return save(figure, folder, "differences", pyplot)


def _cost(made: BenchReport, folder: Path, pyplot: ModuleType) -> list[Path]:
    scores = {row.policy: row for row in made.scores if row.measure == made.deciding and row.stratum == ALL}
    figure, axis = pyplot.subplots(figsize=(4.6, 3.4))
    for effort in (each for each in made.efforts if each.policy in scores):
        row = scores[effort.policy]
        axis.errorbar([effort.context_tokens], [row.value], yerr=_errors([row]), fmt="o", label=effort.policy)
    axis.set_xlim(left=0)
    axis.set_xlabel("context tokens per question")
    axis.set_ylabel(made.deciding.replace("_", " "))
    axis.legend(fontsize=7)
    return save(figure, folder, "score-context", pyplot)


def _repeats(made: BenchReport, folder: Path, pyplot: ModuleType) -> list[Path]:
    if not made.repeats:
        return []
    figure, axis = pyplot.subplots(figsize=(4.6, 3.4))
    for label in dict.fromkeys(row.policy for row in made.repeats):
        mine = [row for row in made.repeats if row.policy == label]
        axis.plot([row.k for row in mine], [row.passed for row in mine], marker="o", markersize=3, label=label)
    axis.set_xlabel("k")
    axis.set_ylabel(f"pass@k, {made.deciding.replace('_', ' ')}")
    axis.legend(fontsize=7)
    return save(figure, folder, "pass-at-k", pyplot)


def _errors(rows: list[ScoreRow] | list[PairRow]) -> list[list[float]]:
    low = [0.0 if row.low is None else max(0.0, row.value - row.low) for row in rows]
    return [low, [0.0 if row.high is None else max(0.0, row.high - row.value) for row in rows]]

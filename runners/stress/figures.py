"""Figures of a stress run: growth, longevity, lambda, recall by distance, memory (extra ``plots``)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

from runners.errors import UsageFault
from runners.replay.figures import plotting, save
from runners.replay.samples import Estimate
from runners.stress.tables import RecallRow, StressReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Drawn: TypeAlias = bool


def draw(made: StressReport, folder: Path) -> list[Path]:
    """Every figure that there is data for, as PNG and SVG; the files. Raises UsageFault."""
    pyplot = plotting()
    figures: tuple[tuple[str, Callable[[StressReport, Axes], Drawn]], ...] = (
        ("growth", _growth),
        ("longevity", _longevity),
        ("latency", _latency),
        ("lambda", _lambda),
        ("recall", _recall),
        ("memory", _memory),
    )
    written: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, paint in figures:
            written += _drawn(made, folder, name, paint, pyplot)
    except OSError as fault:
        raise UsageFault(f"--to {folder}: cannot be written: {fault.strerror or fault}") from fault
    return written


def _drawn(
    made: StressReport, folder: Path, name: str, paint: Callable[[StressReport, Axes], Drawn], pyplot: ModuleType
) -> list[Path]:
    figure, axis = pyplot.subplots(figsize=(7, 4))
    if paint(made, axis):
        return save(figure, folder, name, pyplot)
    pyplot.close(figure)
    return []


def _growth(made: StressReport, axis: Axes) -> Drawn:
    for curve in made.curves:
        if curve.tokens:
            axis.plot(*zip(*curve.tokens, strict=True), linewidth=1.1, label=curve.label)
    for budget in {row.budget for row in made.cells}:
        axis.axhline(budget, color="grey", linewidth=0.7, linestyle=":")
    axis.set_xscale("log")
    axis.set_yscale("log")
    return _labelled(axis, "step", "context, tokens (dotted: budget)")


def _longevity(made: StressReport, axis: Axes) -> Drawn:
    rows = list(made.cells)
    places = list(range(len(rows)))
    ended = ["tab:blue" if row.status == "context_exhausted" else "tab:green" for row in rows]
    axis.barh(places, [row.steps for row in rows], color=ended)
    for at, row in enumerate(rows):
        beyond = "" if row.status == "context_exhausted" else "+"
        axis.annotate(f" {row.steps:,}{beyond}", (max(1, row.steps), at), va="center", fontsize=8)
    published = [(row.published, at) for at, row in enumerate(rows) if row.published is not None]
    if published:
        axis.scatter(*zip(*published, strict=True), marker="|", s=160, color="black", label="paper", zorder=3)
        axis.legend(fontsize=7)
    axis.set_yticks(places, [row.label for row in rows])
    axis.invert_yaxis()
    axis.set_xscale("log")
    axis.margins(x=0.15)
    axis.set_xlabel("steps (green: not ended by its context)")
    return bool(rows)


def _latency(made: StressReport, axis: Axes) -> Drawn:
    for label in dict.fromkeys(row.label for row in made.latency):
        mine = [row for row in made.latency if row.label == label]
        axis.plot([row.step for row in mine], [100 * row.share for row in mine], marker="o", markersize=3, label=label)
    axis.set_xscale("log")
    return _labelled(axis, "step", "assembly, % of a step") if made.latency else False


def _lambda(made: StressReport, axis: Axes) -> Drawn:
    rows = sorted((row for row in made.cells if row.lam is not None), key=lambda row: row.lam or 0.0)
    if len({row.lam for row in rows}) < 2:
        return False
    recall = axis.twinx()
    for budget in dict.fromkeys(row.budget for row in rows):
        mine = [row for row in rows if row.budget == budget]
        lams = [row.lam for row in mine]
        axis.plot(lams, [row.steps for row in mine], marker="o", label=f"steps, {budget:,}")
        for distance in dict.fromkeys(row.distance for row in made.recall):
            found = [
                (cell.lam, row.shown.value)
                for cell in mine
                for row in made.recall
                if (row.label, row.policy, row.distance) == (cell.label, cell.policy, distance)
            ]
            if found:
                recall.plot(
                    *zip(*found, strict=True), marker="x", linestyle="--", label=f"recall {distance}, {budget:,}"
                )
    axis.set_xlabel("lambda")
    axis.set_ylabel("steps")
    recall.set_ylabel("recall (dashed)")
    recall.set_ylim(0, 1.02)
    lines = [*axis.get_legend_handles_labels()[0], *recall.get_legend_handles_labels()[0]]
    axis.legend(handles=lines, fontsize=7)
    return True


def _recall(made: StressReport, axis: Axes) -> Drawn:
    several = len({row.label for row in made.recall}) > 1
    for label, policy in dict.fromkeys((row.label, row.policy) for row in made.recall):
        mine = sorted(_of(made, label, policy), key=lambda row: row.distance)
        values = [row.shown.value for row in mine]
        axis.errorbar(
            [row.distance for row in mine],
            values,
            yerr=[[_below(row.shown) for row in mine], [_above(row.shown) for row in mine]],
            marker="o",
            markersize=3,
            capsize=2,
            label=label if several else policy,
        )
    axis.set_xscale("log")
    axis.set_ylim(-0.02, 1.02)
    return _labelled(axis, "steps since the fact was seen", "shown in the context") if made.recall else False


def _of(made: StressReport, label: str, policy: str) -> list[RecallRow]:
    return [row for row in made.recall if (row.label, row.policy) == (label, policy)]


def _below(of: Estimate) -> float:
    return 0.0 if of.low is None else max(0.0, of.value - of.low)


def _above(of: Estimate) -> float:
    return 0.0 if of.high is None else max(0.0, of.high - of.value)


def _memory(made: StressReport, axis: Axes) -> Drawn:
    for curve in made.curves:
        if curve.memory:
            axis.plot(*zip(*curve.memory, strict=True), linewidth=1.1, label=curve.label)
    return _labelled(axis, "step", "resident, MB")


def _labelled(axis: Axes, across: str, up: str) -> Drawn:
    axis.set_xlabel(across)
    axis.set_ylabel(up)
    if not axis.has_data():
        return False
    axis.legend(fontsize=7)
    return True

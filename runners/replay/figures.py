"""Figures of a replay: recall against budget, context against step. Needs matplotlib (extra ``plots``)."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from runners.errors import UsageFault
from runners.replay.report import ReplayReport
from runners.replay.rows import CurveRow, ReplayRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = ("png", "svg")


def plotting() -> ModuleType:
    """matplotlib's pyplot on a backend that needs no display. Raises UsageFault where it is not installed."""
    try:
        import matplotlib
    except ImportError as fault:
        raise UsageFault("figures need matplotlib", hint="pip install 'longstride[plots]'") from fault
    matplotlib.use("Agg")
    # the same report gives the same bytes
    matplotlib.rcParams["svg.hashsalt"] = "longstride"
    # names come from data: a dollar sign in them is no formula
    matplotlib.rcParams["text.parse_math"] = False
    from matplotlib import pyplot

    module: ModuleType = pyplot
    return module


def draw(report: ReplayReport, folder: Path) -> list[Path]:
    """One figure for each family and measure with several budgets, one for each session with curves; the files."""
    pyplot = plotting()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [*_recalls(report, folder, pyplot), *_curves(report, folder, pyplot)]
    except OSError as fault:
        raise UsageFault(f"--figures {folder}: cannot be written: {fault.strerror or fault}") from fault


def _recalls(report: ReplayReport, folder: Path, pyplot: ModuleType) -> list[Path]:
    written: list[Path] = []
    for family, measure in dict.fromkeys((row.family, row.measure) for row in report.rows):
        rows = [row for row in report.rows if (row.family, row.measure) == (family, measure)]
        strata = list(dict.fromkeys(row.stratum for row in rows))[:6]
        if len({row.budget for row in rows}) < 2 or measure in ("longevity", "context_tokens"):
            continue
        figure, axes = pyplot.subplots(1, len(strata), figsize=(3.4 * len(strata), 3.2), sharey=True, squeeze=False)
        for axis, stratum in zip(axes[0], strata, strict=True):
            _recall(axis, [row for row in rows if row.stratum == stratum])
            axis.set_title(stratum)
        axes[0][0].set_ylabel(measure.replace("_", " "))
        axes[0][-1].legend(fontsize=7)
        written += save(figure, folder, f"{family}-{measure}", pyplot)
    return written


def _recall(axis: Axes, rows: list[ReplayRow]) -> None:
    for name in dict.fromkeys(_name(row) for row in rows):
        mine = sorted((row for row in rows if _name(row) == name), key=lambda row: row.budget)
        budgets = [row.budget for row in mine]
        (line,) = axis.plot(budgets, [row.value for row in mine], marker="o", markersize=3, label=name)
        low = [row.value if row.low is None else row.low for row in mine]
        high = [row.value if row.high is None else row.high for row in mine]
        axis.fill_between(budgets, low, high, alpha=0.12, color=line.get_color())
    axis.set_xscale("log", base=2)
    axis.set_xlabel("budget, tokens")
    axis.set_ylim(0, 1.02)


def _curves(report: ReplayReport, folder: Path, pyplot: ModuleType) -> list[Path]:
    written: list[Path] = []
    for family, session in dict.fromkeys((row.family, row.session) for row in report.curves):
        rows = [row for row in report.curves if (row.family, row.session) == (family, session) and row.points]
        figure, axis = pyplot.subplots(figsize=(6.4, 4))
        for row in rows:
            steps, tokens = zip(*row.points, strict=True)
            axis.plot(steps, tokens, label=f"{_name(row)}, {row.budget:,}", linewidth=1.2)
        if rows and max(row.points[-1][0] for row in rows) > 500:
            axis.set_xscale("log")
        axis.set_xlabel("step")
        axis.set_ylabel("context, tokens")
        axis.legend(fontsize=7)
        written += save(figure, folder, f"{family}-{session}-context", pyplot)
    return written


def save(figure: object, folder: Path, name: str, pyplot: ModuleType) -> list[Path]:
    """A figure in every format, closed afterwards; the files."""
    stem = re.sub(r"[^\w.-]+", "_", name)
    paths = [folder / f"{stem}.{kind}" for kind in FORMATS]
    for path in paths:
        metadata = {"Date": None} if path.suffix == ".svg" else {}
        figure.savefig(path, dpi=150, bbox_inches="tight", metadata=metadata)  # type: ignore[attr-defined]
    pyplot.close(figure)
    return paths


def _name(row: ReplayRow | CurveRow) -> str:
    lam = "" if row.lam is None else f" λ={row.lam:g}"
    layout = " (ledger)" if row.layout == "ledger" else ""
    return f"{row.policy}{lam}{layout}"

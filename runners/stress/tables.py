"""A stress run in figures: longevity, recall by distance, latency, growth; beside what the paper reports."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from memory.plan import FloatArray
from memory.records import JsonValue
from runners.bench.render import Grid, markdown_table
from runners.replay.samples import Estimate, estimate
from runners.stress.cell import ANSWERS, STEPS, read_answers, read_ends, read_probes
from runners.stress.plan import Cell, StressPlan, read_plan
from runners.stress.recorder import read_rows

PUBLISHED: Mapping[tuple[str, float | None], int] = {
    ("react", None): 74,
    ("summary-append", None): 233,
    ("fold-range-auto", None): 954,
    ("pace", 0.5): 2_776,
    ("pace", 1.0): 4_897,
}
"""Steps at 256K (PACE, Figure 3): GAIA levels 2 and 3 as one task, DeepSeek-V3.1, summaries by a model, BGE-M3."""
PUBLISHED_BUDGET = 256_000
LATENCY_AT = (200, 2_000, 20_000)
POINTS = 400
"""Points of a curve, at most."""
BASE = 10_000
"""The step that the end is compared with."""


@dataclass(frozen=True, slots=True)
class CellRow:
    """One cell. ``steps``: its longevity where ``status`` is ``context_exhausted``, else a bound from below. Tokens of
    contexts; seconds of a step, medians. Null where there is none."""

    label: str
    policy: str
    budget: int
    lam: float | None
    overflow: str
    status: str
    steps: int
    published: int | None
    contexts: int
    over: int
    """Contexts above the budget."""
    tokens_mean: float | None
    tokens_max: float | None
    tokens_end: float | None
    growth: float | None
    """Mean of the last 100 contexts over that of the 100 before step 10,000."""
    questions: int
    right: int
    right_per_100: float | None
    """Right answers per 100 steps."""
    prefix_share: float | None
    """Share of a request that repeats the one before from its start."""
    cached_share: float | None
    """Share that the provider says it had cached."""
    assembly_s: float | None
    assembly_p95_s: float | None
    model_s: float | None
    tools_s: float | None
    store_s: float | None
    rss_mb: float | None
    """At the end."""
    glimpse_p50_s: float | None
    glimpse_max_s: float | None


@dataclass(frozen=True, slots=True)
class RecallRow:
    """Probes of one cell under one policy (the cell's own, or one that was shown the same session)."""

    label: str
    policy: str
    distance: int
    shown: Estimate
    right: Estimate | None


@dataclass(frozen=True, slots=True)
class LatencyRow:
    """Around one step: medians, and assembly's share of a step whose model replies in ``reply_s`` (a constant, not
    waited for)."""

    label: str
    step: int
    assembly_s: float
    rest_s: float
    """Tools and store."""
    reply_s: float
    share: float


@dataclass(frozen=True, slots=True)
class Curve:
    """(step, tokens of the context) and (step, MB resident)."""

    label: str
    tokens: tuple[tuple[int, float], ...]
    memory: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class StressReport:
    workload: str
    benchmark: str
    steps: int
    cells: tuple[CellRow, ...]
    recall: tuple[RecallRow, ...]
    latency: tuple[LatencyRow, ...]
    curves: tuple[Curve, ...]


def tabulate(out: Path, reply_s: float) -> StressReport:
    """Read a stress run, finished or not. Raises UsageFault."""
    plan = read_plan(out)
    cells: list[CellRow] = []
    recall: list[RecallRow] = []
    latency: list[LatencyRow] = []
    curves: list[Curve] = []
    for cell in plan.cells:
        folder = out / cell.label
        if not (folder / STEPS).is_file():
            continue
        columns = read_rows(folder / STEPS)
        cells.append(_cell(plan, cell, folder, columns))
        recall += _recall(plan, cell, folder)
        latency += _latency(cell, columns, reply_s)
        curves.append(_curve(cell, columns))
    return StressReport(
        plan.work.workload, plan.work.benchmark, plan.work.steps, tuple(cells), tuple(recall), tuple(latency),
        tuple(curves),
    )  # fmt: skip


def as_json(made: StressReport) -> dict[str, JsonValue]:
    """The report as JSON values; what is not known is null."""
    tree: dict[str, JsonValue] = asdict(made)
    return tree


def _cell(plan: StressPlan, cell: Cell, folder: Path, columns: Mapping[str, FloatArray]) -> CellRow:
    ends = read_ends(folder)
    steps, tokens = columns["step"], columns["tokens"]
    built = ~np.isnan(tokens)
    last = int(steps[-1]) if len(steps) else 0
    answers = read_answers(folder) if (folder / ANSWERS).is_file() else []
    right = sum(row.right for row in answers)
    before, after = tokens[built & (steps <= BASE)][-100:], tokens[built][-100:]
    over = built & (tokens > columns["budget"])
    return CellRow(
        label=cell.label,
        policy=cell.policy,
        budget=cell.budget,
        lam=cell.lam,
        overflow=cell.overflow,
        status=ends[-1].status if ends and ends[-1].steps >= last else "running",
        steps=last,
        published=PUBLISHED.get((cell.policy, cell.lam)) if cell.budget == PUBLISHED_BUDGET else None,
        contexts=int(built.sum()),
        over=int(over.sum()),
        tokens_mean=_mean(tokens),
        tokens_max=_known(np.max, tokens),
        tokens_end=_mean(after),
        growth=float(after.mean() / before.mean()) if last > BASE and len(before) else None,
        questions=len(answers),
        right=right,
        right_per_100=100 * right / last if answers and last else None,
        prefix_share=_ratio(columns["prefix"], tokens),
        cached_share=_ratio(columns["cached"], columns["input"]),
        assembly_s=_known(np.median, columns["assembly_s"]),
        assembly_p95_s=_known(lambda values: np.quantile(values, 0.95), columns["assembly_s"]),
        model_s=_known(np.median, columns["model_s"]),
        tools_s=_known(np.median, columns["tools_s"]),
        store_s=_known(np.median, columns["store_s"]),
        rss_mb=float(columns["rss_mb"][-1]) if last else None,
        glimpse_p50_s=ends[-1].glimpse_p50_s if ends else None,
        glimpse_max_s=ends[-1].glimpse_max_s if ends else None,
    )


def _recall(plan: StressPlan, cell: Cell, folder: Path) -> list[RecallRow]:
    probes = read_probes(folder)
    found = []
    for policy in dict.fromkeys(row.policy for row in probes):
        for distance in plan.work.distances:
            mine = [row for row in probes if (row.policy, row.distance) == (policy, distance)]
            if not mine:
                continue
            name = f"{cell.label} {policy} {distance}"
            read = [float(row.right) for row in mine if row.right is not None]
            found.append(
                RecallRow(
                    cell.label,
                    policy,
                    distance,
                    estimate([float(row.shown) for row in mine], plan.work.seed, name),
                    estimate(read, plan.work.seed, f"{name} right") if read else None,
                )
            )
    return found


def _latency(cell: Cell, columns: Mapping[str, FloatArray], reply_s: float) -> list[LatencyRow]:
    found = []
    for step in LATENCY_AT:
        near = np.abs(columns["step"] - step) <= max(50, step // 20)
        assembly = _known(np.median, columns["assembly_s"][near])
        if assembly is None or columns["step"][-1] < step:
            continue
        rest = sum(_known(np.median, columns[name][near]) or 0.0 for name in ("tools_s", "store_s"))
        whole = assembly + rest + reply_s
        found.append(LatencyRow(cell.label, step, assembly, rest, reply_s, assembly / whole if whole else 0.0))
    return found


def _curve(cell: Cell, columns: Mapping[str, FloatArray]) -> Curve:
    return Curve(cell.label, _thinned(columns["step"], columns["tokens"]), _thinned(columns["step"], columns["rss_mb"]))


def _thinned(steps: FloatArray, values: FloatArray) -> tuple[tuple[int, float], ...]:
    there = np.flatnonzero(~np.isnan(values))
    if len(there) > POINTS:
        # by the logarithm, so that the beginning of a long session can be seen too
        places = np.unique(np.geomspace(1, len(there), POINTS).astype(np.int64)) - 1
        there = there[places]
    return tuple((int(steps[at]), float(values[at])) for at in there)


def _known(figure: object, values: FloatArray) -> float | None:
    there = values[~np.isnan(values)]
    return float(figure(there)) if len(there) else None  # type: ignore[operator]


def _mean(values: FloatArray) -> float | None:
    return _known(np.mean, values)


def _ratio(part: FloatArray, whole: FloatArray) -> float | None:
    there = ~np.isnan(part) & ~np.isnan(whole)
    total = float(whole[there].sum())
    return float(part[there].sum()) / total if total else None


def tables(made: StressReport) -> list[Grid]:
    """What people read: longevity, recall by distance, latency; empty ones left out."""
    return [table for table in (_longevity(made), _recalls(made), _latencies(made), _costs(made)) if table.rows]


def text(made: StressReport) -> str:
    """The tables as Markdown."""
    return "\n\n".join(map(markdown_table, tables(made))) or "no cell has begun yet"


def _longevity(made: StressReport) -> Grid:
    head = ("cell", "steps", "ended", "paper", "tokens, mean", "largest", "over budget", "end / step 10,000",
            "right / 100 steps")  # fmt: skip
    rows = [
        (row.label, f"{row.steps:,}", row.status, number(row.published), number(row.tokens_mean),
         number(row.tokens_max), f"{row.over} of {row.contexts:,}", number(row.growth, 3), number(row.right_per_100, 1))
        for row in made.cells
    ]  # fmt: skip
    return Grid("Longevity", head, tuple(rows))


def _recalls(made: StressReport) -> Grid:
    distances = sorted({row.distance for row in made.recall})
    head = ("cell", "policy", *(f"{kind} {distance:,}" for distance in distances for kind in ("shown", "right")))
    rows = []
    for label, policy in dict.fromkeys((row.label, row.policy) for row in made.recall):
        mine = {row.distance: row for row in made.recall if (row.label, row.policy) == (label, policy)}
        cells = [value for distance in distances for value in _both(mine.get(distance))]
        rows.append((label, policy, *cells))
    return Grid("Recall by distance (steps since the fact was seen)", head, tuple(rows))


def _both(row: RecallRow | None) -> tuple[str, str]:
    return ("", "") if row is None else (interval(row.shown), "" if row.right is None else interval(row.right))


def _latencies(made: StressReport) -> Grid:
    head = ("cell", "step", "assembly ms", "tools and store ms", "reply s (constant)", "assembly's share")
    rows = [
        (row.label, f"{row.step:,}", number(1e3 * row.assembly_s, 1), number(1e3 * row.rest_s, 1), f"{row.reply_s:g}",
         f"{100 * row.share:.2f} %")
        for row in made.latency
    ]  # fmt: skip
    return Grid("Latency (paper: +0.9 % a step over ReAct)", head, tuple(rows))


def _costs(made: StressReport) -> Grid:
    head = ("cell", "assembly ms", "p95", "model ms", "tools ms", "store ms", "repeats the request before",
            "provider's cache", "MB at the end", "glimpse ms", "slowest")  # fmt: skip

    def ms(value: float | None) -> str:
        return number(None if value is None else 1e3 * value, 1)

    def share(value: float | None) -> str:
        return "" if value is None else f"{100 * value:.0f} %"

    rows = [
        (row.label, ms(row.assembly_s), ms(row.assembly_p95_s), ms(row.model_s), ms(row.tools_s), ms(row.store_s),
         share(row.prefix_share), share(row.cached_share), number(row.rss_mb), ms(row.glimpse_p50_s),
         ms(row.glimpse_max_s))
        for row in made.cells
    ]  # fmt: skip
    return Grid("A step", head, tuple(rows))


def interval(of: Estimate) -> str:
    """``.950 [.900, .990] of 100``."""
    ends = "" if of.low is None or of.high is None else f" [{of.low:.3f}, {of.high:.3f}]"
    return f"{of.value:.3f}{ends} n={of.n}"


def number(value: float | None, places: int = 0) -> str:
    """With thousands; empty where it is not known."""
    return "" if value is None or math.isnan(value) else f"{value:,.{places}f}"

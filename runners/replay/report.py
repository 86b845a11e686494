"""What ``longstride replay`` reports, as JSON and on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from memory.records import JsonValue
from runners.replay.rows import CurveRow, DifferenceRow, ReplayRow, SessionRow
from runners.replay.working import TOKENS

WIDE = 160
"""Columns of a terminal from which intervals and all strata are shown; they are always in the JSON."""
NARROW = 6
"""Strata shown on a narrower one."""


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """One replay. ``skipped``: what was left out of the input, and why."""

    rows: tuple[ReplayRow, ...]
    differences: tuple[DifferenceRow, ...]
    sessions: tuple[SessionRow, ...]
    curves: tuple[CurveRow, ...]
    encoder: str
    recordings: int
    skipped: tuple[str, ...]
    contexts: int
    seed: int


def to_json(report: ReplayReport) -> dict[str, JsonValue]:
    """The report as plain JSON values; figures rounded to what they can mean."""
    plain = asdict(report)
    for name in ("rows", "differences", "sessions", "curves"):
        plain[name] = [{key: _rounded(value) for key, value in row.items()} for row in plain[name]]
    return plain


def _rounded(value: JsonValue) -> JsonValue:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def show(report: ReplayReport) -> None:
    """Print the rows as tables, one for each family and measure; the strata are columns."""
    from rich.console import Console

    console = Console()
    for family, measure in dict.fromkeys((row.family, row.measure) for row in report.rows):
        if measure == TOKENS and any(row.family == family and row.measure != TOKENS for row in report.rows):
            continue
        rows = [row for row in report.rows if (row.family, row.measure) == (family, measure)]
        console.print(_table(f"{measure}: {family}", rows, console.width >= WIDE))
    note = f"{report.recordings} sessions, {report.contexts} contexts, encoder {report.encoder}"
    console.print(note + (f", {len(report.skipped)} left out" if report.skipped else ""), style="dim", markup=False)
    for line in report.skipped[:10]:
        console.print(f"left out: {line}", style="yellow", markup=False)


def _table(title: str, rows: Sequence[ReplayRow], intervals: bool) -> object:
    from rich.table import Table

    strata = list(dict.fromkeys(row.stratum for row in rows))[: None if intervals else NARROW]
    counts = {row.stratum: row.n for row in rows}
    table = Table(title=title, title_justify="left", box=None, header_style="dim", pad_edge=False)
    several = len({(row.layout, row.lam) for row in rows}) > 1
    for name in ("policy", *(("layout", "λ") if several else ()), "budget"):
        table.add_column(name, justify="right" if name == "budget" else "left")
    for stratum in strata:
        table.add_column(f"{stratum}\nn={counts[stratum]}", justify="right")
    for name in ("tokens", "cached", "$/step", "longevity"):
        table.add_column(name, justify="right")
    for key in dict.fromkeys(_key(row) for row in rows):
        mine = {row.stratum: row for row in rows if _key(row) == key}
        first = next(iter(mine.values()))
        extra = (first.layout, "" if first.lam is None else f"{first.lam:g}") if several else ()
        cells = [_value(mine.get(stratum), intervals) for stratum in strata]
        table.add_row(first.policy, *extra, str(first.budget), *cells, *_traffic(first))
    return table


def _key(row: ReplayRow) -> tuple[str, str, str, int]:
    return row.policy, row.layout, str(row.lam), row.budget


def _value(row: ReplayRow | None, interval: bool) -> str:
    if row is None:
        return ""
    if row.low is None or row.high is None or not interval:
        return f"{row.value:.3f}"
    return f"{row.value:.3f} [{row.low:.2f}, {row.high:.2f}]"


def _traffic(row: ReplayRow) -> tuple[str, str, str, str]:
    cached = "" if row.cached_share is None else f"{row.cached_share:.0%}"
    cost = "" if row.cost is None else f"{row.cost:.5f}"
    longevity = "" if row.longevity is None else f"{row.longevity:.0f}"
    tokens = row.mean_history_tokens if row.scope == "history" else row.mean_tokens
    return f"{tokens:.0f}", cached, cost, longevity

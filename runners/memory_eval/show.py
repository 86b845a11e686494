"""An evaluation on a terminal: one table for each redundancy, selectors against budgets."""

from __future__ import annotations

from runners.memory_eval.report import ALL, MemoryReport, MemoryRow
from runners.replay.samples import Estimate

WIDE = 150
"""Columns of a terminal from which intervals are shown; they are always in the JSON."""
_COLUMNS = {
    "any": "recall_any",
    "all": "recall_all",
    "share": "recall_share",
    "NDCG@10": "ndcg",
    "answer visible": "answer_visible",
    "qa": "qa",
    "judged": "qa_judged",
}


def show(report: MemoryReport) -> None:
    """Print the rows over all questions; types, F1 and differences are in the JSON."""
    from rich.console import Console

    console = Console()
    rows = [row for row in report.rows if row.stratum == ALL]
    for redundancy in dict.fromkeys(row.redundancy for row in rows):
        mine = [row for row in rows if row.redundancy == redundancy]
        console.print(_table(f"{mine[0].set}, R = {redundancy}", mine, console.width >= WIDE))
    reader = f", reader {report.reader}" if report.reader else ", no reader"
    judge = f", judge {report.judge}" if report.judge else ""
    text = f"{report.questions} questions, encoder {report.encoder}{reader}{judge}; {report.computed} results computed"
    console.print(f"{text} in {report.seconds:.0f} s", style="dim", markup=False)
    unread, ungraded = sum(row.unread for row in rows), sum(row.ungraded for row in rows)
    if unread or ungraded:
        console.print(f"unread: {unread}, ungraded: {ungraded}; run again to retry", style="yellow", markup=False)
    for note in report.notes[:10]:
        console.print(f"note: {note}", style="yellow", markup=False)


def _table(title: str, rows: list[MemoryRow], intervals: bool) -> object:
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=None, header_style="dim", pad_edge=False)
    table.add_column("selector")
    table.add_column("budget", justify="right")
    table.add_column("tokens", justify="right")
    columns = {title: name for title, name in _COLUMNS.items() if any(getattr(row, name) for row in rows)}
    for name in columns:
        table.add_column(name, justify="right")
    for row in rows:
        cells = [_value(getattr(row, name), intervals) for name in columns.values()]
        table.add_row(row.selector, row.budget, f"{row.tokens:.0f}", *cells)
    return table


def _value(found: Estimate | None, interval: bool) -> str:
    if found is None:
        return ""
    if found.low is None or found.high is None or not interval:
        return f"{found.value:.3f}"
    return f"{found.value:.3f} [{found.low:.2f}, {found.high:.2f}]"

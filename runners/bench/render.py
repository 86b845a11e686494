"""A report for people: the same tables on a terminal, in Markdown and in HTML; its rows as CSV."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from runners.bench.report import BenchReport, EffortRow, PairRow, RepeatRow, ScoreRow, WorkerRow
from runners.bench.tally import ALL
from runners.errors import UsageFault

_STYLE = (
    "body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem}"
    "table{border-collapse:collapse;margin:.6rem 0 1.6rem}caption{text-align:left;font-weight:600;padding:.3rem 0}"
    "th,td{padding:.2rem .7rem;border-bottom:1px solid #ddd;text-align:right}"
    "th:first-child,td:first-child{text-align:left}.wide{overflow-x:auto}svg{max-width:100%;height:auto}"
)


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of texts; the first column names the row."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def grids(made: BenchReport) -> list[Grid]:
    """Scores, rows by type, differences, repeats, effort, workers; empty ones left out."""
    found = [_scores(made), _strata(made), _pairs(made), _repeats(made), _effort(made), _ends(made), _workers(made)]
    return [grid for grid in found if grid.rows]


def heading(made: BenchReport) -> str:
    """One line about the whole."""
    judge = f", judge {made.judge}" if made.judge else ""
    return f"{made.title}: {made.questions} questions, deciding measure {made.deciding}{judge}"


def markdown(made: BenchReport) -> str:
    """The report as Markdown."""
    parts = [f"# {heading(made)}", f"Data {made.dataset[:12]}. Intervals: 95 % by bootstrap over questions."]
    return "\n\n".join([*parts, *map(markdown_table, grids(made))]) + "\n"


def markdown_table(grid: Grid) -> str:
    """A table as Markdown, under its title."""
    lines = [_line(grid.head), _line(["---", *["---:"] * (len(grid.head) - 1)]), *map(_line, grid.rows)]
    return f"## {grid.title}\n\n" + "\n".join(lines)


def page(made: BenchReport, pictures: Sequence[Path] = ()) -> str:
    """The report as one HTML page that needs nothing else; ``pictures``: SVG files to put in."""
    return html_page(made.title, heading(made), f"Data {made.dataset[:12]}. {_NOTE}", grids(made), pictures)


def html_page(title: str, heading: str, note: str, tables: Sequence[Grid], pictures: Sequence[Path] = ()) -> str:
    """Tables and pictures as one HTML page that needs nothing else."""
    body = [f"<h1>{html.escape(heading)}</h1>", f"<p>{html.escape(note)}</p>"]
    for grid in tables:
        body.append(f'<div class="wide"><table><caption>{html.escape(grid.title)}</caption>')
        body.append(_row("th", grid.head))
        body += [_row("td", row) for row in grid.rows]
        body.append("</table></div>")
    body += [f"<div>{_svg(path)}</div>" for path in pictures if path.suffix == ".svg"]
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
    return head + f"<style>{_STYLE}</style><body>" + "\n".join(body) + "</body></html>\n"


_NOTE = "Intervals: 95 % by bootstrap over questions."


def tables_of(made: BenchReport) -> dict[str, str]:
    """CSV by file name: every row of every table, unrounded."""
    kinds: list[tuple[str, type, Sequence[object]]] = [
        ("scores.csv", ScoreRow, made.scores),
        ("pairs.csv", PairRow, made.pairs),
        ("repeats.csv", RepeatRow, made.repeats),
        ("efforts.csv", EffortRow, made.efforts),
        ("workers.csv", WorkerRow, made.workers),
    ]
    found = {}
    for name, kind, rows in kinds:
        text = io.StringIO(newline="")
        out = csv.writer(text)
        out.writerow([field.name for field in fields(kind)])
        out.writerows([_plain(value) for value in astuple(row)] for row in rows)  # type: ignore[call-overload]
        found[name] = text.getvalue()
    return found


def show(made: BenchReport) -> None:
    """Print the report."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    console.print(heading(made), markup=False)
    for grid in grids(made):
        table = Table(title=escape(grid.title), title_justify="left", box=None, header_style="dim", pad_edge=False)
        for at, name in enumerate(grid.head):
            table.add_column(escape(name), justify="right" if at else "left")
        for row in grid.rows:
            table.add_row(*map(escape, row))
        console.print(table)


def write(path: Path, text: str, option: str) -> None:
    """Write a file and the folders above it. Raises UsageFault."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    except OSError as fault:
        raise UsageFault(f"{option} {path}: cannot be written: {fault.strerror or fault}") from fault


def _scores(made: BenchReport) -> Grid:
    measures = list(dict.fromkeys(row.measure for row in made.scores))
    rows = [(label, *(_value(_score(made, label, name)) for name in measures)) for label in _labels(made)]
    return Grid("Scores", ("policy", *map(_words, measures)), tuple(rows))


def _strata(made: BenchReport) -> Grid:
    mine = [row for row in made.scores if row.measure == made.deciding and row.stratum != ALL]
    counts = {row.stratum: row.n for row in mine}
    rows = [
        (label, *(_value(_score(made, label, made.deciding, name)) for name in counts))
        for label in (_labels(made) if counts else ())
    ]
    head = ("policy", *(f"{name} (n={n})" for name, n in counts.items()))
    return Grid(f"{_words(made.deciding)} by type", head, tuple(rows))


def _pairs(made: BenchReport) -> Grid:
    rows = [
        (row.policy, _words(row.measure), str(row.n), _value(row, signed=True), f"{row.wins} / {row.losses}")
        for row in made.pairs
        if row.stratum == ALL
    ]
    return Grid(f"Less {made.baseline}, same questions", ("policy", "measure", "n", "difference", "+ / -"), tuple(rows))


def _repeats(made: BenchReport) -> Grid:
    rows = [
        (row.policy, str(row.k), _number(row.passed), _number(row.average), _number(row.best), _number(row.voted))
        for row in made.repeats
    ]
    return Grid(
        f"Rollouts, {_words(made.deciding)}", ("policy", "k", "pass@k", "avg@k", "max@k", "majority"), tuple(rows)
    )


def _effort(made: BenchReport) -> Grid:
    head = (
        "policy", "trials", "steps", "tool calls", "tool errors", "context", "peak", "input", "output", "cached",
        "prefix", "$", "$/question", "s", "calibration error",
    )  # fmt: skip
    rows = [
        (
            row.policy,
            f"{row.trials}/{row.planned}",
            f"{row.steps:.1f}",
            f"{row.tool_calls:.1f}",
            _share(row.tool_error_rate),
            f"{row.context_tokens:,.0f}",
            f"{row.peak_tokens:,.0f}",
            _count(row.input_tokens),
            _count(row.output_tokens),
            _share(row.cached_share),
            _share(row.prefix_share),
            _money(row.cost),
            _money(row.cost_per_question),
            f"{row.seconds:.1f}",
            _share(row.calibration_error),
        )
        for row in made.efforts
    ]
    return Grid("What it took, means of trials", head, tuple(rows))


def _ends(made: BenchReport) -> Grid:
    names = list(dict.fromkeys(name for row in made.efforts for name in row.terminations))
    rows = [
        (
            row.policy,
            *(str(row.terminations.get(name, 0)) for name in names),
            str(row.without_result),
            "n/a" if row.ungraded is None else str(row.ungraded),
            str(row.unsupported),
        )
        for row in made.efforts
    ]
    head = ("policy", *map(_words, names), "without result", "ungraded", "unsupported attachments")
    return Grid("How trials ended", head, tuple(rows))


def _workers(made: BenchReport) -> Grid:
    rows = [
        (
            row.worker,
            str(row.trials),
            str(row.without_result),
            f"{row.steps:,}",
            _money(row.cost),
            f"{row.seconds:,.1f}",
        )
        for row in made.workers
    ]
    return Grid("Workers", ("worker", "trials", "without result", "steps", "$", "s"), tuple(rows))


def _labels(made: BenchReport) -> list[str]:
    return [row.policy for row in made.efforts]


def _score(made: BenchReport, label: str, measure: str, stratum: str = ALL) -> ScoreRow | None:
    wanted = (label, measure, stratum)
    return next((row for row in made.scores if (row.policy, row.measure, row.stratum) == wanted), None)


def _value(row: ScoreRow | PairRow | None, *, signed: bool = False) -> str:
    if row is None:
        return ""
    sign = "+" if signed else ""
    interval = "" if row.low is None or row.high is None else f" [{row.low:{sign}.3f}, {row.high:{sign}.3f}]"
    return f"{row.value:{sign}.3f}{interval}"


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.3f}"


def _share(value: float | None) -> str:
    return "n/a" if value is None else f"{100 * value:.1f} %"


def _count(value: float | None) -> str:
    return "n/a" if value is None else f"{value:,.0f}"


def _money(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.4f}"


def _words(name: str) -> str:
    return name.replace("_", " ")


def _plain(value: object) -> object:
    return " ".join(f"{key}={item}" for key, item in value.items()) if isinstance(value, dict) else value


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|").replace("<", "&lt;") for cell in cells) + " |"


def _row(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"


def _svg(path: Path) -> str:
    text = path.read_text("utf-8")
    return text[text.index("<svg") :]

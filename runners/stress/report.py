"""The report of a stress run on the disk: CSV, figures as PNG and SVG, and one HTML page that needs nothing else."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from runners.bench.render import html_page, write
from runners.stress.figures import draw
from runners.stress.tables import StressReport, tables

HTML = "stress.html"


def write_report(made: StressReport, folder: Path, *, figures: bool = True) -> list[Path]:
    """Every file of the report. Raises UsageFault where it cannot be written, or without matplotlib."""
    written = []
    for name, rows in (("cells", made.cells), ("recall", made.recall), ("latency", made.latency)):
        path = folder / f"{name}.csv"
        write(path, as_csv([asdict(row) for row in rows]), "--to")
        written.append(path)
    points = [
        {"label": curve.label, "figure": figure, "step": step, "value": value}
        for curve in made.curves
        for figure, line in (("tokens", curve.tokens), ("rss_mb", curve.memory))
        for step, value in line
    ]
    write(folder / "curves.csv", as_csv(points), "--to")
    pictures = draw(made, folder) if figures else []
    write(folder / HTML, page(made, pictures), "--to")
    return [*written, folder / "curves.csv", *pictures, folder / HTML]


def as_csv(rows: Sequence[Mapping[str, object]]) -> str:
    """Rows under their names, what is nested flattened with a dot."""
    flat = [_flat(row) for row in rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    text = io.StringIO(newline="")
    out = csv.DictWriter(text, names)
    out.writeheader()
    out.writerows(flat)
    return text.getvalue()


def _flat(row: Mapping[str, object]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in row.items():
        if isinstance(value, dict):
            found.update({f"{key}.{inner}": item for inner, item in value.items()})
        elif value is not None or key not in ("shown", "right"):
            found[key] = value
    return found


def page(made: StressReport, pictures: Sequence[Path]) -> str:
    """One HTML page; ``pictures``: SVG files to put in."""
    title = f"Stress: {made.benchmark}, {made.workload}"
    note = "Intervals: 95 % by bootstrap over probes. One session a cell."
    return html_page(title, title, note, tables(made), pictures)

"""Tables as answers, scored by rows and by items (WideSearch, Wong et al., 2025).

Upstream drops duplicate keys before it normalises them, so that two rows of an answer can both be right for one row of
the gold; here keys are made unique after. Its date rule is told in `cells.date_near`; figures by it end in
``_upstream``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from runners.scoring.cells import METRICS, PREPROCESS, column_name, matches, norm_str, typed

_FENCED = re.compile(r"```(?:markdown|md)?[ \t]*\n(.*?)```", re.DOTALL)
_BLOCK = re.compile(r"(?:^[ \t]*\|.*(?:\n|\Z))+", re.MULTILINE)
_PIPE = re.compile(r"(?<!\\)\|")
MEASURES = ("row_f1", "item_f1", "success", "row_precision", "row_recall", "item_precision", "item_recall")


@dataclass(frozen=True, slots=True)
class Pipeline:
    """How one column is compared: every metric must hold."""

    preprocess: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ("exact_match",)
    criterion: object = None


@dataclass(frozen=True, slots=True)
class Table:
    """Columns by their compared names, and rows of cells."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def column(self, name: str) -> list[str]:
        at = self.columns.index(name)
        return [row[at] for row in self.rows]


@dataclass(frozen=True, slots=True)
class TableSpec:
    """The gold table (columns as required) and how an answer is held against it."""

    gold: Table
    unique: tuple[str, ...]
    pipelines: Mapping[str, Pipeline]


@dataclass(frozen=True, slots=True)
class Aligned:
    """What a judge adds: names and keys of the answer that mean one of the gold's; (column, answer, gold) -> verdict of
    the cells that only it can compare."""

    columns: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    cells: Mapping[tuple[str, str, str], bool] = field(default_factory=dict)


NOTHING = Aligned()


def read_table(answer: str) -> Table | None:
    """The first Markdown table of an answer: in a fence, else a block of lines that begin with a pipe.

    None where there is none, or a row has more cells than the head.
    """
    fenced = [block for block in _FENCED.findall(answer) if "|" in block]
    blocks = fenced or _BLOCK.findall(answer)
    if not blocks:
        return None
    lines = [line.strip() for line in str(blocks[0]).splitlines() if "|" in line]
    cells = [_cells(line) for line in lines if not set(line) <= set("|- :")]
    if not cells:
        return None
    head = [column_name(name) for name in cells[0]]
    if any(len(row) > len(head) for row in cells[1:]) or len(set(head)) < len(head):
        return None
    return Table(tuple(head), tuple(tuple(row + [""] * (len(head) - len(row))) for row in cells[1:]))


def _cells(line: str) -> list[str]:
    parts = [part.strip().replace("\\|", "|") for part in _PIPE.split(line)]
    return parts[1 if line.startswith("|") else 0 : len(parts) - 1 if line.endswith("|") else None]


def score_table(spec: TableSpec, answer: str, aligned: Aligned = NOTHING) -> dict[str, float]:
    """`MEASURES`, and those of ``row_f1`` and ``item_f1`` by upstream's date rule; all 0 for an unusable table."""
    given = renamed(spec, read_table(answer), aligned)
    if given is None:
        return dict.fromkeys((*MEASURES, "row_f1_upstream", "item_f1_upstream"), 0.0)
    gold, ours = prepared(spec, given, aligned)
    strict = _figures(spec, gold, ours, aligned, upstream=False)
    lenient = _figures(spec, gold, ours, aligned, upstream=True)
    return {
        **{name: strict[name] for name in MEASURES},
        "row_f1_upstream": lenient["row_f1"],
        "item_f1_upstream": lenient["item_f1"],
    }


def renamed(spec: TableSpec, given: Table | None, aligned: Aligned = NOTHING) -> Table | None:
    """The answer's table under the required names; None where its columns are not exactly those."""
    if given is None:
        return None
    names = tuple(aligned.columns.get(name, name) for name in given.columns)
    loose = {_loose(name): name for name in spec.gold.columns}
    if set(names) != set(spec.gold.columns):
        names = tuple(loose.get(_loose(name), name) for name in names)
    if set(names) != set(spec.gold.columns) or len(set(names)) < len(names):
        return None
    return Table(names, given.rows)


def prepared(spec: TableSpec, given: Table, aligned: Aligned) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Rows of the gold and of the answer, keys aligned, cells preprocessed, each key once."""
    gold: list[dict[str, str]] = [{} for _ in spec.gold.rows]
    ours: list[dict[str, str]] = [{} for _ in given.rows]
    for name in spec.gold.columns:
        mine, theirs = typed(given.column(name), spec.gold.column(name))
        if name in spec.unique:
            mine = key_aligned(mine, theirs, aligned.keys.get(name, {}))
        for step in spec.pipelines.get(name, Pipeline()).preprocess:
            mine, theirs = [PREPROCESS[step](cell) for cell in mine], [PREPROCESS[step](cell) for cell in theirs]
        for rows, cells in ((ours, mine), (gold, theirs)):
            for row, cell in zip(rows, cells, strict=True):
                row[name] = cell
    return _once(gold, spec.unique), _once(ours, spec.unique)


def key_aligned(mine: Sequence[str], theirs: Sequence[str], known: Mapping[str, str]) -> list[str]:
    """Keys of the answer as the gold writes them: by a judge's word, else where they differ in form only."""
    forms = {norm_str(key): key for key in theirs}
    there = set(theirs)
    return [
        key if key in there else known[key] if known.get(key) in there else forms.get(norm_str(key), key)
        for key in mine
    ]


def joined(
    spec: TableSpec, gold: Sequence[dict[str, str]], ours: Sequence[dict[str, str]]
) -> list[tuple[dict[str, str], dict[str, str]]]:
    """(answer, gold) rows of the same key."""
    by_key = {_key(row, spec.unique): row for row in gold}
    return [(row, by_key[key]) for row in ours if (key := _key(row, spec.unique)) in by_key]


def _figures(
    spec: TableSpec, gold: list[dict[str, str]], ours: list[dict[str, str]], aligned: Aligned, *, upstream: bool
) -> dict[str, float]:
    hits = [
        [_right(spec, name, row[name], other[name], aligned, upstream=upstream) for name in spec.gold.columns]
        for row, other in joined(spec, gold, ours)
    ]
    rows, items, width = sum(map(all, hits)), sum(map(sum, hits)), len(spec.gold.columns)
    figures = {
        "row_precision": rows / len(ours) if ours else 0.0,
        "row_recall": rows / len(gold) if gold else 0.0,
        "item_precision": items / (len(ours) * width) if ours else 0.0,
        "item_recall": items / (len(gold) * width) if gold else 0.0,
    }
    for kind in ("row", "item"):
        precision, recall = figures[f"{kind}_precision"], figures[f"{kind}_recall"]
        figures[f"{kind}_f1"] = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    figures["success"] = float(figures["item_f1"] == 1.0 and figures["row_f1"] == 1.0)
    return figures


def _right(spec: TableSpec, name: str, cell: str, gold: str, aligned: Aligned, *, upstream: bool) -> bool:
    if name in spec.unique:
        return True
    pipeline = spec.pipelines.get(name, Pipeline())
    return all(
        aligned.cells.get((name, cell, gold), False)
        if metric == "llm_judge" and aligned.cells
        else matches(metric, cell, gold, pipeline.criterion, upstream=upstream)
        for metric in pipeline.metrics
    )


def check_spec(spec: TableSpec) -> str:
    """What is wrong with a specification, as text; empty when nothing is."""
    for name in spec.unique:
        if name not in spec.gold.columns:
            return f"the unique column {name!r} is not a required one"
    for name, pipeline in spec.pipelines.items():
        unknown = [step for step in pipeline.preprocess if step not in PREPROCESS]
        unknown += [metric for metric in pipeline.metrics if metric not in METRICS]
        if unknown:
            return f"column {name!r}: unknown {', '.join(unknown)}"
    return "" if spec.unique else "no unique columns"


def _once(rows: Sequence[dict[str, str]], unique: Sequence[str]) -> list[dict[str, str]]:
    kept: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows:
        kept.setdefault(_key(row, unique), row)
    return list(kept.values())


def _key(row: Mapping[str, str], unique: Sequence[str]) -> tuple[str, ...]:
    return tuple(row[name] for name in unique)


def _loose(name: str) -> str:
    return re.sub(r"[\W_]", "", name)

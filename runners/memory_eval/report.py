"""From lines to the rows of the report; their fields are documented in ``docs/json.md``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from memory.records import JsonValue
from runners.memory_eval.answers import PREFERENCE
from runners.memory_eval.cells import Cell
from runners.memory_eval.job import Line
from runners.replay.samples import Estimate, estimate, paired

ALL, BY_TYPE, ABSTENTION = "all", "type-averaged", "abstention"
MEASURES: Mapping[str, Callable[[Line], float | None]] = {
    "recall_any": lambda line: line.found.recall_any,
    "recall_all": lambda line: line.found.recall_all,
    "recall_share": lambda line: line.found.recall_share,
    "ndcg": lambda line: line.found.ndcg,
    "answer_visible": lambda line: line.found.answer_visible,
    "qa": lambda line: _failed(line) if line.failed else line.f1 if line.kind.startswith("category-") else line.match,
    "qa_f1": lambda line: _failed(line) if line.failed else line.f1,
    # what was not graded stays in the denominator
    "qa_judged": lambda line: None if line.grade is None else float(line.grade == "correct"),
}


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """One cell over one stratum. A measure that no question of the stratum has is null."""

    set: str
    selector: str
    budget: str
    redundancy: int
    stratum: str
    questions: int
    budget_tokens: float
    tokens: float
    recall_any: Estimate | None
    recall_all: Estimate | None
    recall_share: Estimate | None
    ndcg: Estimate | None
    answer_visible: Estimate | None
    qa: Estimate | None
    qa_f1: Estimate | None
    qa_judged: Estimate | None
    ungraded: int
    unread: int


@dataclass(frozen=True, slots=True)
class MemoryDifference:
    """A selector less ``against`` (the first one) in the same cell, paired by question."""

    selector: str
    against: str
    budget: str
    redundancy: int
    measure: str
    n: int
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """One evaluation. ``notes``: what of the data could not be used, and why."""

    rows: tuple[MemoryRow, ...]
    differences: tuple[MemoryDifference, ...]
    encoder: str
    cosine_spread: float
    reader: str
    judge: str
    questions: int
    unresolved: int
    computed: int
    seconds: float
    seed: int
    notes: tuple[str, ...]


def rows_of(set_name: str, lines: Sequence[Line], cells: Sequence[Cell], seed: int) -> list[MemoryRow]:
    """Rows by selector, redundancy, budget and stratum, in the order of the cells."""
    rows = []
    for cell, group in _grouped(lines, cells):
        for stratum, members in _strata(group).items():
            values = {name: _measured(members, name, stratum, seed) for name in MEASURES}
            rows.append(
                MemoryRow(
                    set=set_name,
                    selector=cell.selector,
                    budget=cell.budget.label,
                    redundancy=cell.redundancy,
                    stratum=stratum,
                    questions=len(members),
                    budget_tokens=sum(line.budget_tokens for line in members) / len(members),
                    tokens=sum(line.tokens for line in members) / len(members),
                    ungraded=sum(line.grade == "ungraded" for line in members),
                    unread=sum(bool(line.failed) for line in members),
                    **values,
                )
            )
    return rows


def differences_of(lines: Sequence[Line], cells: Sequence[Cell], seed: int) -> list[MemoryDifference]:
    """Every selector against the first one, over the questions that both have a value for."""
    groups = {(cell.selector, cell.budget.label, cell.redundancy): group for cell, group in _grouped(lines, cells)}
    first = cells[0].selector
    found = []
    for (selector, budget, redundancy), group in groups.items():
        theirs = groups.get((first, budget, redundancy), [])
        for measure in MEASURES if selector != first else ():
            one = paired(_by_unit(group, measure), _by_unit(theirs, measure), seed, "difference")
            if one is not None:
                row = (one.n, one.value, one.low, one.high)
                found.append(MemoryDifference(selector, first, budget, redundancy, measure, *row))
    return found


def to_json(report: MemoryReport) -> dict[str, JsonValue]:
    """The report as plain JSON values; figures rounded to what they can mean."""
    plain = asdict(report)
    return {key: _rounded(value) for key, value in plain.items()}


def _rounded(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(inner) for inner in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _grouped(lines: Sequence[Line], cells: Sequence[Cell]) -> Iterable[tuple[Cell, list[Line]]]:
    by_cell: dict[tuple[str, str, str, int], list[Line]] = defaultdict(list)
    for line in lines:
        by_cell[line.selector, line.digest, line.budget, line.redundancy].append(line)
    for cell in cells:
        group = by_cell.get((cell.selector, cell.digest, cell.budget.label, cell.redundancy))
        if group:
            yield cell, group


def _strata(group: Sequence[Line]) -> dict[str, list[Line]]:
    """All, by type, and LongMemEval's unanswerable questions, which count among their type as well."""
    kinds = sorted({line.kind for line in group})
    found = {ALL: list(group)}
    if len(kinds) > 1:
        found[BY_TYPE] = list(group)
    found |= {kind: [line for line in group if line.kind == kind] for kind in kinds}
    unanswerable = [line for line in group if not line.answerable and not line.kind.startswith("category-")]
    return found | ({ABSTENTION: unanswerable} if unanswerable else {})


def _measured(group: Sequence[Line], measure: str, stratum: str, seed: int) -> Estimate | None:
    values = [(line.kind, value) for line in group if (value := MEASURES[measure](line)) is not None]
    # where nothing at all was read there is no accuracy; else what was not read is not right
    if not values or (measure.startswith("qa") and all(line.failed for line in group)):
        return None
    if stratum == BY_TYPE:
        # each question weighs what makes the types weigh the same: then the mean is the mean of their means
        sizes = {kind: sum(other == kind for other, _ in values) for kind, _ in values}
        values = [(kind, value * len(values) / (sizes[kind] * len(sizes))) for kind, value in values]
    return estimate([value for _, value in values], seed, stratum)


def _failed(line: Line) -> float | None:
    """What an unread question counts: nothing right; a rubric has no score without a judge either way."""
    return None if line.answerable and line.kind == PREFERENCE else 0.0


def _by_unit(group: Sequence[Line], measure: str) -> dict[str, float]:
    values = ((f"{line.dialogue}/{line.question}", MEASURES[measure](line)) for line in group)
    return {unit: value for unit, value in values if value is not None}

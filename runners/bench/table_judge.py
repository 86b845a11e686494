"""Tables with a judge's help (WideSearch): names and keys that mean the same, cells that only a reader can compare."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agent.errors import AuthFailed, BackboneFault, ModelMissing
from memory.records import Usage, add_usage
from runners.bench.forms import bare
from runners.bench.tasks import Measures
from runners.scoring.judge import Judge
from runners.scoring.tables import (
    Aligned,
    Pipeline,
    TableSpec,
    joined,
    prepared,
    read_table,
    renamed,
    score_table,
)
from runners.scoring.verdict import spoken

_ALIGN = """Two lists name the same things, partly in other words. For each entry of the first list, find the entry of
the second that means the same, if there is one. Meaning counts, not position.

First list: {ours}

Second list: {theirs}

Reply with one JSON object in a ```json block: keys are entries of the first list exactly as they stand there, values
the entries of the second list that mean the same. Leave out entries without a counterpart."""
_CELLS = """Compare each response with its target by this criterion:
{criterion}

{pairs}

Think about each pair, then reply with one JSON object in a ```json block: for every idx the number 1 where the response
meets the criterion, else 0. Example: {{"idx_0": 1, "idx_1": 0}}"""
_JSON = re.compile(r"```(?:json)?\s*(\{.*?\})\s*```", re.DOTALL)


@dataclass(slots=True)
class TableGrade:
    """Measures with the judge's help. ``failures``: what it could not be got to say; those cells count as wrong."""

    measures: Measures = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)


async def grade_table(judge: Judge, spec: TableSpec, answer: str) -> TableGrade:
    """Score an answer. Raises AuthFailed and ModelMissing; other failures of the judge are counted."""
    grade = TableGrade()
    text = bare(answer)
    table = read_table(text)
    columns: Mapping[str, str] = {}
    if table is not None and renamed(spec, table) is None:
        columns = await _aligned(judge, table.columns, spec.gold.columns, grade)
    given = renamed(spec, table, Aligned(columns))
    if given is None:
        grade.measures = score_table(spec, text, Aligned(columns))
        return grade
    keys = {
        name: await _aligned(judge, given.column(name), spec.gold.column(name), grade)
        for name in spec.unique
        if {"llm_judge", "exact_match"} & set(spec.pipelines.get(name, Pipeline()).metrics)
    }
    gold, ours = prepared(spec, given, Aligned(columns, keys))
    cells: dict[tuple[str, str, str], bool] = {}
    for name, pipeline in spec.pipelines.items():
        if name not in spec.unique and "llm_judge" in pipeline.metrics:
            pairs = list(dict.fromkeys((row[name], other[name]) for row, other in joined(spec, gold, ours)))
            verdicts = await _cells(judge, pairs, str(pipeline.criterion or "They say the same."), grade)
            cells |= {(name, *pair): verdict for pair, verdict in zip(pairs, verdicts, strict=True)}
    grade.measures = score_table(spec, text, Aligned(columns, keys, cells))
    return grade


async def _aligned(judge: Judge, ours: Sequence[str], theirs: Sequence[str], grade: TableGrade) -> dict[str, str]:
    left = [entry for entry in dict.fromkeys(ours) if entry not in theirs]
    if not left:
        return {}
    listed = json.dumps(list(dict.fromkeys(theirs)), ensure_ascii=False)
    said = await _ask(judge, _ALIGN.format(ours=json.dumps(left, ensure_ascii=False), theirs=listed), grade)
    return {str(key): str(value) for key, value in (said or {}).items()}


async def _cells(judge: Judge, pairs: Sequence[tuple[str, str]], criterion: str, grade: TableGrade) -> list[bool]:
    if not pairs:
        return []
    listed = {f"idx_{at}": {"response": ours, "target": theirs} for at, (ours, theirs) in enumerate(pairs)}
    text = json.dumps(listed, ensure_ascii=False, indent=1)
    said = await _ask(judge, _CELLS.format(criterion=criterion, pairs=text), grade) or {}
    verdicts = [_verdict(said.get(f"idx_{at}")) for at in range(len(pairs))]
    silent = verdicts.count(None)
    if said and silent:
        grade.failures.append(f"no verdict on {silent} of {len(pairs)} cells")
    return [bool(verdict) for verdict in verdicts]


def _verdict(value: object) -> bool | None:
    return True if value in (1, "1") else False if value in (0, "0") else None


async def _ask(judge: Judge, prompt: str, grade: TableGrade) -> dict[str, object] | None:
    try:
        said, usage = await judge.ask(prompt)
    except (AuthFailed, ModelMissing):
        raise
    except BackboneFault as fault:
        grade.failures.append(f"{type(fault).__name__}: {fault}")
        return None
    grade.usage = add_usage(grade.usage, usage)
    blocks = _JSON.findall(spoken(said))
    try:
        value = json.loads(blocks[-1]) if blocks else None
    except ValueError:
        value = None
    if not isinstance(value, dict):
        grade.failures.append(f"no JSON object in {len(said)} characters of reply")
        return None
    return value

"""WideSearch (Wong et al., 2025): tables to be filled in, scored by rows and items.

Data: ``widesearch.jsonl`` (instance_id, query, language, evaluation {required, unique_columns, eval_pipeline}) and one
``widesearch_gold/<instance_id>.csv`` a task.
"""

from __future__ import annotations

import glob
import json
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runners.bench.datasets.files import Row, among, distinct, find_file, hash_files, read_rows, text_of
from runners.bench.forms import bare
from runners.bench.tasks import Answered, Benchmark, Dataset, Measures, Options, Task
from runners.errors import UsageFault
from runners.scoring.cells import column_name
from runners.scoring.tables import MEASURES, Pipeline, Table, TableSpec, check_spec, score_table


class _Pipeline(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    preprocess: tuple[str, ...] = ()
    metric: tuple[str, ...] = ("exact_match",)
    criterion: float | str | None = None


class _Evaluation(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    required: tuple[str, ...] = Field(min_length=1)
    unique_columns: tuple[str, ...] = Field(min_length=1)
    eval_pipeline: dict[str, _Pipeline]


def load(path: Path, options: Options) -> Dataset:
    """Raises UsageFault, also for gold tables that are not there."""
    file = find_file(path, ("widesearch.jsonl", "*.jsonl", "*.parquet"))
    tasks, golds = [], []
    rows = read_rows(file, ("instance_id", "query", "evaluation"))
    languages = among(options, "language", (row.get("language", "") for row in rows))
    for at, row in enumerate(rows, 1):
        if languages is not None and str(row.get("language", "")) not in languages:
            continue
        where = f"{file}: row {at}"
        name = text_of(row, "instance_id", where)
        if Path(name).name != name:
            raise UsageFault(f"{where}: instance_id {name!r} is no file name")
        gold = find_file(file.parent, (f"{glob.escape(name)}.csv",))
        tasks.append(_task(row, name, gold, where))
        golds.append(gold)
    distinct([task.id for task in tasks], file)
    return Dataset(tuple(tasks), hash_files([file, *golds]))


def _task(row: Row, name: str, gold: Path, where: str) -> Task:
    given = row["evaluation"]
    try:
        evaluation = _Evaluation.model_validate(json.loads(given) if isinstance(given, str) else given)
    except (ValueError, ValidationError) as fault:
        raise UsageFault(f"{where}: evaluation: {str(fault).splitlines()[0]}") from fault
    query = text_of(row, "query", where)
    spec = TableSpec(
        gold=_gold(gold, tuple(map(column_name, evaluation.required))),
        unique=tuple(map(column_name, evaluation.unique_columns)),
        pipelines={column_name(column): _pipeline(each) for column, each in evaluation.eval_pipeline.items()},
    )
    if wrong := check_spec(spec):
        raise UsageFault(f"{where}: evaluation: {wrong}")
    language = str(row.get("language") or "")
    return Task(
        id=name,
        question=query,
        prompt=query,
        golds=(),
        strata=(f"language {language}",) if language else (),
        table=spec,
    )


def _pipeline(given: _Pipeline) -> Pipeline:
    return Pipeline(given.preprocess, given.metric, given.criterion)


def _gold(path: Path, required: tuple[str, ...]) -> Table:
    rows = read_rows(path, ())
    named: list[Mapping[str, object]] = [{column_name(str(key)): value for key, value in row.items()} for row in rows]
    missing = [column for column in required if column not in named[0]]
    if missing:
        raise UsageFault(f"{path}: the required columns {', '.join(missing)} are missing")
    return Table(required, tuple(tuple(str(row.get(column) or "") for column in required) for row in named))


def official(task: Task, answered: Answered) -> Measures:
    """By the rules alone: what only a judge can compare counts where both sides are equal in form. A floor under the
    official figures, which `bench score --judge` gives."""
    assert task.table is not None
    return score_table(task.table, bare(answered.answer))


WIDESEARCH = Benchmark(
    name="widesearch",
    title="WideSearch",
    privacy="open",
    load=load,
    measures=(*MEASURES, "row_f1_upstream", "item_f1_upstream"),
    official=official,
    options={"language": "en or zh only"},
)

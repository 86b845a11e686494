"""WebWalkerQA (Wu et al., 2025): questions whose answers lie some clicks below a root page; judged by a model, 0 or 1.

Data: jsonl, json or parquet with question, answer, root_url, info {type, difficulty_level, domain, lang}.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from runners.bench.datasets.files import Row, distinct, find_file, flag, hash_files, read_rows, text_of
from runners.bench.forms import ENGLISH, after, final, loosely_exact
from runners.bench.tasks import Answered, Benchmark, Dataset, Measures, Options, Task
from runners.errors import UsageFault

_BUCKETS = ("type", "difficulty_level", "domain", "lang")


def load(path: Path, options: Options) -> Dataset:
    """Raises UsageFault. Rows carry no id: it is made of question and root page."""
    file = find_file(path, ("*.jsonl", "*.parquet", "*.json"))
    rooted = flag(options, "root_url", default=True)
    rows = read_rows(file, ("question", "answer", "root_url"))
    tasks = [_task(row, f"{file}: row {at}", rooted) for at, row in enumerate(rows, 1)]
    distinct([task.id for task in tasks], file)
    return Dataset(tuple(tasks), hash_files([file]))


def _task(row: Row, where: str, rooted: bool) -> Task:
    question, root = text_of(row, "question", where), text_of(row, "root_url", where)
    info = row.get("info") or {}
    if isinstance(info, str):
        try:
            info = json.loads(info)
        except ValueError as fault:
            raise UsageFault(f"{where}: info: not JSON: {fault}") from fault
    buckets = info if isinstance(info, dict) else {}
    asked = f"{question}\nStart at {root}" if rooted else question
    return Task(
        id=hashlib.sha256(f"{question}\n{root}".encode()).hexdigest()[:16],
        question=question,
        prompt=final(asked),
        golds=(text_of(row, "answer", where),),
        strata=tuple(f"{name} {buckets[name]}" for name in _BUCKETS if buckets.get(name)),
    )


def final_answer(answer: str) -> str:
    """The last line's, or the first line."""
    return after(answer, "FINAL ANSWER")


def official(task: Task, answered: Answered) -> Measures:
    """No rule is official here: a floor under what the judge finds."""
    return loosely_exact(final_answer(answered.answer), task.golds)


WEBWALKER = Benchmark(
    name="webwalkerqa",
    title="WebWalkerQA",
    privacy="open",
    load=load,
    measures=("exact_match",),
    official=official,
    judge=ENGLISH,
    judged=True,
    options={"root_url": "false leaves the root page out of the question (default: true)"},
    final=final_answer,
)

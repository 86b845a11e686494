"""The offline benchmark: multi-hop questions (HotpotQA, 2WikiMultihopQA, MuSiQue) over their own pages.

Data: a folder with ``questions.jsonl(.gz)`` (id, question, answer, aliases, supporting_pages) and ``pages.jsonl(.gz)``.
Official figures: exact match and token F1 as SQuAD has them; beside them the share of the supporting pages read.
"""

from __future__ import annotations

from pathlib import Path

from runners.bench.datasets.files import among, distinct, find_file, hash_files, read_rows, text_of
from runners.bench.forms import bare
from runners.bench.tasks import Answered, Benchmark, Dataset, Measures, Options, Task
from runners.errors import UsageFault
from runners.scoring.text import exact, f1, short


def load(path: Path, options: Options) -> Dataset:
    """Raises UsageFault."""
    file = find_file(path, ("questions.jsonl.gz", "questions.jsonl"))
    pages = find_file(file.parent, ("pages.jsonl.gz", "pages.jsonl"))
    rows = read_rows(file, ("id", "question", "answer", "supporting_pages"))
    wanted = among(options, "set", (row.get("dataset", "") for row in rows))
    tasks = [
        _task(row, f"{file}: row {at}")
        for at, row in enumerate(rows, 1)
        if wanted is None or str(row.get("dataset", "")) in wanted
    ]
    distinct([task.id for task in tasks], file)
    return Dataset(tuple(tasks), hash_files([file, pages]), str(pages))


def _task(row: object, where: str) -> Task:
    assert isinstance(row, dict)
    question = text_of(row, "question", where)
    aliases, supporting = row.get("aliases") or [], row["supporting_pages"]
    if not isinstance(aliases, list) or not isinstance(supporting, list) or not supporting:
        raise UsageFault(f"{where}: aliases and supporting_pages must be lists, the latter not empty")
    return Task(
        id=text_of(row, "id", where),
        question=question,
        prompt=question,
        golds=(text_of(row, "answer", where), *map(str, aliases)),
        strata=tuple(str(row[key]) for key in ("dataset",) if row.get(key)),
        supporting=frozenset(map(str, supporting)),
    )


def final_answer(answer: str) -> str:
    """The phrase on the first line, without its citations."""
    return short(bare(answer))


def official(task: Task, answered: Answered) -> Measures:
    """Exact match, F1, and the recall of the supporting pages among those visited."""
    phrase = final_answer(answered.answer)
    read = {url.rpartition("/")[2] for url in answered.visited}
    recall = len(read & task.supporting) / len(task.supporting)
    return {"exact_match": exact(phrase, task.golds), "f1": f1(phrase, task.golds), "supporting_recall": recall}


MULTIHOP = Benchmark(
    name="multihop",
    title="Multi-hop questions over their own pages",
    privacy="open",
    load=load,
    measures=("exact_match", "f1", "supporting_recall"),
    official=official,
    options={"set": "hotpotqa, 2wiki or musique only"},
    final=final_answer,
)

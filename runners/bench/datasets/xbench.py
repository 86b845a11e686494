"""xbench-DeepSearch (xbench team, 2025): encrypted; exact match after 最终答案 first, else a Chinese judge.

Data: csv (id, prompt, answer, reference_steps, canary), base64 of UTF-8 xor the repeated bytes of the row's canary.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from runners.bench.datasets.browsecomp import opened
from runners.bench.datasets.files import distinct, find_file, hash_files, read_rows, text_of
from runners.bench.forms import CHINESE, after, final
from runners.bench.tasks import Answered, Benchmark, Dataset, Measures, Options, Task


def load(path: Path, options: Options) -> Dataset:
    """Raises UsageFault."""
    file = find_file(path, (f"DeepSearch-{options.get('version', '2510')}.csv", "DeepSearch-*.csv"))
    tasks = []
    for at, row in enumerate(read_rows(file, ("id", "prompt", "answer", "canary")), 1):
        where = f"{file}: row {at}"
        question = opened(row, "prompt", str.encode, where)
        tasks.append(
            Task(
                id=text_of(row, "id", where),
                question=question,
                prompt=final(question, chinese=True),
                golds=(opened(row, "answer", str.encode, where),),
                password=str(row["canary"]),
            )
        )
    distinct([task.id for task in tasks], file)
    return Dataset(tuple(tasks), hash_files([file]))


def final_answer(answer: str) -> str:
    """What stands after 最终答案."""
    return after(answer, "最终答案")


def official(task: Task, answered: Answered) -> Measures:
    """Exact match of the final answer, which spares the judge."""
    return {"exact_match": float(final_answer(answered.answer) == task.gold.strip())}


def _decides(task: Task, answer: str) -> float | None:
    return 1.0 if official(task, Answered(answer))["exact_match"] else None


XBENCH = Benchmark(
    name="xbench-deepsearch",
    title="xbench-DeepSearch",
    privacy="encrypted",
    load=load,
    measures=("exact_match",),
    official=official,
    judge=replace(CHINESE, decides=_decides),
    judged=True,
    options={"version": "2505 or 2510 (default), where --data is a folder with both"},
    final=final_answer,
)

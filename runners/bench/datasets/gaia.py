"""GAIA (Mialon et al., 2023): gated; questions with attachments, scored by quasi-exact match.

Data: ``metadata.jsonl`` or ``metadata.parquet`` (task_id, Question, Level, Final answer, file_name), attachments beside
it. The row ``0-0-0-0-0`` is a dummy. The gold ``?`` of the test split is none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from runners.bench.datasets.files import Row, among, distinct, find_file, flag, hash_files, read_rows, text_of
from runners.bench.forms import ENGLISH, after, final
from runners.bench.tasks import Answered, Benchmark, Dataset, Measures, Options, Task
from runners.errors import UsageFault
from runners.scoring.gaia import quasi_exact

DUMMY = "0-0-0-0-0"
_LONGEST = 255
"""Bytes of a file name."""
_COLUMNS = ("task_id", "Question", "Level", "Final answer", "file_name")


def load(path: Path, options: Options) -> Dataset:
    """Raises UsageFault, also for attachments that are not there."""
    file = find_file(path, ("metadata.jsonl", "metadata.parquet", "*.jsonl"))
    tasks, missing = [], []
    rows = read_rows(file, _COLUMNS)
    wanted = _wanted(rows, options)
    for at, row in enumerate(rows, 1):
        if row.get("task_id") == DUMMY or not wanted(row):
            continue
        where = f"{file}: row {at}"
        task = _task(row, file, where)
        for name in task.files:
            if Path(name).is_file():
                _expect_beside(Path(name), file, where)
            else:
                missing.append(name)
        tasks.append(task)
    if missing:
        raise UsageFault(
            f"{len(missing)} attachments are missing, the first is {missing[0]}",
            hint="download the whole folder of the split, or leave such questions out: -o text_only=true",
        )
    if not tasks:
        raise UsageFault(f"{file}: no task is left")
    distinct([task.id for task in tasks], file)
    return Dataset(tuple(tasks), hash_files([file, *(Path(name) for task in tasks for name in task.files)]))


def _wanted(rows: Sequence[Row], options: Options) -> Callable[[Row], bool]:
    """Which rows the options ask for. Raises UsageFault for options that ask for what is not there."""
    text_only = flag(options, "text_only")
    levels = among(options, "level", (row.get("Level") for row in rows if row.get("task_id") != DUMMY))
    subset = _subset(options["subset"], {str(row.get("task_id")) for row in rows}) if options.get("subset") else None

    def wanted(row: Row) -> bool:
        return (
            not (text_only and row.get("file_name"))
            and (levels is None or str(row.get("Level")) in levels)
            and (subset is None or str(row.get("task_id")) in subset)
        )

    return wanted


def _expect_beside(attached: Path, table: Path, where: str) -> None:
    """A link may not lead out of the table's folder. A hub's cache links both into one folder of contents."""
    target = attached.resolve()
    if not any(target.is_relative_to(root) for root in (table.parent.resolve(), table.resolve().parent)):
        raise UsageFault(
            f"{where}: {attached.name} is a link to {target}, outside of the data", hint="put the file itself there"
        )


def _subset(name: str, there: Collection[str]) -> frozenset[str]:
    try:
        found = frozenset(Path(name).read_text("utf-8").split())
    except (OSError, UnicodeDecodeError) as fault:
        raise UsageFault(f"-o subset={name}: cannot be read") from fault
    lost = sorted(found.difference(there))
    if lost:
        raise UsageFault(f"-o subset={name}: {len(lost)} of its ids are not in the data, the first is {lost[0]}")
    return found


def _task(row: Row, file: Path, where: str) -> Task:
    question = text_of(row, "Question", where)
    gold = text_of(row, "Final answer", where, empty=True)
    name = text_of(row, "file_name", where, empty=True).strip()
    if name and (Path(name).name != name or "\0" in name or len(name.encode()) > _LONGEST):
        raise UsageFault(f"{where}: file_name must be the name of a file beside the table, not {name[:80]!r}")
    return Task(
        id=text_of(row, "task_id", where),
        question=question,
        prompt=final(question),
        golds=(gold,) if gold and gold != "?" else (),
        strata=(f"level {text_of(row, 'Level', where)}", "with file" if name else "text only"),
        # not resolved: in a hub's cache it is a link, and only the link has the name and its ending
        files=(str((file.parent / name).absolute()),) if name else (),
    )


def final_answer(answer: str) -> str:
    """What the leaderboard compares."""
    return after(answer, "FINAL ANSWER")


def official(task: Task, answered: Answered) -> Measures:
    """Quasi-exact match."""
    return {"quasi_exact": float(quasi_exact(final_answer(answered.answer), task.gold))}


GAIA = Benchmark(
    name="gaia",
    title="GAIA",
    privacy="gated",
    load=load,
    measures=("quasi_exact",),
    official=official,
    judge=ENGLISH,
    options={
        "level": "levels, as in 1,2",
        "text_only": "true leaves out questions with attachments",
        "subset": "a file of task ids, such as the 103 text-only ones that many papers use",
    },
    final=final_answer,
)

"""BrowseComp (Wei et al., 2025) and BrowseComp-ZH (Zhou et al., 2025): encrypted, judged by a model.

Data: csv (problem, answer, problem_topic, canary), xlsx (Topic, Question, Answer, canary). Each text is base64 of its
UTF-8 xor the repeated SHA-256 of the row's canary; it is decrypted in memory and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from runners.bench.cipher import decrypt, sha_key
from runners.bench.datasets.files import Row, find_file, flag, hash_files, read_rows, text_of
from runners.bench.forms import CHINESE_FIELDS, ENGLISH, exact_answer, explained, loosely_exact
from runners.bench.tasks import Answered, Benchmark, Dataset, Measures, Options, Task
from runners.errors import UsageFault


def opened(row: Row, column: str, key: Callable[[str], bytes], where: str) -> str:
    """A cell decrypted. Raises UsageFault, without a word of its text."""
    try:
        return decrypt(text_of(row, column, where), key(text_of(row, "canary", where)))
    except ValueError as fault:
        raise UsageFault(f"{where}: {column}: {fault}", hint="give the file as published, encrypted") from None


def _load(path: Path, options: Options, *, chinese: bool) -> Dataset:
    pattern, problem, answer, topic = (
        ("*.xlsx", "Question", "Answer", "Topic") if chinese else ("*.csv", "problem", "answer", "problem_topic")
    )
    file = find_file(path, (pattern,))
    told = flag(options, "topics")
    tasks = []
    for at, row in enumerate(read_rows(file, (problem, answer, "canary"))):
        where = f"{file}: row {at + 1}"
        question = opened(row, problem, sha_key, where)
        subject = row.get(topic)
        if chinese:  # encrypted too, and a row of the report would tell it
            subject = opened(row, topic, sha_key, where) if subject and told else None
        tasks.append(
            Task(
                id=str(at),
                question=question,
                prompt=explained(question, chinese=chinese),
                golds=(opened(row, answer, sha_key, where),),
                strata=(str(subject),) if subject else (),
                password=str(row["canary"]),
            )
        )
    return Dataset(tuple(tasks), hash_files([file]))


def official(task: Task, answered: Answered) -> Measures:
    """No rule is official here: a floor under what the judge finds."""
    return loosely_exact(exact_answer(answered.answer), task.golds)


BROWSECOMP = Benchmark(
    name="browsecomp",
    title="BrowseComp",
    privacy="encrypted",
    load=partial(_load, chinese=False),
    measures=("exact_match",),
    official=official,
    judge=ENGLISH,
    judged=True,
    confident=True,
    final=exact_answer,
)
BROWSECOMP_ZH = Benchmark(
    name="browsecomp-zh",
    title="BrowseComp-ZH",
    privacy="encrypted",
    load=partial(_load, chinese=True),
    measures=("exact_match",),
    official=official,
    judge=CHINESE_FIELDS,
    judged=True,
    options={"topics": "true gives rows by topic, whose names are encrypted in the data"},
    confident=True,
    final=exact_answer,
)

"""The judges' grades of a run: an append-only file beside its results. None gives way to ``ungraded``."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import TypeAlias

from pydantic import TypeAdapter

from memory.records import add_usage
from runners.bench.journal import Journal, read_journal
from runners.bench.results import validated
from runners.bench.rows import GradeRow, TrialKey

FILE = "scores.jsonl"
Grades: TypeAlias = Mapping[tuple[TrialKey, str], GradeRow]
"""By trial and judge."""


@cache
def _grades() -> TypeAdapter[GradeRow]:
    return TypeAdapter(GradeRow)


def answer_hash(answer: str, password: str) -> str:
    """Names an answer without giving it away."""
    return hashlib.sha256(f"{password}\n{answer}".encode()).hexdigest()[:16]


def read_grades(folder: Path) -> dict[tuple[TrialKey, str], GradeRow]:
    """The grades in force. Raises UsageFault."""
    found: dict[tuple[TrialKey, str], GradeRow] = {}
    path = folder / FILE
    for number, value in read_journal(path):
        keep(found, validated(_grades(), value, f"{path}:{number}"))
    return found


def keep(grades: dict[tuple[TrialKey, str], GradeRow], row: GradeRow) -> None:
    """The later grade of the same answer wins, unless it is none; what both took adds up."""
    old = grades.get((row.key, row.scorer))
    if old is not None:
        stays = old.answer_hash == row.answer_hash and row.grade == "ungraded" and old.grade != "ungraded"
        row = replace(old if stays else row, usage=add_usage(old.usage, row.usage))
    grades[row.key, row.scorer] = row


class Scores:
    """The file, open for writing."""

    def __init__(self, folder: Path) -> None:
        """Raises UsageFault: another writer."""
        self._journal = Journal(folder / FILE)
        self.grades = read_grades(folder)

    def append(self, row: GradeRow) -> None:
        """One grade, on the disk."""
        self._journal.append({"kind": "grade", **asdict(row)})
        keep(self.grades, row)

    def close(self) -> None:
        self._journal.close()

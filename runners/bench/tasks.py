"""What a benchmark is: its tasks, the rule that scores them, the judge's form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from runners.scoring.judge import Parse
from runners.scoring.tables import TableSpec

Privacy: TypeAlias = Literal["open", "gated", "encrypted"]
"""``gated`` (behind a login) and ``encrypted`` sets are never written anywhere in plaintext."""
Options: TypeAlias = Mapping[str, str]
Measures: TypeAlias = dict[str, float]


@dataclass(frozen=True, slots=True)
class Task:
    """One question. ``prompt`` is what the agent is asked: the question in the benchmark's template."""

    id: str
    question: str
    prompt: str
    golds: tuple[str, ...]
    """The answer and its aliases; empty where the split keeps them to itself."""
    strata: tuple[str, ...] = ()
    """Rows of the report that it belongs to, such as ``level 2``."""
    files: tuple[str, ...] = ()
    supporting: frozenset[str] = frozenset()
    """Pages that the answer stands on (multihop)."""
    table: TableSpec | None = None
    """How a table is scored (WideSearch)."""
    password: str = ""
    """What texts of this task are sealed with where the set is private; empty: the dataset's hash."""

    @property
    def gold(self) -> str:
        return self.golds[0] if self.golds else ""


@dataclass(frozen=True, slots=True)
class Dataset:
    """Tasks in the order of their file. ``hash``: SHA-256 (hex) of everything they were read from."""

    tasks: tuple[Task, ...]
    hash: str
    corpus: str | None = None
    """The pages that belong to it, where it brings its own web."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What the official rule sees of a trial: the answer as given, and the addresses of the pages read."""

    answer: str
    visited: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JudgeForm:
    """How a judge is asked and read. ``decides``: a rule that spares the judge, 1 or 0, else None."""

    prompt: Callable[[Task, str], str]
    parse: Parse
    decides: Callable[[Task, str], float | None] = lambda _task, _answer: None


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One benchmark. ``measures`` names what ``official`` gives, the one that counts first; empty: only a judge can
    tell."""

    name: str
    title: str
    privacy: Privacy
    load: Callable[[Path, Options], Dataset]
    measures: tuple[str, ...] = ()
    official: Callable[[Task, Answered], Measures] | None = None
    judge: JudgeForm | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of its loader, with what each does."""
    judged: bool = False
    """Whether the judge's word is the official one, and the rule only a floor under it."""
    confident: bool = False
    """Whether answers state a confidence, so that calibration can be told."""
    final: Callable[[str], str] = str.strip
    """The final answer in a reply, as a submission has it."""

    @property
    def private(self) -> bool:
        return self.privacy != "open"

    def score(self, task: Task, answered: Answered) -> Measures:
        """The official measures of one trial; empty where there is no rule, or no gold."""
        if self.official is None or not (task.golds or task.table):
            return {}
        return self.official(task, answered)


def chosen(tasks: Sequence[Task], ids: Sequence[str], limit: int | None, seed: int | None) -> tuple[Task, ...]:
    """The tasks of a run: those named, else ``limit`` of them, in the order of the file or drawn by ``seed``.

    Raises KeyError with the first id that is not there.
    """
    if ids:
        known = {task.id: task for task in tasks}
        return tuple(known[name] for name in dict.fromkeys(ids))
    order = list(tasks)
    if seed is not None:
        import random

        random.Random(seed).shuffle(order)
    return tuple(order[:limit])

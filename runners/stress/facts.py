"""What a long session has seen, and can be asked about later."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from memory.sanitize import sanitize
from runners.replay.planted import Asked, Page, evidence

DISTANCES = (10, 100, 1_000, 10_000)
TOLERANCE, LEAST = 0.1, 8
"""A fact seen up to this share further back, or so many steps, stands in where none was seen exactly so many steps
ago."""


@dataclass(frozen=True, slots=True, order=True)
class Fact:
    """``sentence`` of ``page``, visited at step ``source``, answers ``question`` (by its id)."""

    source: int
    question: str
    page: str = ""
    sentence: str = ""


@dataclass(slots=True)
class Facts:
    """Facts by the step at which their page was last visited. ``questions``: the collection, in order."""

    questions: Sequence[Asked]
    pages: Mapping[str, Page]
    last: dict[str, int] = field(default_factory=dict)
    """Last visit of each page."""
    _about: dict[str, list[tuple[Asked, str]]] = field(default_factory=dict)
    """(question, sentence) by the page that answers it."""
    _known: list[Fact] = field(default_factory=list)
    _used: set[tuple[str, int, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        for question in self.questions:
            there = {page: at for at, page in enumerate(question.supporting_pages) if page in self.pages}
            found = evidence(question, self.pages, there)
            if found is not None:
                page = question.supporting_pages[found[0]]
                self._about.setdefault(page, []).append((question, found[1]))

    def visited(self, page: str, step: int) -> None:
        """A page was read at ``step``; steps are given in order."""
        self.last[page] = step
        for question, sentence in self._about.get(page, ()):
            insort(self._known, Fact(step, question.id, page, sentence))

    def at(self, step: int, distance: int) -> Fact | None:
        """A fact last seen ``distance`` steps before ``step``, or a little further back; the same visit's none twice at
        one distance."""
        newest = step - distance
        oldest = newest - max(LEAST, int(distance * TOLERANCE))
        for fact in self._between(max(1, oldest), newest):
            if self.last[fact.page] == fact.source and (fact.question, distance, fact.source) not in self._used:
                return fact
        return None

    def use(self, question: str, distance: int, source: int) -> None:
        """That question was asked at that distance from the visit at step ``source``."""
        self._used.add((question, distance, source))

    def _between(self, oldest: int, newest: int) -> Iterator[Fact]:
        """The newest first."""
        first = bisect_left(self._known, Fact(oldest, ""))
        last = bisect_right(self._known, Fact(newest, "\U0010ffff"))
        return reversed(self._known[first:last])


def page_of(url: str) -> str:
    """Id of a page of the collection by its address in the corpus."""
    return url.rpartition("/")[2]


def clean(question: Asked) -> str:
    """The question as it is put."""
    return sanitize(question.question)

"""The scripted session: every page of a collection visited once a lap, question by question, lap after lap."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from runners.errors import UsageFault
from runners.replay.planted import Asked, Page

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Visit:
    """Step ``step`` reads ``page`` while question ``task`` (from 1) is in force."""

    step: int
    task: int
    question: Asked
    page: str


def schedule(questions: Sequence[Asked], pages: Mapping[str, Page], seed: int) -> Iterator[Visit]:
    """Visits without end, the same for the same seed. Raises UsageFault where no question has a page."""
    step, task = 0, 0
    for order in laps(questions, seed):
        seen: set[str] = set()
        for question in order:
            wanted = dict.fromkeys([*question.context_pages, *question.supporting_pages])
            fresh = [page for page in wanted if page in pages and page not in seen]
            random.Random(f"{seed} {step}").shuffle(fresh)
            task += bool(fresh)
            for page in fresh:
                step += 1
                seen.add(page)
                yield Visit(step, task, question, page)
        if not seen:
            raise UsageFault("no question of the collection has a page to visit")


def laps(questions: Sequence[T], seed: int) -> Iterator[list[T]]:
    """The questions in an order of each lap's own, lap after lap."""
    lap = 0
    while True:
        order = list(questions)
        random.Random(f"{seed} lap {lap}").shuffle(order)
        yield order
        lap += 1

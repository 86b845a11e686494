"""Copies are found, near copies with what only they have; what is not alike is not called so."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from memory.lifecycle.duplicates import Duplicate, Finder, alike, pieces
from tests.memory.sessions import page


def find(texts: list[str], similar: float = 0.9) -> list[Duplicate]:
    finder = Finder(lambda number: texts[number - 1], similar)
    return [found for number, text in enumerate(texts, start=1) if (found := finder.add(number, text)) is not None]


def test_word_for_word() -> None:
    texts = [page(1), page(2), page(1), page(1)]
    assert find(texts) == [Duplicate(3, 1, 1.0), Duplicate(4, 1, 1.0)]


def test_nearly() -> None:
    """Order does not matter; what only the later one has is named in its order."""
    lines = page(1).split(". ")
    random.Random(0).shuffle(lines)
    changed = ". ".join([*lines[1:], "A new line about 1999", "And another"])
    (found,) = find([page(1), page(2), changed])
    assert (found.chunk, found.of, found.own) == (3, 1, ("A new line about 1999", "And another"))
    assert 0.9 <= found.alike < 1.0
    assert find([page(1), page(2), changed], similar=0.99) == []


def test_another_page_on_the_same_thing_is_no_copy() -> None:
    assert find([page(seed) for seed in range(200)]) == []


def test_short_texts_are_left_alone() -> None:
    assert find(["no results"] * 5) == []


def test_boilerplate_is_not_enough() -> None:
    """Half of every page is the same."""
    frame = page(999, sentences=30)
    assert find([f"{frame} {page(seed, sentences=30)}" for seed in range(40)]) == []


def test_ten_thousand_texts_cost_dictionary_look_ups() -> None:
    read: list[int] = []
    texts = [page(seed, 12) for seed in range(1500)]

    def text_of(number: int) -> str:
        read.append(number)
        return texts[number - 1]

    finder = Finder(text_of)
    assert not any(finder.add(number, text) for number, text in enumerate(texts, start=1))
    assert len(read) < 15


@given(st.lists(st.text(max_size=30), max_size=8), st.lists(st.text(max_size=30), max_size=8))
def test_alike_is_a_share(a: list[str], b: list[str]) -> None:
    assert 0.0 <= alike(a, b) <= 1.0
    assert alike(a, b) == alike(b, a)
    assert alike(a, a) == (1.0 if any(a) else 0.0)


@given(st.text(max_size=300))
def test_pieces_are_of_the_text(text: str) -> None:
    assert all(piece and piece in text for piece in pieces(text))

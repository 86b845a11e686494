"""Exact match and F1 on values worked out by hand."""

from __future__ import annotations

import pytest

from runners.scoring.text import exact, f1, normal, short, token_f1


@pytest.mark.parametrize(
    ("answer", "golds", "em", "score"),
    [
        ("The Beatles!", ["beatles"], 1, 1),
        ("a red house", ["the big red house"], 0, 0.8),
        ("blue", ["red", "blue sky"], 0, 2 / 3),
        ("", ["red"], 0, 0),
        ("", ["The"], 0, 0),
        ("a", ["The"], 1, 1),  # nothing is left of either
        ("red", [], 0, 0),
        ("no no no", ["no"], 0, 0.5),
        ("Anthem", ["them"], 0, 0),
    ],
)
def test_exact_match_and_f1(answer: str, golds: list[str], em: float, score: float) -> None:
    assert exact(answer, golds) == em
    assert f1(answer, golds) == pytest.approx(score)


def test_normalisation_keeps_what_is_not_ascii_punctuation() -> None:
    assert normal("The  Café, of   «Zoë»") == "café of «zoë»"


def test_two_empty_bags_are_equal() -> None:
    assert token_f1([], []) == 1
    assert token_f1([], ["a"]) == 0


def test_the_phrase_is_the_first_line() -> None:
    assert short("Oslo\nbecause [c1]") == "Oslo"

"""An index of words that was kept in a file goes on as if it had been made again."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.index.keyfile import HEAD
from memory.index.lexical import LexicalIndex
from memory.index.wordfile import read_words, write_words

WORDS = st.sampled_from(["amber", "bridge", "cedar", "dune", "\ud800", "橋", "ember-2"])
TEXTS = st.lists(st.lists(WORDS, max_size=9).map(" ".join), max_size=6)
TERMS = ["amber", "bridge", "cedar", "dune", "橋", "ember-2", "nowhere"]


def index(texts: list[str], onto: LexicalIndex | None = None) -> LexicalIndex:
    made = onto or LexicalIndex()
    made.extend(texts)
    return made


@given(TEXTS, TEXTS, TEXTS)
def test_frozen_twice_and_gone_on_with(first: list[str], second: list[str], third: list[str]) -> None:
    kept = index(third, LexicalIndex(index(second, LexicalIndex(index(first).frozen())).frozen()))
    whole = index([*first, *second, *third])
    assert len(kept) == len(whole)
    for count in range(len(whole) + 1):
        assert np.array_equal(kept.scores(TERMS, count), whole.scores(TERMS, count))


def test_a_file_gives_back_what_was_put_down(tmp_path: Path) -> None:
    rng = random.Random(1)
    texts = [" ".join(f"word{rng.randrange(500)}" for _ in range(80)) for _ in range(60)]
    terms = [f"word{number}" for number in range(500)]
    words, path = index(texts), tmp_path / "s-words"
    left = tmp_path / "s-words.0123"
    left.write_bytes(b"of a process that was killed")
    token = write_words(path, words.frozen())
    assert not left.exists()
    found = read_words(path, token)
    assert found is not None
    assert np.array_equal(LexicalIndex(found).scores(terms, 60), words.scores(terms, 60))


@pytest.mark.parametrize("damage", ["token", "short", "long", "head", "bit", "gone"])
def test_a_file_that_is_not_to_be_believed(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "s-words"
    token = write_words(path, index(["amber bridge", "cedar amber"]).frozen())
    held = bytearray(path.read_bytes())
    if damage == "bit":
        held[HEAD + 50] ^= 4
    if damage == "head":
        held[3] ^= 0xFF
    path.write_bytes(held[:-1] if damage == "short" else held + b"x" if damage == "long" else held)
    if damage == "gone":
        path.unlink()
    assert read_words(path, "other" if damage == "token" else token) is None

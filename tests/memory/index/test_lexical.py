"""The inverted index gives BM25 as its definition does, in a few bytes a posting."""

from __future__ import annotations

import random
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.index import lexical
from memory.index.lexical import K1, B, LexicalIndex
from memory.text.words import tokenize

WORDS = st.sampled_from(["amber", "bridge", "cedar", "dune", "ember"])


def plain(texts: list[list[str]], terms: list[str], count: int) -> list[float]:
    """BM25 (Robertson and Zaragoza, 2009) of the first ``count`` texts, word for word."""
    average = max(1.0, sum(map(len, texts[:count])) / count)
    result = []
    for words in texts[:count]:
        total = 0.0
        for term in set(terms):
            holding = sum(term in other for other in texts[:count])
            if term in words:
                found = words.count(term)
                idf = np.log1p((count - holding + 0.5) / (holding + 0.5))
                total += idf * found * (K1 + 1) / (found + K1 * (1 - B + B * len(words) / average))
        result.append(total)
    return result


@given(st.lists(st.lists(WORDS, max_size=12), min_size=1, max_size=9), st.lists(WORDS, max_size=4), st.data())
def test_scores_are_those_of_the_definition(texts: list[list[str]], terms: list[str], data: st.DataObject) -> None:
    index = LexicalIndex()
    for words in texts:
        index.add(" ".join(words))
    count = data.draw(st.integers(1, len(texts)))
    read = [tokenize(" ".join(words)) for words in texts]
    wanted = [token for term in terms for token in tokenize(term)]
    assert index.scores(wanted, count) == pytest.approx(plain(read, wanted, count))


def test_a_word_repeated_for_ever_saturates() -> None:
    index = LexicalIndex()
    index.add("amber " * 100_000 + "bridge")
    index.add("cedar")
    assert index.scores(["amber"], 2)[0] > index.scores(["bridge"], 2)[0] > 0


def test_postings_are_small() -> None:
    """At most eight bytes for each word of each text, arrays and their spare room included; sixteen were too many."""
    index = LexicalIndex()
    rng = random.Random(0)
    texts = [" ".join(f"word{rng.randrange(2000)}" for _ in range(300)) for _ in range(600)]
    for text in texts:
        index.add(text)
    held = sum(sys.getsizeof(postings) for postings in index._postings.values())
    assert held <= 8 * sum(len(set(tokenize(text))) for text in texts)


@given(st.lists(st.lists(WORDS, max_size=12), min_size=1, max_size=12), st.lists(WORDS, max_size=4), st.data())
def test_some_rows_are_worth_what_they_are_among_all(
    texts: list[list[str]], terms: list[str], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(texts)))
    first = LexicalIndex()
    first.extend(map(" ".join, texts[:cut]))
    index = LexicalIndex(first.frozen())
    index.extend(map(" ".join, texts[cut:]))
    rows = np.array(sorted(data.draw(st.sets(st.integers(0, len(texts) - 1)))), dtype=np.int64)
    whole = index.scores(terms, len(texts))
    assert index.scores_of(terms, rows) == pytest.approx(whole[rows])
    assert index.best(terms, 100).tolist() == np.flatnonzero(whole).tolist()
    few = index.best(terms, 3)
    assert len(few) == min(3, np.count_nonzero(whole))
    assert sorted(whole[few]) == pytest.approx(sorted(whole)[len(whole) - len(few) :])


def test_common_words_are_not_looked_up_beside_rare_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexical, "_LOOKED_AT", 10)
    index = LexicalIndex()
    index.extend(["amber", "amber bridge", *["amber"] * 30])
    assert index.best(["amber", "bridge"], 100).tolist() == [1]
    assert len(index.best(["amber"], 100)) == 32, "one word at least"

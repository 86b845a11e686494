"""Words, sentences, BM25, fusion, passages, salient strings."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.text.bm25 import Bm25, scores
from memory.text.fusion import reciprocal_rank
from memory.text.passages import best_passages
from memory.text.salience import salient, strings
from memory.text.sentences import spans, split
from memory.text.words import tokenize

ANY_TEXT = st.text(st.characters(), max_size=300) | st.text(alphabet="aB. !?。！\n|•\"'1,-中は한", max_size=300)


def squeezed(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("The Cats, dogs", ["the", "cats", "dogs"]),
        ("John's don't O'Brien", ["john", "dont", "obrien"]),
        ("1,234.50 and 3.14", ["1234.50", "and", "3.14"]),
        ("on 2017-05-23", ["on", "2017-05-23", "2017", "05", "23"]),
        ("foo_bar state-of-the-art", ["foo_bar", "state", "of", "the", "art"]),
        ("C++ and C#", ["c++", "c", "and", "c#", "c"]),
        ("Beyoncé ＡＢＣ", ["beyonce", "abc"]),
        ("北京大学", ["北京", "京大", "大学"]),
        ("猫 abc犬", ["猫", "abc", "犬"]),
        ("한국어", ["한국", "국어"]),
        ("हिन्दी", ["हिन्दी"]),
        ("", []),
        ("... --- '", []),
    ],
)
def test_terms(text: str, terms: list[str]) -> None:
    assert tokenize(text) == terms


@given(ANY_TEXT)
def test_terms_of_any_text(text: str) -> None:
    terms = tokenize(text)
    assert all(terms)
    assert terms == tokenize(text)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("Dr. Smith met J. Doe. He left.", ["Dr. Smith met J. Doe.", "He left."]),
        ("It cost 3.14 in version 2.0 of a.b.c then.", ["It cost 3.14 in version 2.0 of a.b.c then."]),
        ("Really?! Yes. 12 came.", ["Really?!", "Yes.", "12 came."]),
        ('He said "no." Then he left.', ['He said "no."', "Then he left."]),
        ("e.g. this one", ["e.g. this one"]),
        ("你好。这是“测试。”还有！", ["你好。", "这是“测试。”", "还有！"]),
        ("| a | b |\n| c. D | e |\n\n- item", ["| a | b |", "| c. D | e |", "- item"]),
        ("1. First\n2. Second", ["1. First", "2. Second"]),
        ("one • two • three", ["one", "• two", "• three"]),
        (" \n\t ", []),
    ],
)
def test_sentences(text: str, pieces: list[str]) -> None:
    assert split(text) == pieces


@given(ANY_TEXT, st.integers(1, 50))
def test_sentences_lose_nothing_and_keep_the_limit(text: str, limit: int) -> None:
    pieces = split(text, limit)
    assert squeezed("".join(pieces)) == squeezed(text)
    assert all(0 < len(piece) <= limit and piece == piece.strip() for piece in pieces)
    ranges = spans(text, limit)
    assert ranges == sorted(ranges)
    assert all(a_end <= b_start for (_, a_end), (b_start, _) in pairwise(ranges))


def test_a_giant_line_is_cut_at_a_word() -> None:
    assert split("aaaa bbbb cccc dddd", 10) == ["aaaa bbbb", "cccc dddd"]
    assert split("x" * 25, 10) == ["x" * 10, "x" * 10, "x" * 5]
    with pytest.raises(ValueError, match="at least 1"):
        split("a", 0)


@pytest.mark.parametrize("unit", [".", ".)", "。", "a.", "1.", "-", "'", "A ", "/a", "@", "[", "_a", "1,"])
def test_hostile_runs_take_linear_time(unit: str) -> None:
    """Quadratic patterns would take minutes on these; the suite's time limit is the judge."""
    text = unit * 40_000
    assert "".join("".join(split(text)).split()) == "".join(text.split()), "something was lost"
    tokenize(text)
    strings(text)
    best_passages("a", text)


def test_bm25_by_hand() -> None:
    index = Bm25(["apple pear", "apple apple fig kiwi"], k1=1.2, b=0.75)
    idf = math.log1p((2 - 1 + 0.5) / 1.5)
    expected = idf * 1 * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 2 / 3))
    assert index.scores("pear") == pytest.approx([expected, 0.0])
    assert index.idf("pear") == pytest.approx(idf)
    assert index.scores("pear pear") == pytest.approx([2 * expected, 0.0])
    assert index.idf("unknown") > index.idf("pear") > index.idf("apple") > 0


def test_bm25_grows() -> None:
    texts = ["red fox", "blue fox", "红色的狐狸", ""]
    grown = Bm25()
    for text in texts:
        grown.add(text)
    assert len(grown) == 4
    np.testing.assert_array_equal(grown.scores("red 狐狸"), scores("red 狐狸", texts))
    assert np.flatnonzero(scores("狐狸", texts)).tolist() == [2]
    assert scores("anything", []).shape == (0,)
    assert not scores("", texts).any()


@given(st.text(max_size=40), st.lists(st.text(max_size=40), max_size=6))
def test_bm25_of_any_text(query: str, documents: list[str]) -> None:
    values = scores(query, documents)
    assert values.shape == (len(documents),)
    assert np.isfinite(values).all()
    assert (values >= 0).all()


def test_fusion_by_hand() -> None:
    fused = reciprocal_rank([3.0, 1.0, 2.0], [0.0, 0.0, 5.0], k=60)
    assert fused == pytest.approx([1 / 61 + 1 / 62, 1 / 63 + 1 / 62, 1 / 62 + 1 / 61])
    assert reciprocal_rank([1.0, math.nan]) == pytest.approx([1 / 61, 1 / 62])
    assert reciprocal_rank([1.0, 2.0], [2.0, 1.0], weights=[2, 1]) == pytest.approx([2 / 62 + 1 / 61, 2 / 61 + 1 / 62])
    assert reciprocal_rank([3.0, 1.0, 2.0], [0.0, 0.0, 5.0], window=1) == pytest.approx([1 / 61, 0, 1 / 61])


def test_a_list_that_says_nothing_moves_nothing() -> None:
    one = reciprocal_rank([3.0, 1.0, 2.0])
    both = reciprocal_rank([3.0, 1.0, 2.0], [7.0, 7.0, 7.0])
    assert np.argsort(one).tolist() == np.argsort(both).tolist()
    assert np.ptp(both - one) == pytest.approx(0)


def test_fusion_refuses_what_does_not_match() -> None:
    with pytest.raises(ValueError, match="nothing"):
        reciprocal_rank()
    with pytest.raises(ValueError, match="same length"):
        reciprocal_rank([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="one weight"):
        reciprocal_rank([1.0], weights=[1.0, 2.0])


def test_passages_find_the_place() -> None:
    text = "Nothing is here. " * 60 + "The capital of France is Paris. It is large. " + "Nor is it here. " * 60
    passages = best_passages("capital of France", text, limit_chars=80)
    assert any("Paris" in passage for passage in passages)
    assert sum(map(len, passages)) <= 80
    assert len(best_passages("capital of France", text, count=1)) == 1


def test_passages_without_a_match_are_the_head() -> None:
    assert best_passages("zebra", "One two. Three four. Five six.", limit_chars=9) == ["One two."]
    assert best_passages("zebra", "") == []
    assert best_passages("", "abc", limit_chars=1) == ["a"]


def test_a_long_sentence_after_a_short_one_is_reached() -> None:
    text = "Short one here. " + "The needle lies " + "in hay " * 60 + "still."
    assert any("needle" in passage for passage in best_passages("needle", text))


@given(st.text(max_size=30), ANY_TEXT, st.integers(1, 200), st.integers(1, 100))
def test_passages_are_slices_in_order(query: str, text: str, limit: int, window: int) -> None:
    passages = best_passages(query, text, limit_chars=limit, window_chars=window)
    at = 0
    for passage in passages:
        at = text.index(passage, at) + len(passage)
    assert bool(passages) == bool(text.strip())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("on 5 May 2019 or 2019-05-03", ["5 May 2019", "2019-05-03"]),
        ("in May 2019, 1987 and 2019年5月3日", ["May 2019", "1987", "2019年5月3日"]),
        ("paid $3.5 million (12%)", ["$3.5 million", "12%"]),
        ("see https://x.org/a?b=1, or me@y.com.", ["https://x.org/a?b=1", "me@y.com"]),
        ("order #W123 of ab12-c3", ["#W123", "ab12-c3"]),
        ("ValueError in foo/bar.py line 12", ["ValueError", "foo/bar.py", "line 12"]),
        ("E1001 from my_func() and some_name", ["E1001", "my_func()", "some_name"]),
        ("it is by John of Gaunt", ["John of Gaunt"]),
        ("读《红楼梦》", ["《红楼梦》"]),
        ("The dog is here", []),
    ],
)
def test_salient_strings(text: str, expected: list[str]) -> None:
    assert strings(text) == expected


@given(ANY_TEXT)
def test_salient_ranges(text: str) -> None:
    end = 0
    for item in salient(text):
        assert text[item.start : item.end] == item.text != ""
        assert item.start >= end
        end = item.end

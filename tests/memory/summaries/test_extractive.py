"""What extractive summaries keep, and that nothing breaks them."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.records import JsonValue
from memory.summaries import fields
from memory.summaries.extractive import cut, head_and_tail, summarise
from memory.summaries.units import segments, units
from memory.tokens import ScriptCounter

COUNT = ScriptCounter().count
FILLER = "It went on in much the same way for quite some time after that. "

PAGE = (
    'thought: look it up\naction: visit {"url": ["https://example.org/bridge"], "goal": "opening of the bridge"}\n'
    "observation: History\n" + FILLER * 12 + "The Storsund bridge was opened on 5 May 1987 by Anna Lindqvist. "
    "It cost 12.4 million kronor. " + FILLER * 12
)


def random_text(letters: str) -> str:
    """One word of 50,000 letters."""
    return "".join(random.Random(1).choices(letters, k=50_000))


def words(text: str) -> int:
    return len(text.split())


def test_the_answer_and_the_action_survive() -> None:
    detailed, brief = summarise(PAGE, "When was the Storsund bridge opened?", count=COUNT, detailed_tokens=120)
    assert detailed.startswith('look it up\nvisit {"url": ["https://example.org/bridge"]')
    assert "opened on 5 May 1987 by Anna Lindqvist" in detailed
    assert "12.4 million" in detailed
    assert "5 May 1987" in brief
    assert "visit https://example.org/bridge" in brief
    assert COUNT(detailed) <= 120
    assert COUNT(brief) <= 48


def test_strings_to_the_letter_survive_without_a_matching_question() -> None:
    detailed, _ = summarise(PAGE, "completely unrelated zebras", count=COUNT, detailed_tokens=120)
    assert "5 May 1987" in detailed
    assert "12.4 million" in detailed


def test_sentences_keep_their_order_and_repeat_nothing() -> None:
    text = "observation: " + "Bridge two came in 1950. Bridge one came in 1940. Bridge two came in 1950. " + FILLER * 20
    detailed, _ = summarise(text, "bridge", count=COUNT, detailed_tokens=60)
    assert detailed.index("Bridge two") < detailed.index("Bridge one")
    assert detailed.count("Bridge two came in 1950.") == 1


def test_a_short_text_is_its_own_summary() -> None:
    assert summarise("observation: 42", "q", count=COUNT) == ("observation: 42", "observation: 42")
    assert summarise(" \n ", "q", count=COUNT) == ("", "")
    middle = "observation: " + FILLER * 5
    detailed, brief = summarise(middle, "q", count=COUNT)
    assert detailed == middle.strip()
    assert COUNT(brief) < COUNT(detailed)


def test_a_failed_observation_says_so() -> None:
    text = 'action: visit {"url": "u"}\nobservation (timeout): no answer within 30 s\n' + FILLER * 30
    detailed, _ = summarise(text, "no answer", count=COUNT)
    assert "timeout: no answer within 30 s" in detailed


def test_a_giant_sentence_is_cut() -> None:
    for text in (
        "observation: " + " ".join(f"lorem{n}" for n in range(5000)),
        random_text("xyz"),
        random_text("字词句"),
    ):
        detailed, brief = summarise(text, "q", count=COUNT)
        assert 0 < COUNT(brief) <= 48
        assert 100 < COUNT(detailed) <= 220


def test_chinese() -> None:
    text = (
        "observation: "
        + "这里没有什么特别的内容值得一提。" * 40
        + "李明于1987年5月在北京大学获得博士学位。"
        + "其他内容。" * 40
    )
    detailed, brief = summarise(text, "李明在哪所大学获得博士学位？", count=COUNT)
    assert "北京大学" in detailed
    assert "北京大学" in brief


ORDER: JsonValue = {
    "order_id": "#W3730488",
    "status": "pending",
    "user": {"name": "Yara Ito", "email": "yara@example.com"},
    "items": [
        {"name": f"item {n}", "item_id": str(1000 + n), "price": 10.5 + n, "options": {"color": "red"}}
        for n in range(40)
    ],
    "history": [FILLER * 8],
    "tags": list(range(100)),
}


def test_json_is_kept_by_fields() -> None:
    text = 'action: get_order_details {"order_id": "#W3730488"}\nobservation: ' + json.dumps(ORDER)
    detailed, brief = summarise(text, "How much is item 17 of Yara's order?", count=COUNT)
    assert "item_id: 1017, price: 27.5" in detailed
    assert "status: pending" in detailed
    assert "#W3730488" in brief


def test_long_lists_are_cut_with_their_count() -> None:
    lines = [line for line, _ in fields.lines(ORDER)]
    assert "tags: 0, 1, 2, 3, 4, 5, 6, 7 (+92 more)" in lines
    assert [prose for line, prose in fields.lines(ORDER) if FILLER.strip() in line] == [True]


def test_broken_json_is_prose() -> None:
    assert fields.parse('{"a": 1') is None
    assert fields.parse("[" * 100_000) is None
    assert fields.parse("3") is None
    deep = fields.parse("[" * 300 + "1" + "]" * 300)
    assert [line for line, _ in fields.lines(deep)] == ["[0]" * 12 + ": (1 entries)"]
    detailed, _ = summarise("observation: " + json.dumps(ORDER)[:-7], "item 17", count=COUNT)
    assert "item 17" in detailed


def test_profiles_differ() -> None:
    text = (
        "observation: The city of Uppsala and Anna Lindqvist and Erik Holm met in Stockholm on Monday with Sven Ek. "
        + FILLER * 10
        + "TypeError in src/app/main.py line 12 from load_config(), see retry_policy. "
        + FILLER * 10
    )
    coding, _ = summarise(text, "", "coding", count=COUNT, detailed_tokens=40, brief_tokens=12)
    research, _ = summarise(text, "", "research", count=COUNT, detailed_tokens=40, brief_tokens=12)
    assert "main.py" in coding
    assert "Uppsala" in research


def test_an_encoder_takes_part() -> None:
    text = FILLER * 10 + "Felines rest. " + FILLER * 10

    def similar(query: str, texts: object) -> np.ndarray:
        assert isinstance(texts, list)
        return np.array([1.0 if "Felines" in text else 0.0 for text in texts])

    assert "Felines" in summarise(text, "cats sleep", count=COUNT, similarity=similar, detailed_tokens=60)[0]


def test_segments() -> None:
    text = 'thought: a\nb\naction: f {}\nobservation (timeout): late\naction: g {"x": 1}\nobservation: c\nanswer: d'
    assert list(segments(text)) == [
        ("thought", "", "a\nb"),
        ("action", "", "f {}"),
        ("observation", "timeout", "late"),
        ("action", "", 'g {"x": 1}'),
        ("observation", "", "c"),
        ("answer", "", "d"),
    ]


JSONS = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner, max_size=5),
    max_leaves=30,
)
TEXTS = (
    st.text(st.characters(), max_size=500)
    | st.text(alphabet='ab .\n{}[]":,action: observation中。', max_size=500)
    | JSONS.map(lambda value: 'action: f {"a": 1}\nobservation: ' + json.dumps(value))
)


@given(TEXTS, st.text(max_size=30), st.integers(2, 20), st.integers(0, 60))
def test_limits_hold_for_any_text(text: str, question: str, brief_tokens: int, more: int) -> None:
    limits = {"detailed_tokens": brief_tokens + more, "brief_tokens": brief_tokens}
    detailed, brief = summarise(
        text, question, count=COUNT, detailed_tokens=brief_tokens + more, brief_tokens=brief_tokens
    )
    assert COUNT(brief) <= COUNT(detailed) <= max(limits["detailed_tokens"], 0)
    assert COUNT(brief) <= limits["brief_tokens"]
    assert (detailed, brief) == summarise(
        text, question, count=COUNT, detailed_tokens=brief_tokens + more, brief_tokens=brief_tokens
    )
    assert bool(text.strip()) or not detailed


@given(st.text(max_size=200), st.integers(0, 40))
def test_cut_keeps_to_the_limit(text: str, limit: int) -> None:
    short = cut(text, limit, COUNT)
    assert COUNT(short) <= limit
    assert short == text or text.startswith(short.removesuffix("…"))


@given(st.text(max_size=100), st.integers(1, 100))
def test_head_and_tail(text: str, limit: int) -> None:
    short = head_and_tail(text, limit)
    assert short == text if len(text) <= limit else len(short) == limit + len("\n[…]\n")


@given(TEXTS)
def test_units_are_never_empty(text: str) -> None:
    assert all(unit.text for unit in units(text))


def _plain(text: str) -> str:
    return " " + " ".join(re.findall(r"\w+", text.lower())) + " "


@pytest.mark.skipif("LONGSTRIDE_DATA" not in os.environ, reason="set LONGSTRIDE_DATA to measure kept answers")
def test_answers_kept_on_hotpotqa() -> None:
    """Floors below what was measured (.72 and .37 of all literal answers); the design asks for .60 and .325."""
    folder = Path(os.environ["LONGSTRIDE_DATA"]) / "multihop" / "unified"
    with gzip.open(folder / "pages.jsonl.gz", "rt", encoding="utf-8") as file:
        pages = {page["page_id"]: f"{page['title']}\n{page['text']}" for page in map(json.loads, file)}
    kept, total = np.zeros(2), 0
    with gzip.open(folder / "questions.jsonl.gz", "rt", encoding="utf-8") as file:
        for item in map(json.loads, file):
            context = "\n\n".join(pages[page] for page in item["context_pages"])
            answer = _plain(item["answer"])
            if item["dataset"] != "hotpotqa" or answer in (" yes ", " no ") or answer not in _plain(context):
                continue
            total += 1
            both = summarise(context, item["question"], detailed_tokens=150, brief_tokens=40, count=words)
            kept += [answer in _plain(text) for text in both]
    assert total > 100
    assert kept[0] / total >= 0.68
    assert kept[1] / total >= 0.33

"""Texts for runs of steps: what is kept, merged, bounded, rejected, and what stands in for a model that fails."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.frame import block, range_block
from memory.plan import Block, NeedsSummary
from memory.records import Level, Reply, Request
from memory.stored import UsageRow
from memory.summaries.condense import NOTHING, condense, labelled
from memory.summaries.config import SummaryConfig
from memory.summaries.fakes import ScriptedCompletion
from memory.summaries.ranges import ATTEMPTS, ExtractiveBlocks, LlmBlocks, build_blocks, sealed
from memory.tokens import ScriptCounter
from tests.memory.sessions import page

COUNTER = ScriptCounter()
QUESTION = "When were the royal comets of Varden counted?"
CONFIG = SummaryConfig(kind="llm")


def steps(first: int, last: int, needle: dict[int, str] | None = None) -> list[str]:
    return [
        block(number, Level.FULL, f'action: visit {{"url": "http://x.test/{number}"}}\nobservation: {page(number, 12)}'
              + (needle or {}).get(number, ""))
        for number in range(first, last + 1)
    ]  # fmt: skip


FOUND = " The royal comets of Varden were counted in 1893 by Ada Quill."


def test_what_answers_is_kept_with_the_step_it_is_from() -> None:
    text = condense(steps(1, 30, {17: FOUND}), QUESTION, 200, COUNTER.count)
    line = next(line for line in text.splitlines() if "Ada Quill" in line)
    assert line.startswith("c17: ")
    assert COUNTER.count(text) <= 200
    ids = [int(line.split(":")[0][1:]) for line in text.splitlines()]
    assert ids == sorted(ids)


def test_a_merge_keeps_old_finds_with_their_steps() -> None:
    text = ""
    for first in range(1, 60, 10):
        needle = {17: FOUND} if first == 11 else {}
        text = condense(steps(first, first + 9, needle), QUESTION, 200, COUNTER.count, previous=text)
    line = next(line for line in text.splitlines() if "Ada Quill" in line)
    assert line.startswith("c17: ") and COUNTER.count(text) <= 200


def test_an_answer_to_an_earlier_question_outlives_what_surrounds_it() -> None:
    texts = [*steps(1, 8), block(9, Level.FULL, "question: Who?\nanswer: It was Osk Lirne."), *steps(10, 20)]
    assert "Osk Lirne" in condense(texts, "something else entirely", 120, COUNTER.count)


@pytest.mark.parametrize(
    ("text", "label", "body"),
    [
        ("### c12 full\nthought: x\n", "c12", "thought: x\n"),
        ("### c3 visit glaciers 3, 40 chars\n", "c3", "visit glaciers 3, 40 chars\n"),
        ("### c1-c64 64 steps folded: visit x64\n", "c1-c64", "64 steps folded: visit x64\n"),
        ("no header", "", "no header"),
        ("", "", ""),
    ],
)
def test_rendered_blocks_are_taken_apart(text: str, label: str, body: str) -> None:
    assert labelled(text) == (label, body)


@pytest.mark.parametrize("texts", [[], [""], ["### c1 full\n\n"], ["### c1 full\n \n\t\n"]])
async def test_there_is_always_a_text(texts: list[str]) -> None:
    made = await ExtractiveBlocks(CONFIG, COUNTER).make(NeedsSummary(1, 1, tokens=80), 1, 3, texts, "")
    assert made.text == NOTHING and made.producer == "extractive"


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text(max_size=300), max_size=8),
    st.text(max_size=200),
    st.integers(30, 300),
    st.text(max_size=200),
)
def test_any_text_stays_within_its_bound_as_rendered(
    texts: list[str], question: str, tokens: int, previous: str
) -> None:
    merge = Block(1, 1, 4, "summary", previous, 10)
    need = NeedsSummary(5, 12, "summary", merge, tokens)
    made = asyncio.run(ExtractiveBlocks(CONFIG, COUNTER).make(need, 2, 20, texts, question))
    assert made.tokens == COUNTER.count(range_block(1, 12, "summary", made.text)) <= tokens
    assert (made.first, made.last, made.number, made.published_step) == (1, 12, 2, 20)
    again = asyncio.run(ExtractiveBlocks(CONFIG, COUNTER).make(need, 2, 20, texts, question))
    assert again == made


def test_headers_in_a_text_are_paid_for() -> None:
    made = sealed(NeedsSummary(1, 2, tokens=60), 1, 1, "### c1 full\n" * 40, "model", COUNTER)
    assert made.tokens <= 60 and made.text


async def made_by(
    script: list[Reply | str | Exception], texts: list[str], **need: object
) -> tuple[Block, list[Request]]:
    completion = ScriptedCompletion(script)
    rows: list[UsageRow] = []

    async def record(row: UsageRow) -> None:
        rows.append(row)

    maker = build_blocks(CONFIG, COUNTER, completion, record=record)
    wanted = NeedsSummary(**{"first": 1, "last": len(texts), "tokens": 300, **need})  # type: ignore[arg-type]
    made = await maker.make(wanted, 1, 9, texts, QUESTION)
    await completion.aclose()
    assert all(row.step == 9 and row.purpose == "summary" for row in rows)
    return made, completion.requests


async def test_a_model_is_shown_steps_and_the_earlier_summary() -> None:
    merge = Block(3, 1, 8, "summary", "Earlier: nothing [c4]. </earlier_summary>", 10)
    reply = "<think>hm</think>The comets were counted in 1893 [c9].\x00"
    made, requests = await made_by([reply], steps(9, 12), first=9, last=12, merge=merge)
    assert (made.first, made.last, made.producer) == (1, 12, "llm:scripted")
    assert made.text == "The comets were counted in 1893 [c9].\u2400"
    said = requests[0].messages[1].content
    assert QUESTION in said and "### c9 full" in said and "Earlier: nothing [c4]. </ earlier_summary>" in said


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "  ",
        "I'm sorry, I can't help with that.",
        "Error: context length exceeded",
        Reply("half a sent", stop_reason="length"),
        Reply("no", stop_reason="refusal"),
    ],
)
async def test_a_bad_reply_is_asked_for_again_and_told_why(bad: Reply | str) -> None:
    made, requests = await made_by([bad, "Counted in 1893 [c2]."], steps(1, 3))
    assert made.text == "Counted in 1893 [c2]." and made.producer == "llm:scripted"
    assert "could not be used" not in requests[0].messages[1].content
    assert "could not be used" in requests[1].messages[1].content


@pytest.mark.parametrize("script", [[""] * ATTEMPTS, [ValueError("broken")], [TimeoutError()]])
async def test_extraction_stands_in_for_a_model_that_fails_and_says_so(script: list[Reply | str | Exception]) -> None:
    made, _ = await made_by(script, steps(1, 6, {4: FOUND}))
    assert "Ada Quill" in made.text and made.producer == "extractive (llm:scripted failed)"


async def test_a_text_longer_than_its_source_is_rejected() -> None:
    made, requests = await made_by(["word " * 60, "short"], ["### c1 full\nobservation: tiny\n"])
    assert made.text == "short" and "longer than what it summarises" in requests[1].messages[1].content


async def test_an_overlong_text_is_condensed_within_its_bound() -> None:
    made, _ = await made_by([" ".join(page(n, 20) for n in range(4)) + FOUND], steps(1, 40), tokens=150)
    assert made.tokens <= 150 and "Ada Quill" in made.text and made.producer == "llm:scripted"


async def test_a_range_larger_than_the_window_is_condensed_before_it_is_sent() -> None:
    completion = ScriptedCompletion(["Counted in 1893 [c30]."])
    maker = LlmBlocks(completion, CONFIG, COUNTER, ExtractiveBlocks(CONFIG, COUNTER), window=3_000)
    texts = steps(1, 40, {30: FOUND})
    made = await maker.make(NeedsSummary(1, 40, tokens=300), 1, 42, texts, QUESTION)
    assert made.producer == "llm:scripted"
    sent = "".join(message.content for message in completion.requests[0].messages)
    assert "c30: " in sent and "Ada Quill" in sent and COUNTER.count(sent) + 300 <= 3_000


async def test_a_model_that_hangs_is_given_up() -> None:
    class Hanging(ScriptedCompletion):
        async def complete(self, request: Request) -> Reply:
            await asyncio.Event().wait()
            raise AssertionError

    maker = LlmBlocks(
        Hanging([]), SummaryConfig(kind="llm", timeout_s=0.01), COUNTER, ExtractiveBlocks(CONFIG, COUNTER)
    )
    made = await maker.make(NeedsSummary(1, 3, tokens=200), 1, 5, steps(1, 3), QUESTION)
    assert made.producer == "extractive (llm:scripted failed)"


def test_without_a_model_extraction_it_is() -> None:
    assert isinstance(build_blocks(SummaryConfig(kind="off"), COUNTER), ExtractiveBlocks)
    assert isinstance(build_blocks(CONFIG, COUNTER, None), ExtractiveBlocks)

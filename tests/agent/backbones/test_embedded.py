from __future__ import annotations

import json
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.backbones.embedded import EmbeddedBackbone
from agent.backbones.extractive.decision import decide
from agent.backbones.extractive.scene import read_scene
from agent.dialects.base import Situation
from agent.dialects.guided import GuidedDialect
from agent.dialects.legal import violation
from agent.errors import BadRequest
from memory.frame import block, close_line, open_line
from memory.records import ChunkRef, Level, Message, Observation, Request, Step, ToolCall
from tests.agent.reader_world import PAGES, World, request_of, url_of

CITATION = re.compile(r"\[c(\d+)\]")


@pytest.mark.parametrize(
    ("question", "span"),
    [
        ("Where did the director of The Salt Road die?", "Lisbon"),
        ("When was the director of film The Salt Road born?", "4 May 1919"),
        ("Which film was released first, The Salt Road or Winter Harbour?", "The Salt Road"),
        ("Which film has the director who was born later, The Salt Road or Winter Harbour?", "Winter Harbour"),
        ("Are Ingrid Solvang and Duarte Quintela from the same country?", "no"),
        ("What is the default limit of tidy.sort?", "250"),
        ("What exception does tidy.sort raise when a row is empty?", "TidyError"),
        ("What does tidy.sort return?", "a new list of the rows in order."),
    ],
)
async def test_answers_with_a_short_span_first(question: str, span: str) -> None:
    world = World()
    answer = await world.ask(question)
    assert answer.splitlines()[0] == span
    if span != "no" and not question.startswith("Which film"):
        cited = [world.steps[int(number) - 1].observations[0].text for number in CITATION.findall(answer)]
        assert any(span in text for text in cited)
    assert CITATION.search(answer)


async def test_the_second_hop_is_searched_for_by_the_name_that_the_first_one_gave() -> None:
    world = World()
    await world.ask("Where did the director of The Salt Road die?")
    assert url_of("Ingrid Solvang") in world.visited
    assert len(world.visited) == 2


async def test_it_is_deterministic() -> None:
    first, second = World(), World()
    for question in ("Where did the director of The Salt Road die?", "What is found along coastlines?"):
        await first.ask(question)
        await second.ask(question)
    assert first.replies == second.replies


async def test_it_says_so_when_nothing_is_found() -> None:
    world = World(pages={})
    answer = await world.ask("Who painted the ceiling?", max_steps=6)
    assert answer.startswith("I found nothing")
    assert not CITATION.search(answer)


async def test_no_query_and_no_page_twice() -> None:
    world = World()
    await world.ask("Which harbour of the north is open all winter and who says so about seals?")
    assert len(world.visited) == len(set(world.visited))
    assert len(world.queries) == len({query.lower() for query in world.queries})


async def test_usage_is_counted_and_costs_nothing() -> None:
    reply = await EmbeddedBackbone().complete(request_of(GuidedDialect(), "Who?", [], Situation(step=1)))
    assert reply.usage.input_total is not None
    assert reply.usage.input_total > 10
    assert reply.usage.cost == 0.0


async def test_a_request_without_legal_actions_is_refused() -> None:
    with pytest.raises(BadRequest, match="schema"):
        await EmbeddedBackbone().complete(Request((Message("user", "hello"),)))


def framed(*blocks: str) -> str:
    return open_line("n1") + "".join(blocks) + close_line("n1")


VISITED = 'thought: read\naction: visit {"urls": ["http://corpus.local/Ingrid_Solvang"]}\nobservation: '
LAST = Step(
    5,
    "act",
    calls=(ToolCall("s5.0", "search", {"queries": ["x"]}),),
    observations=(Observation("s5.0", "search", "Results: nothing found"),),
)


def answer_from(history: str, question: str, **more: object) -> str:
    situation = Situation(step=6, task_step=6, steps_left=1)
    action = decide(read_scene(request_of(GuidedDialect(), question, [LAST], situation, history)))
    return str(action["answer"])


def test_the_level_of_a_chunk_decides_what_is_known() -> None:
    question = "Where did Ingrid Solvang die?"
    title = f"[Ingrid Solvang]({url_of('Ingrid Solvang')})\n(whole page)\n\n"
    full = framed(block(3, Level.FULL, VISITED + title + PAGES["Ingrid Solvang"]))
    assert answer_from(full, question) == "Lisbon\nShe died in Lisbon. [c3]"
    brief = framed(block(3, Level.BRIEF, "visit http://corpus.local/Ingrid_Solvang\nShe was born in Bodø."))
    assert "Lisbon" not in answer_from(brief, question)
    placeholder = framed(block(3, Level.PLACEHOLDER, "visit Ingrid Solvang, 160 chars"))
    assert answer_from(placeholder, question).startswith("I found nothing")


def test_evidence_that_is_only_a_placeholder_is_glimpsed_and_then_cited_as_itself() -> None:
    question = "Where did Ingrid Solvang die?"
    history = framed(block(3, Level.PLACEHOLDER, "visit Ingrid Solvang, 160 chars"))
    other = Step(
        5,
        "act",
        calls=(ToolCall("s5.0", "visit", {"urls": [url_of("Lisbon")]}),),
        observations=(Observation("s5.0", "visit", f"[Lisbon]({url_of('Lisbon')})\n\n{PAGES['Lisbon']}"),),
    )
    situation = Situation(step=6, task_step=6, steps_left=9, compressed=("c3",), last_tools=("visit",))
    action = decide(read_scene(request_of(GuidedDialect(), question, [other], situation, history)))
    assert action == {"thought": "see c3 in full", "action": "glimpse", "chunk_id": "c3"}

    shown = f"c3 is shown in full below for this step.\n### c3\n{VISITED}{PAGES['Ingrid Solvang']}"
    glimpse = Step(
        6,
        "act",
        calls=(ToolCall("s6.0", "glimpse", {"chunk_id": "c3"}),),
        observations=(Observation("s6.0", "glimpse", shown, refs=(ChunkRef(3),)),),
    )
    situation = Situation(step=7, task_step=7, steps_left=8, glimpsed=("c3",), last_tools=("glimpse",))
    action = decide(read_scene(request_of(GuidedDialect(), question, [other, glimpse], situation, history)))
    assert action == {"action": "answer", "answer": "Lisbon\nShe died in Lisbon. [c3]"}


def test_earlier_questions_are_told_from_the_one_in_force() -> None:
    history = framed(
        block(1, Level.FULL, 'action: search {"queries": ["old"]}\nobservation: none'),
        block(2, Level.PLACEHOLDER, "answered 'old?': no"),
        block(3, Level.FULL, 'action: search {"queries": ["new"]}\nobservation: none'),
    )
    scene = read_scene(request_of(GuidedDialect(), "new?", [], Situation(step=4, task_step=2), history))
    assert [(item.chunk, item.current) for item in scene.blocks] == [(1, False), (2, False), (3, True)]
    assert scene.asked == ("new",)


def test_a_folded_answer_does_not_make_old_steps_current() -> None:
    history = framed(
        block(1, Level.FULL, 'action: search {"queries": ["old"]}\nobservation: none'),
        "### c2-c6 5 steps folded: visit x4\n",
        block(7, Level.FULL, 'action: search {"queries": ["new"]}\nobservation: none'),
    )
    scene = read_scene(request_of(GuidedDialect(), "new?", [], Situation(step=8, task_step=2), history))
    assert scene.asked == ("new",)
    assert [item.chunk for item in scene.blocks if item.current] == [7]


pieces = st.sampled_from(
    [
        "### c9 full",
        "### /history n1",
        "### c1-c9 steps",
        "{",
        '{"action": "answer"}',
        "1. [",
        "](http://",
        "中文。答案是",
        "\n",
    ]
)
hostile = st.lists(pieces | st.text(max_size=30), max_size=12).map(" \n".join)


@settings(max_examples=150)
@given(hostile, hostile, hostile, st.booleans())
def test_no_text_in_a_context_breaks_it_or_makes_it_act_illegally(
    question: str, page: str, history: str, last: bool
) -> None:
    dialect = GuidedDialect()
    step = Step(
        5,
        "act",
        calls=(ToolCall("s5.0", "visit", {"urls": ["http://x/"]}),),
        observations=(Observation("s5.0", "visit", page), Observation("s5.1", "search", page)),
    )
    situation = Situation(
        step=6,
        task_step=6,
        steps_left=1 if last else 5,
        listed=("http://y/z",),
        compressed=("c9",),
        last_tools=("visit",),
    )
    request = request_of(dialect, question, [step], situation, framed(block(3, Level.FULL, history)))
    action = decide(read_scene(request))
    assert request.schema is not None
    assert not violation(action, request.schema)
    json.dumps(action)


def test_two_thousand_steps_over_a_full_context_are_quick() -> None:
    """A regression guard with a wide margin: a step over about 16K tokens takes a few milliseconds."""
    sentence = "The harbour of {0} was built in 18{0:02d} by Olav Berg {0} and is named after the town {0}. "
    blocks = [
        block(number, Level.FULL, VISITED + "".join(sentence.format(number % 100) for _ in range(12)))
        for number in range(1, 41)
    ]
    history = framed(*blocks)
    dialect = GuidedDialect()
    started = time.perf_counter()
    for number in range(2000):
        situation = Situation(step=50 + number, task_step=9, steps_left=1 + number % 2, last_tools=("visit",))
        request = request_of(dialect, f"When was the harbour of {number % 100} built?", [LAST], situation, history)
        assert decide(read_scene(request))["action"] in ("answer", "search")
    assert time.perf_counter() - started < 200

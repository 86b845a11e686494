"""Attached files and the titles of pages, as the embedded reader takes them."""

from __future__ import annotations

import pytest

from agent.backbones.extractive.decision import decide
from agent.backbones.extractive.scene import read_scene
from agent.dialects.base import Situation
from agent.dialects.guided import GuidedDialect
from memory.records import JsonValue, Observation, Step, ToolCall, ToolSpec
from tests.agent.reader_world import TOOLS, World, context_of

QUESTION = "Who led the survey of the Orrin valley?"
REPORT = "The survey of the Orrin valley was led by Mara Quist."


def offered(*names: str) -> ToolSpec:
    listed: JsonValue = [*names]
    return ToolSpec("parse_file", "Read a file.", {"properties": {"file": {"enum": listed}, "page": {}}})


def reading(number: int, file: str, text: str, head: str = "whole file", page: int = 1) -> Step:
    call = ToolCall(f"s{number}.0", "parse_file", {"file": file, "page": page})
    return Step(
        number, "act", calls=(call,), observations=(Observation(call.id, call.name, f"{file} ({head})\n\n{text}"),)
    )


def act(steps: list[Step], *names: str, tools: tuple[ToolSpec, ...] = TOOLS) -> dict[str, JsonValue]:
    dialect = GuidedDialect()
    on_offer = [*tools, offered(*names)]
    form = dialect.step_format(on_offer)
    messages = [*form.preamble(QUESTION), *(message for step in steps for message in form.step(step))]
    read = [(str(c.arguments["file"]), c.arguments.get("page", 1)) for step in steps for c in step.calls]
    number = len(steps) + 1
    situation = Situation(
        step=number,
        task_step=number,
        files=tuple((name, page) for name, page in read if isinstance(page, int)),
        last_tools=("parse_file",) if steps else (),
    )
    return decide(read_scene(dialect.request(context_of(messages, number), on_offer, situation)))


def test_files_are_read_one_after_the_other_before_anything_is_searched() -> None:
    first = act([], "a b.pdf", "c.csv")
    assert (first["action"], first["file"], first["page"]) == ("parse_file", "a b.pdf", 1)
    more = reading(1, "a b.pdf", "Preface of the yearbook.", "page 1 of 2; scanned")
    second = act([more], "a b.pdf", "c.csv")
    assert (second["file"], second["page"]) == ("a b.pdf", 2)
    last = reading(2, "a b.pdf", "Thanks are due to all.", "page 2 of 2", 2)
    assert act([more, last], "a b.pdf", "c.csv")["file"] == "c.csv"
    searching = act([more, last, reading(3, "c.csv", "name,age")], "a b.pdf", "c.csv")
    assert searching["action"] == "search"


def test_a_file_that_says_it_is_answered_from() -> None:
    for tools in (TOOLS, ()):
        action = act([reading(1, "Survey 2021.pdf", REPORT)], "Survey 2021.pdf", tools=tools)
        assert action["answer"] == f"Mara Quist\n{REPORT} [c1]"


def test_files_alone_that_do_not_say_it() -> None:
    action = act([reading(1, "menu.txt", "Soup is served in the valley at noon.")], "menu.txt", tools=())
    assert str(action["answer"]).startswith("I found nothing")


def test_many_files_are_each_read_once() -> None:
    names = [f"{number}.txt" for number in range(40)]
    steps = [reading(number, name, "Soup at noon.") for number, name in enumerate(names, 1)]
    assert act(steps[:-1], *names)["file"] == names[-1]
    assert act(steps, *names)["action"] == "search"


def test_a_file_of_a_thousand_parts_is_not_read_for_ever() -> None:
    steps: list[Step] = []
    while len(steps) < 40:
        action = act(steps, "long.txt")
        if action["action"] != "parse_file":
            break
        number = len(steps) + 1
        steps.append(reading(number, "long.txt", "Soup at noon.", f"page {number} of 1000", number))
    assert 1 < len(steps) <= 12


@pytest.mark.parametrize(
    ("title", "text", "question", "span"),
    [
        ("Staff", "The chief engineer is Anna Berg. She came in 2011.", "Who is the chief engineer?", "Anna Berg"),
        ("Staff", "Staff are listed here. The chief engineer is Anna Berg.", "Who is the chief engineer?", "Anna Berg"),
        ("utf16", "The lighthouse is 34 metres high and was lit in 1887.", "How high is the lighthouse?", "34"),
        ("latin1", "Der Leuchtturm wurde 1887 gebaut.", "Wann wurde der Leuchtturm gebaut?", "1887"),
        (
            "Mill Lane 4",
            "The lease of Mill Lane 4 was signed by Ruth Amsel on 3 May 2004.",
            "Who signed the lease?",
            "Ruth Amsel",
        ),
        ("中文", "Orrin 大桥由李明设计。", "Orrin 大桥是谁设计的?", "Orrin 大桥由李明设计。"),
        ("### /history", "The gate code of the depot is kept by Olaf Brun.", "Who keeps the gate code?", "Olaf Brun"),
        ("### /history", "the gate code of the depot changes daily.", "What changes daily at the depot?", None),
        ("Ingrid Solvang", "Ingrid Solvang (1919–1988) was a Bodø painter.", "Who was a painter?", "Ingrid Solvang"),
    ],
)
async def test_a_title_is_no_answer_because_it_heads_the_page(
    title: str, text: str, question: str, span: str | None
) -> None:
    world = World(pages={title: text})
    answer = (await world.ask(question)).splitlines()[0]
    assert answer == span if span else answer not in (title, "")

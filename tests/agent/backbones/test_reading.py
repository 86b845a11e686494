"""The embedded policy whose answers a model words."""

from __future__ import annotations

import json

from agent.backbones.embedded import EmbeddedBackbone
from agent.backbones.factory import BackboneConfig
from agent.backbones.reading import MAX_TEXT, ReadingBackbone
from agent.backbones.scripted import ScriptedBackbone
from agent.dialects.base import Situation
from agent.dialects.guided import GuidedDialect
from agent.dialects.legal import legal_schema
from memory.records import Message, Observation, Reply, Request, Step, ToolCall, ToolSpec, Usage

TOOLS = [ToolSpec(name, name, {"type": "object", "properties": {}}) for name in ("search", "visit")]
PAGE = (
    "[Varden](http://x.test/v)\n(whole page)\n\nVarden is a town on the coast. The harbour of Varden was rebuilt in "
    "1831 and cost 2000 crowns. " + "It is open all winter, and boats call there every day of the week. " * 60
)


def last_step(question: str, text: str) -> Request:
    """A request whose only legal action is the answer, after a page was read."""
    form = GuidedDialect().step_format(TOOLS)
    call = ToolCall("s1.0", "visit", {"urls": ["http://x.test/v"], "goal": question})
    step = Step(1, calls=(call,), observations=(Observation("s1.0", "visit", text),))
    schema = legal_schema(TOOLS, Situation(2, task_step=2, steps_left=1, last_tools=("visit",)))
    return Request(messages=(*form.preamble(question), *form.step(step)), schema=schema)


async def test_the_model_words_what_the_policy_found() -> None:
    reader = ScriptedBackbone([Reply("in 1831", usage=Usage(90, None, None, 4))], model="small")
    backbone = ReadingBackbone(EmbeddedBackbone(), reader)
    assert backbone.model == "extractive policy, answers read by small"
    reply = await backbone.complete(last_step("When was the harbour of Varden rebuilt?", PAGE))
    action = json.loads(reply.text)
    assert action["action"] == "answer"
    short, *quotes = action["answer"].splitlines()
    assert short == "in 1831"
    assert "rebuilt in 1831" in quotes[0] and quotes[0].endswith("[c1]")
    (asked,) = reader.calls
    assert asked.messages[-1].content.endswith("Question: When was the harbour of Varden rebuilt?\nShort answer:")
    assert "rebuilt in 1831" in asked.messages[-1].content
    assert len(asked.messages[-1].content) < MAX_TEXT + 200
    assert (reply.usage.output or 0) > 4
    await backbone.aclose()
    assert reader.closed


async def test_other_steps_and_empty_words_are_the_policys_own() -> None:
    reader = ScriptedBackbone(["  "])
    backbone = ReadingBackbone(EmbeddedBackbone(), reader)
    first = Request(
        messages=(Message("system", "s"), Message("user", "Question: Where is Varden?")),
        schema=legal_schema(TOOLS, Situation(1)),
    )
    assert json.loads((await backbone.complete(first)).text)["action"] == "search"
    assert not reader.calls
    told = await backbone.complete(last_step("When was the harbour of Varden rebuilt?", PAGE))
    assert json.loads(told.text)["answer"].startswith("1831")
    await backbone.aclose()


def test_a_reader_is_configured_by_name() -> None:
    assert BackboneConfig(reader="qwen2.5-coder-0.5b").kind == "embedded"

"""OpenAI messages: ``{"messages": [...]}`` with native tool calls, as fine-tuning and most tools write them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict, Field

from memory.ingest import clean_step
from memory.records import JsonValue, Observation, Step, ToolCall
from memory.sanitize import sanitize
from memory.stored import Question
from runners.replay.readers.actions import sources_of
from runners.replay.readers.atif import text_of
from runners.replay.recording import Recording


class _Function(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str
    arguments: str | dict[str, object] = "{}"


class _Call(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    id: str = ""
    function: _Function


class _Message(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    role: str
    content: object = ""
    tool_calls: list[_Call] | None = None
    tool_call_id: str = ""


class _Run(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    messages: list[_Message] = Field(min_length=1)
    id: str = ""


def read(value: object, family: str) -> Recording:
    """A recording from one decoded line. Raises ValidationError, or ValueError where there is no step.

    A user message before any step, or after an answer, is a question; any other is what the session said to the model.
    """
    run = _Run.model_validate(value)
    system, steps, questions = "", list[Step](), list[Question]()
    at = 0
    while at < len(run.messages):
        message = run.messages[at]
        at += 1
        text = text_of(message.content)
        if message.role in ("system", "developer"):
            system = system or text
        elif message.role == "user":
            questions.append(Question(len(questions) + 1, sanitize(text), len(steps) + 1, 0.0))
        elif message.role == "assistant":
            end = at
            while end < len(run.messages) and _answers(run.messages[end], message):
                end += 1
            task = max(1, len(questions))
            steps.append(clean_step(_step(message, run.messages[at:end], len(steps) + 1, task)))
            at = end
    if not steps:
        raise ValueError("messages: no assistant message")
    asked = [question for question in questions if question.from_step <= len(steps)]
    if not asked or asked[0].from_step > 1:
        asked.insert(0, Question(0, "", 1, 0.0))
    return Recording(run.id or asked[0].text[:60], family, tuple(steps), tuple(asked), sanitize(system))


def _answers(message: _Message, asked: _Message) -> bool:
    """Whether a message belongs to the step: a result, or what was said beside results."""
    return message.role == "tool" or (message.role == "user" and bool(asked.tool_calls))


def _step(message: _Message, after: Sequence[_Message], number: int, task: int) -> Step:
    said = text_of(message.content)
    if not message.tool_calls:
        return Step(number, "answer", answer=said, task=task)
    calls = tuple(
        ToolCall(f"s{number}.{at}", call.function.name, _arguments(call.function.arguments))
        for at, call in enumerate(message.tool_calls)
    )
    named = {given.id: call for given, call in zip(message.tool_calls, calls, strict=True)}
    seen = []
    for item in after:
        call = named.get(item.tool_call_id) if item.role == "tool" else None
        tool, sources = (call.name, sources_of(call.arguments)) if call else ("note", ())
        seen.append(Observation(call.id if call else "", tool, text_of(item.content), sources=sources))
    return Step(number, thought=said, calls=calls, observations=tuple(seen), task=task)


def _arguments(given: str | Mapping[str, object]) -> dict[str, JsonValue]:
    try:
        value = json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        return {"input": str(given)}
    return {str(key): item for key, item in value.items()} if isinstance(value, dict) else {"input": str(given)}

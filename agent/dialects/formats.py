"""What the dialects share in writing steps as messages."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from memory.frame import defuse
from memory.records import JsonValue, Message, Observation, Step, ToolCall, ToolSpec

NO_RESULT = "no result: the step was interrupted"
_SPECIAL = re.compile(r"<(?=\|[^|<>\s]{1,40}\|>)")


def plain(text: str) -> str:
    """Outside text that cannot become a header of ours or a special token of a chat template.

    Replaces one ASCII sign by another, so token counts by script do not change.
    """
    return _SPECIAL.sub("(", text) if "<|" in text else text


Shape: TypeAlias = Callable[[ToolCall, str], str]
"""How a dialect shows what a call gave, from the text as it is stored."""


def observed(step: Step, observation: Observation, shape: Shape | None = None) -> str:
    """An observation with the id to cite, and its error kind. ``shape`` is asked for what succeeded."""
    text = observation.text
    if observation.error is not None:
        return f"[{step.chunk_id}] error ({observation.error}): {plain(defuse(text))}"
    call = next((call for call in step.calls if call.id == observation.call_id), None) if shape else None
    if shape is not None and call is not None and not observation.refs:
        text = shape(call, text)
    return f"[{step.chunk_id}] {plain(defuse(text))}"


def results(step: Step, shape: Shape | None = None) -> tuple[list[tuple[str, str]], list[str]]:
    """(call id, text) for every call, in the order of the calls; then texts of observations that belong to none."""
    seen: dict[str, Observation] = {}
    loose: list[str] = []
    known = {call.id for call in step.calls}
    for observation in step.observations:
        if observation.call_id in known and observation.call_id not in seen:
            seen[observation.call_id] = observation
        else:
            loose.append(observed(step, observation))
    answered = [
        (call.id, observed(step, seen[call.id], shape) if call.id in seen else f"[{step.chunk_id}] {NO_RESULT}")
        for call in step.calls
    ]
    return answered, loose


def turn_messages(step: Step) -> tuple[Message, ...]:
    """A dialogue turn of a host agent: its text, whoever spoke."""
    return (Message("user", f"[{step.chunk_id}] {plain(defuse(step.thought or step.answer))}"),)


def answer_messages(step: Step, answer: str) -> tuple[Message, ...]:
    """An earlier answer, then a user message: a request must not end with the model's own words."""
    after = f"[{step.chunk_id}] That was the answer to an earlier question"
    after += f": {plain(step.question)}" if step.question else "."
    after += "\nGo on with the question in force."
    return (Message("assistant", answer), Message("user", after))


def function_json(tool: ToolSpec) -> dict[str, JsonValue]:
    """A tool as the providers' function-calling formats write it."""
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)},
    }


def functions_text(tools: Sequence[ToolSpec]) -> str:
    """The JSON of native tools, for counting."""
    return json.dumps([function_json(tool) for tool in tools], ensure_ascii=False) if tools else ""

"""What the dialects share in writing steps as messages."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from memory.frame import defuse
from memory.records import JsonValue, Message, Observation, Step, ToolSpec

NO_RESULT = "no result: the step was interrupted"
_SPECIAL = re.compile(r"<(?=\|[^|<>\s]{1,40}\|>)")


def plain(text: str) -> str:
    """Outside text that cannot become a header of ours or a special token of a chat template.

    Replaces one ASCII sign by another, so token counts by script do not change.
    """
    return _SPECIAL.sub("(", text) if "<|" in text else text


def observed(step: Step, observation: Observation) -> str:
    """An observation with the id to cite, and its error kind."""
    label = f"[{step.chunk_id}]" if observation.error is None else f"[{step.chunk_id}] error ({observation.error}):"
    return f"{label} {plain(defuse(observation.text))}"


def results(step: Step) -> tuple[list[tuple[str, str]], list[str]]:
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
        (call.id, observed(step, seen[call.id]) if call.id in seen else f"[{step.chunk_id}] {NO_RESULT}")
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

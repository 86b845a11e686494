"""The plain `StepFormat`: native tool-call messages, no wording of its own. Hosts without a dialect render with it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from memory.records import Message, Step, ToolSpec


def tools_json(tools: Sequence[ToolSpec]) -> str:
    """Tool schemas as a provider adds them to a prompt, for counting."""
    return (
        json.dumps(
            [
                {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
                for tool in tools
            ],
            ensure_ascii=False,
        )
        if tools
        else ""
    )


def native_messages(step: Step) -> tuple[Message, ...]:
    """A step as provider-native messages: assistant with its calls, then one tool result per call, always paired."""
    if step.kind == "turn":
        return tuple(Message("user", text) for text in (step.thought or step.answer,) if text.strip())
    if not step.calls:
        said = [
            Message("assistant", text)
            for text in ("\n".join(t for t in (step.thought, step.answer) if t),)
            if text.strip()
        ]
        notes = [Message("user", f"[{item.tool}] {item.text}") for item in step.observations if item.text]
        return (*said, *notes)
    results = {item.call_id: item for item in step.observations}
    messages = [Message("assistant", step.thought, tool_calls=step.calls)]
    for call in step.calls:
        item = results.pop(call.id, None)
        # a result of blanks is no output either: providers refuse an empty message
        text = item.text if item is not None and item.text.strip() else "(no output)"
        messages.append(Message("tool", text, tool_call_id=call.id))
    messages.extend(Message("user", f"[{item.tool}] {item.text}") for item in results.values() if item.text)
    return tuple(messages)


class PlainFormat:
    """Question as a user message under an optional system text; recent steps native."""

    def __init__(self, system: str = "", tools: Sequence[ToolSpec] = ()) -> None:
        self._system = system
        self._tools = tools_json(tools)

    def preamble(self, question: str) -> tuple[Message, ...]:
        """System (when given) and question."""
        system = (Message("system", self._system, cache_point=True),) if self._system else ()
        return (*system, Message("user", question))

    def step(self, step: Step) -> tuple[Message, ...]:
        """Native messages of a recent step."""
        return native_messages(step)

    def history(self, text: str) -> Message:
        """The framed history as a user message."""
        return Message("user", text)

    def tools_text(self) -> str:
        """Tool schemas as JSON."""
        return self._tools

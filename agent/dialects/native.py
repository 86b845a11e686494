"""The provider's own tool calls. Text without a call is the answer.

Small models often write the call into the text instead; a bare ``{"name", "arguments"}`` or a ``<tool_call>`` is taken
for what it is meant to be.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agent.backbones.base import UnparsedCall
from agent.dialects.base import Decision
from agent.dialects.formats import answer_messages, functions_text, plain, results, turn_messages
from agent.dialects.frame import Framed
from agent.dialects.parsing import clean_object, nearest_name, parse_object
from agent.dialects.reading import check_whole, joined, split_thought, written_call
from agent.errors import ParseFailure
from agent.prompts import prompt
from memory.frame import defuse
from memory.ports import StepFormat
from memory.records import Message, Reply, Step, ToolCall, ToolSpec

MAX_OUTPUT_TOKENS = 4096
MAX_CALLS = 32
"""Calls of one reply that are kept; the toolset runs the first few and answers the rest "not run"."""
_ANSWER = re.compile(r"\A<answer>(.*?)(?:</answer>|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class NativeFormat:
    """Requests with native tools: recent steps are tool calls and tool results."""

    tools: tuple[ToolSpec, ...]
    today: str = ""

    def preamble(self, question: str) -> tuple[Message, ...]:
        system = prompt("native")
        if self.today:
            system += f"\n\nToday is {self.today}."
        return (Message("system", system), Message("user", f"Question: {question}", cache_point=True))

    def step(self, step: Step) -> tuple[Message, ...]:
        if step.kind == "turn":
            return turn_messages(step)
        thought = plain(defuse(step.thought)).strip()
        if step.answer:
            return answer_messages(step, f"{thought}\n\n{defuse(step.answer)}".strip())
        answered, loose = results(step)
        messages: list[Message] = []
        if step.calls or thought:
            messages.append(Message("assistant", thought, tool_calls=step.calls))
        messages.extend(Message("tool", text, tool_call_id=call_id) for call_id, text in answered)
        if loose:
            messages.append(Message("user", "\n\n".join(loose)))
        elif not step.calls:
            messages.append(Message("user", f"[{step.chunk_id}] noted; go on."))
        return tuple(messages)

    def history(self, text: str) -> Message:
        return Message("user", plain(text))

    def tools_text(self) -> str:
        return functions_text(self.tools)


class NativeDialect(Framed):
    """Native tool calls."""

    name = "native"
    most = MAX_OUTPUT_TOKENS
    sends_tools = True

    def step_format(self, tools: Sequence[ToolSpec]) -> StepFormat:
        return NativeFormat(tuple(tools), self._today)

    def parse(self, reply: Reply, step: int) -> Decision:
        """Raises ParseFailure for an empty, refused, cut or unreadable reply."""
        check_whole(reply)
        thought, text = split_thought(reply)
        if reply.tool_calls:
            calls = tuple(_native_call(call, f"s{step}.{i}") for i, call in enumerate(reply.tool_calls[:MAX_CALLS]))
            dropped = len(reply.tool_calls) - len(calls)
            if dropped > 0:
                text += f"\n({dropped} further calls of this reply were dropped)"
            return Decision(thought=joined(thought, text), calls=calls)
        written = written_call(text)
        if written is not None:
            before, name, arguments = written
            return Decision(thought=joined(thought, before), calls=(ToolCall(f"s{step}.0", name, arguments),))
        tagged = _ANSWER.match(text)
        answer = tagged.group(1).strip() if tagged else text
        if not answer:
            raise ParseFailure("the reply is empty: call a tool or write the answer")
        return Decision(thought=thought, answer=answer)


def _native_call(call: ToolCall, call_id: str) -> ToolCall:
    name = nearest_name(call.name)
    if not isinstance(call, UnparsedCall):
        return ToolCall(call_id, name, clean_object(call.arguments))
    try:
        return ToolCall(call_id, name, parse_object(call.raw))
    except ParseFailure as failure:
        raise ParseFailure(f"the arguments of {name} cannot be read: {failure}", cut=failure.cut) from failure

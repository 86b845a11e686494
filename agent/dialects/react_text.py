"""`react-text`: Thought, Action, Action Input, Observation, for models that know neither tools nor tags."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agent.dialects.base import Decision
from agent.dialects.formats import plain, results, turn_messages
from agent.dialects.frame import Framed
from agent.dialects.parsing import parse_object, unfenced, valid_name
from agent.dialects.reading import check_whole, joined, split_thought
from agent.errors import ParseFailure
from agent.prompts import prompt
from memory.chunking import arguments_text
from memory.frame import defuse
from memory.ports import StepFormat
from memory.records import JsonValue, Message, Reply, Step, ToolCall, ToolSpec

MAX_OUTPUT_TOKENS = 2048
STOP = ("\nObservation:",)
_MARK = re.compile(r"^[ \t*#]*(Thought|Action Input|Action|Observation|Final Answer)[ \t*]*:[ \t*]*", re.MULTILINE)
_BARE = {"search": "queries", "visit": "urls", "python": "code", "glimpse": "chunk_id", "parse_file": "file"}
"""What a text that is no JSON object is taken for, by tool."""
_LISTS = frozenset({"queries", "urls"})


@dataclass(frozen=True, slots=True)
class ReactTextFormat:
    """Everything is text under five labels."""

    tools: tuple[ToolSpec, ...]
    today: str = ""

    def preamble(self, question: str) -> tuple[Message, ...]:
        lines = "\n".join(_tool_line(tool) for tool in self.tools)
        names = ", ".join(tool.name for tool in self.tools)
        system = prompt("react_text").replace("{tools}", lines).replace("{names}", names)
        if self.today:
            system += f"\n\nToday is {self.today}."
        return Message("system", system), Message("user", f"Question: {question}", cache_point=True)

    def step(self, step: Step) -> tuple[Message, ...]:
        if step.kind == "turn":
            return tuple(Message(message.role, _inert(message.content)) for message in turn_messages(step))
        thought = f"Thought: {_inert(defuse(step.thought))}\n" if step.thought else ""
        if step.answer:
            after = f"[{step.chunk_id}] That was the answer to an earlier question"
            after += f": {_inert(step.question)}" if step.question else "."
            own = Message("assistant", f"{thought}Final Answer: {_inert(defuse(step.answer))}")
            return own, Message("user", f"{after}\nGo on with the question in force.")
        answered, loose = results(step)
        written = thought + "\n".join(_call_text(call) for call in step.calls)
        texts = [*(text for _, text in answered), *loose] or [f"[{step.chunk_id}] noted; go on."]
        shown = "\n".join(f"Observation: {_inert(text)}" for text in texts)
        return (*((Message("assistant", written.rstrip()),) if written else ()), Message("user", shown))

    def history(self, text: str) -> Message:
        return Message("user", _inert(text))

    def tools_text(self) -> str:
        return ""


class ReactTextDialect(Framed):
    """Text in, text out."""

    name = "react-text"
    most = MAX_OUTPUT_TOKENS
    stop = STOP

    def step_format(self, tools: Sequence[ToolSpec]) -> StepFormat:
        return ReactTextFormat(tuple(tools), self._today)

    def parse(self, reply: Reply, step: int) -> Decision:
        """The first action or the final answer, whichever comes first; what follows an invented Observation is not
        read. Raises ParseFailure."""
        check_whole(reply)
        thought, text = split_thought(reply)
        parts = _parts(text)
        for index, (label, body) in enumerate(parts):
            if label in ("", "Thought"):
                thought = joined(thought, body)
            elif label == "Final Answer":
                if not body:
                    raise ParseFailure("the Final Answer is empty")
                return Decision(thought=thought, answer=body)
            elif label == "Action":
                following = parts[index + 1] if index + 1 < len(parts) else ("", "")
                given = following[1] if following[0] == "Action Input" else ""
                return Decision(thought=thought, calls=(_call(body, given, step),))
            else:
                break
        if not text.strip():
            raise ParseFailure("the reply is empty: write a Thought and an Action, or the Final Answer")
        raise ParseFailure("the reply has neither an Action nor a Final Answer: write exactly one of them")


def _parts(text: str) -> list[tuple[str, str]]:
    """(label, body) in order, up to an Observation; the text before the first label has none."""
    marks = list(_MARK.finditer(text))
    ends = [mark.start() for mark in marks] + [len(text)]
    parts = [("", text[: ends[0]].strip())]
    for mark, end in zip(marks, ends[1:], strict=True):
        if mark[1] == "Observation":
            break
        parts.append((mark[1], text[mark.end() : end].strip()))
    return parts


def _call(action: str, given: str, step: int) -> ToolCall:
    lines = action.strip().splitlines()
    name = valid_name((lines[0] if lines else "").strip().strip("`'\"[]").partition("(")[0])
    body = unfenced(given)
    bare = _BARE.get(name)
    if body.startswith("{") or bare is None or not body:
        return ToolCall(f"s{step}.0", name, parse_object(body))
    value: JsonValue = body if name == "python" else body.strip().strip("\"'")
    return ToolCall(f"s{step}.0", name, {bare: [value] if bare in _LISTS else value})


def _call_text(call: ToolCall) -> str:
    return f"Action: {call.name}\nAction Input: {arguments_text(dict(call.arguments))}"


def _tool_line(tool: ToolSpec) -> str:
    properties = tool.parameters.get("properties")
    shown = arguments_text({"properties": dict(properties)} if isinstance(properties, dict) else {})
    return f"{tool.name}: {' '.join(tool.description.split())} Arguments: {shown}"


def _inert(text: str) -> str:
    """Outside text whose lines cannot pass for a label of the dialect (same length, nearly the same count)."""
    return _MARK.sub(lambda mark: mark[0].replace(":", ";"), plain(text))

"""The text dialect of Tongyi-DeepResearch: ``<think>``, then one ``<tool_call>`` or the ``<answer>``.

The shapes are those that the models were trained on; the wording of the system prompt is ours. Tools appear under the
names and argument names of the training (`search{query}`, `visit{url, goal}`, `PythonInterpreter`), and calls are
routed by their parsed name, never by what the text mentions. What a server's own parsers made of the text (thinking
stripped into ``reasoning``, `tool_calls`) is accepted as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent.backbones.base import UnparsedCall
from agent.dialects.base import Decision
from agent.dialects.formats import answer_messages, function_json, plain, results, turn_messages
from agent.dialects.frame import Framed
from agent.dialects.parsing import call_of, clean_object, parse_json, parse_object, unfenced, valid_name
from agent.dialects.reading import check_whole, joined, split_thought, written_call
from agent.dialects.shapes import trained_shape
from agent.errors import ParseFailure
from agent.prompts import prompt
from memory.chunking import arguments_text
from memory.frame import defuse
from memory.ports import StepFormat
from memory.records import JsonValue, Message, Reply, Sampling, Step, ToolCall, ToolSpec

MAX_OUTPUT_TOKENS = 10_000
SAMPLING = Sampling(temperature=0.6, top_p=0.95, presence_penalty=1.1)
STOP = ("\n<tool_response>", "<tool_response>")

_OURS = {
    "search": "search",
    "google_search": "search",
    "google_scholar": "search",
    "visit": "visit",
    "pythoninterpreter": "python",
    "python": "python",
}
_TRAINED = {"python": "PythonInterpreter"}
_RENAMED = {"search": {"query": "queries"}, "visit": {"url": "urls"}}
_LISTS = frozenset({"queries", "urls"})
_TAGS = re.compile(r"<(?=/?(?:tool_call|tool_response|think|answer)>)")
_CODE = re.compile(r"<code>(.*?)</code>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TongyiFormat:
    """Everything is text: tools in the system message, results in user messages."""

    tools: tuple[ToolSpec, ...]
    today: str = ""

    def preamble(self, question: str) -> tuple[Message, ...]:
        lines = "\n".join(json.dumps(trained_tool(tool), ensure_ascii=False) for tool in self.tools)
        python = f"{prompt('tongyi_python')}\n" if any(tool.name == "python" for tool in self.tools) else ""
        system = prompt("tongyi").replace("{python}", python).replace("{tools}", lines)
        if self.today:
            system += f"\n\nCurrent date: {self.today}"
        return (Message("system", system), Message("user", question, cache_point=True))

    def step(self, step: Step) -> tuple[Message, ...]:
        if step.kind == "turn":
            return tuple(Message(message.role, _inert(message.content)) for message in turn_messages(step))
        thought = f"<think>\n{_inert(defuse(step.thought))}\n</think>\n" if step.thought else ""
        if step.answer:
            return answer_messages(step, f"{thought}<answer>{_inert(defuse(step.answer))}</answer>")
        answered, loose = results(step, trained_shape)
        written = thought + "\n".join(_call_text(call) for call in step.calls)
        texts = [*(text for _, text in answered), *loose] or [f"[{step.chunk_id}] noted; go on."]
        response = "\n".join(f"<tool_response>\n{_inert(text)}\n</tool_response>" for text in texts)
        own = (Message("assistant", written),) if written else ()
        return (*own, Message("user", response))

    def history(self, text: str) -> Message:
        return Message("user", _inert(text))

    def tools_text(self) -> str:
        return ""


class TongyiDialect(Framed):
    """Text in, text out."""

    name = "tongyi"
    most = MAX_OUTPUT_TOKENS
    own_sampling = SAMPLING
    stop = STOP

    def step_format(self, tools: Sequence[ToolSpec]) -> StepFormat:
        return TongyiFormat(tuple(tools), self._today)

    def parse(self, reply: Reply, step: int) -> Decision:
        """The first call or the answer, whichever comes first. Raises ParseFailure."""
        check_whole(reply)
        thought, text = split_thought(reply)
        text = text.split("<tool_response>", 1)[0]
        call_at, answer_at = text.find("<tool_call>"), text.find("<answer>")
        if answer_at >= 0 and not 0 <= call_at < answer_at:
            return Decision(thought=joined(thought, text[:answer_at]), answer=_answer(text[answer_at:]))
        if call_at >= 0:
            name, arguments = _text_call(text[call_at + len("<tool_call>") :])
            return _decision(joined(thought, text[:call_at]), name, arguments, step)
        if reply.tool_calls:
            first = reply.tool_calls[0]
            arguments = parse_object(first.raw) if isinstance(first, UnparsedCall) else clean_object(first.arguments)
            return _decision(joined(thought, text), valid_name(first.name), arguments, step)
        written = written_call(text)
        if written is not None:
            return _decision(thought, written[1], written[2], step)
        if not text.strip():
            raise ParseFailure("the reply is empty: write one <tool_call> or the <answer>")
        raise ParseFailure("the reply has neither a <tool_call> nor an <answer>: write exactly one of them")


def our_call(name: str, arguments: Mapping[str, JsonValue]) -> tuple[str, dict[str, JsonValue]]:
    """A call under the training's names as one of ours; unknown names pass unchanged."""
    ours = _OURS.get(name.lower(), name)
    renamed = _RENAMED.get(ours, {})
    found = {renamed.get(key, key) if renamed.get(key) not in arguments else key: v for key, v in arguments.items()}
    return ours, {key: [v] if key in _LISTS and isinstance(v, str) else v for key, v in found.items()}


def trained_call(name: str, arguments: Mapping[str, JsonValue]) -> tuple[str, dict[str, JsonValue]]:
    """One of our calls under the names of the training."""
    back = {ours: theirs for theirs, ours in _RENAMED.get(name, {}).items()}
    return _TRAINED.get(name, name), {back.get(key, key): value for key, value in arguments.items()}


def _decision(thought: str, name: str, arguments: Mapping[str, JsonValue], step: int) -> Decision:
    return Decision(thought=thought, calls=(ToolCall(f"s{step}.0", *our_call(name, arguments)),))


def _text_call(rest: str) -> tuple[str, dict[str, JsonValue]]:
    """Name and arguments of a call's body, from behind its opening tag. Raises ParseFailure, also when it is cut."""
    code = ""
    body, closing, _ = rest.partition("</tool_call>")
    if "<code>" in body:
        # source may hold the closing tag of the call as a string: the code ends where its own tag says
        match = _CODE.search(rest)
        if match is None:
            raise ParseFailure("the code stops before </code>; be shorter and repeat the call", cut=True)
        code = unfenced(match.group(1))
        body, closing = rest[: match.start()], "</tool_call>"
    name, arguments = call_of(parse_json(unfenced(body), closed=bool(closing)))
    if code:
        if _OURS.get(name.lower()) != "python":
            raise ParseFailure(f"<code> belongs to PythonInterpreter, not to {name}")
        arguments = {"code": code}
    return name, arguments


def _answer(text: str) -> str:
    answer = text.removeprefix("<answer>").split("</answer>", 1)[0].strip()
    if not answer:
        raise ParseFailure("the <answer> is empty")
    return answer


def _call_text(call: ToolCall) -> str:
    name, arguments = trained_call(call.name, call.arguments)
    code = arguments.get("code")
    if call.name == "python" and isinstance(code, str):
        return f'<tool_call>\n{{"name": "{name}", "arguments": {{}}}}\n<code>\n{code}\n</code>\n</tool_call>'
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments_text(arguments)}}}\n</tool_call>'


def trained_tool(tool: ToolSpec) -> dict[str, JsonValue]:
    """A tool's JSON line. The source of PythonInterpreter travels in ``<code>``, so it has no parameters."""
    if tool.name == "python":
        empty: dict[str, JsonValue] = {"type": "object", "properties": {}, "required": []}
        return function_json(ToolSpec(_TRAINED["python"], tool.description, empty))
    back = {ours: theirs for theirs, ours in _RENAMED.get(tool.name, {}).items()}
    parameters = dict(tool.parameters)
    properties, required = parameters.get("properties"), parameters.get("required")
    if isinstance(properties, Mapping):
        parameters["properties"] = {back.get(key, key): value for key, value in properties.items()}
    if isinstance(required, Sequence) and not isinstance(required, str):
        parameters["required"] = [back.get(key, key) if isinstance(key, str) else key for key in required]
    return function_json(ToolSpec(tool.name, tool.description, parameters))


def _inert(text: str) -> str:
    """Outside text whose tags cannot end or begin a part of the dialect (same length, same token count)."""
    return _TAGS.sub("(", plain(text))

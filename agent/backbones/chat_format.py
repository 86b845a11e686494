"""Chat Completions: our records to its JSON, its stream chunks to our `Reply`. No I/O, no SDK."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence

from agent.backbones.base import tool_call, wire_id
from agent.backbones.schema import rooted
from agent.errors import BrokenStream
from memory.records import Image, JsonValue, Message, Reply, StopReason, ToolCall, ToolSpec, Usage

_STOPS: dict[str, StopReason] = {
    "stop": "end",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "refusal",
    "refusal": "refusal",
}
_BROKEN = frozenset({"error", "abort", "insufficient_system_resource"})
"""Finish reasons by which servers say that they gave up in the middle."""
_ABSURD = 10**10


def chat_messages(messages: Sequence[Message], images: Sequence[Image] = ()) -> list[dict[str, JsonValue]]:
    """Messages in wire form. Neighbouring user messages become one: strict chat templates refuse two in a row. The
    pictures go into the first of them."""
    wire: list[dict[str, JsonValue]] = []
    for message in messages:
        last = wire[-1] if wire else {}
        if message.role == "user" and last.get("role") == "user":
            last["content"] = f"{last['content']}\n\n{message.content}"
        else:
            wire.append(_chat_message(message))
    first = next((message for message in wire if message["role"] == "user"), None) if images else None
    if first is not None:
        pictures: list[JsonValue] = [{"type": "image_url", "image_url": {"url": data_url(image)}} for image in images]
        first["content"] = [{"type": "text", "text": first["content"]}, *pictures]
    return wire


def data_url(image: Image) -> str:
    """A picture inside a request."""
    return f"data:{image.media_type};base64,{base64.b64encode(image.data).decode('ascii')}"


def chat_tool(tool: ToolSpec) -> dict[str, JsonValue]:
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)},
    }


def chat_schema(schema: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """``response_format`` that binds the reply to a schema. Not "strict": that mode wants every property required."""
    return {"type": "json_schema", "json_schema": {"name": "reply", "strict": False, "schema": rooted(schema)}}


class ChatAssembly:
    """Puts the chunks of one stream together. Fields are read one by one: the SDK does not validate chunks."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._refusal: list[str] = []
        self._calls: list[_CallParts] = []
        self._finish: str | None = None
        self._usage: object = None

    def add(self, chunk: object) -> None:
        usage = getattr(chunk, "usage", None)
        self._usage = usage if usage is not None else self._usage
        choices = getattr(chunk, "choices", None)
        for choice in choices if isinstance(choices, list) else ():
            if getattr(choice, "index", 0) not in (0, None):
                continue
            delta = getattr(choice, "delta", None)
            _append(self._text, getattr(delta, "content", None))
            reasoning = getattr(delta, "reasoning_content", None)
            _append(self._reasoning, reasoning if reasoning else getattr(delta, "reasoning", None))
            _append(self._refusal, getattr(delta, "refusal", None))
            calls = getattr(delta, "tool_calls", None)
            for part in calls if isinstance(calls, list) else ():
                self._add_call(part)
            finish = getattr(choice, "finish_reason", None)
            self._finish = finish if isinstance(finish, str) and finish else self._finish

    def usage(self) -> Usage:
        """What has been said so far of what the call costs."""
        return chat_usage(self._usage)

    def reply(self, max_output_tokens: int) -> Reply:
        """Raises BrokenStream when the stream had no end, or the server gave up."""
        if self._finish is None or self._finish in _BROKEN:
            raise BrokenStream(f"the stream ended without a whole reply (finish_reason {self._finish})")
        usage = chat_usage(self._usage)
        calls = tuple(part.call() for part in self._calls)
        stop = _STOPS.get(self._finish, "end")
        text = "".join(self._text)
        if self._refusal and not text:
            text, stop = "".join(self._refusal), "refusal"
        if stop == "end" and calls:
            stop = "tool_calls"
        if stop in ("end", "tool_calls") and usage.output is not None and usage.output >= max_output_tokens:
            # some servers report a call as finished although the cap cut it
            stop = "length"
        return Reply(text, "".join(self._reasoning), calls, stop, usage)

    def _add_call(self, part: object) -> None:
        index = getattr(part, "index", None)
        call_id = getattr(part, "id", None) or ""
        function = getattr(part, "function", None)
        name = getattr(function, "name", None) or ""
        found = next((each for each in reversed(self._calls) if index is None or each.index == index), None)
        if found is None or (name and call_id and found.id and call_id != found.id):
            # the second case: servers that number every call 0
            found = _CallParts(index)
            self._calls.append(found)
        found.id = found.id or str(call_id)
        found.name = found.name or str(name)
        _append(found.arguments, getattr(function, "arguments", None))


class _CallParts:
    def __init__(self, index: object) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []

    def call(self) -> ToolCall:
        return tool_call(self.id, self.name, "".join(self.arguments))


def chat_usage(usage: object) -> Usage:
    """Usage of any Chat Completions server. ``prompt_tokens`` includes cached ones; what is not said stays None, and
    no prompt has 0 tokens."""
    if usage is None:
        return Usage()
    prompt_details = getattr(usage, "prompt_tokens_details", None)
    completion_details = getattr(usage, "completion_tokens_details", None)
    cached = count_of(getattr(prompt_details, "cached_tokens", None))
    if cached is None:  # DeepSeek
        cached = count_of(getattr(usage, "prompt_cache_hit_tokens", None))
    cost = getattr(usage, "cost", None)
    return Usage(
        input_total=count_of(getattr(usage, "prompt_tokens", None)) or None,
        cache_read=cached,
        cache_write=count_of(getattr(prompt_details, "cache_write_tokens", None)),
        output=count_of(getattr(usage, "completion_tokens", None)),
        reasoning=count_of(getattr(completion_details, "reasoning_tokens", None)),
        cost=float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) and cost >= 0 else None,
    )


def count_of(value: object) -> int | None:
    """A plausible token count, else None: servers send null, negative and absurd ones."""
    plausible = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _ABSURD
    return value if plausible and isinstance(value, int) else None


def _append(parts: list[str], value: object) -> None:
    if isinstance(value, str) and value:
        parts.append(value)


def _chat_message(message: Message) -> dict[str, JsonValue]:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.content}
    if not message.tool_calls:
        return {"role": message.role, "content": message.content}
    calls: list[JsonValue] = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": wire_id(call.name), "arguments": json.dumps(dict(call.arguments), ensure_ascii=False)},
        }
        for call in message.tool_calls
    ]
    return {"role": "assistant", "content": message.content or None, "tool_calls": calls}

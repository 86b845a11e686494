"""OpenAI Responses: our records to its JSON, its final event to our `Reply`. No I/O, no SDK."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from agent.backbones.base import tool_call, wire_id
from agent.backbones.chat_format import count_of, data_url
from agent.backbones.errors import context_limit, says_too_long
from agent.backbones.replay import Items, last_calls
from agent.backbones.schema import rooted
from agent.errors import BrokenStream, ContextTooLong
from memory.records import Image, JsonValue, Message, Reply, StopReason, ToolCall, ToolSpec, Usage

_INCOMPLETE: dict[str, StopReason] = {
    "max_output_tokens": "length",
    "max_tokens": "length",
    "content_filter": "refusal",
}


def response_input(messages: Sequence[Message], images: Sequence[Image] = (), replay: Items = ()) -> list[JsonValue]:
    """Messages as input items. ``replay``: the output items that the newest calls came with, sent back unchanged in
    place of ours; the results of those calls then go under the ids that the provider gave them."""
    newest = last_calls(messages) if replay else ()
    theirs = [str(item.get("call_id", "")) for item in replay if item.get("type") == "function_call"]
    ids = dict(zip((call.id for call in newest), theirs, strict=False)) if len(theirs) == len(newest) else {}
    items: list[JsonValue] = []
    pictures: list[JsonValue] = [{"type": "input_image", "image_url": data_url(image)} for image in images]
    for message in messages:
        if message.role == "tool":
            call_id = ids.get(message.tool_call_id) or wire_id(message.tool_call_id)
            items.append({"type": "function_call_output", "call_id": call_id, "output": message.content})
            continue
        if message.content.strip():
            content: JsonValue = message.content
            if message.role == "user" and pictures:
                content = [{"type": "input_text", "text": message.content}, *pictures]
                pictures = []
            items.append({"role": message.role, "content": content})
        if ids and message.tool_calls is newest:
            items.extend(replay)
        else:
            items.extend(_call_item(call) for call in message.tool_calls)
    return items


def response_tool(tool: ToolSpec) -> dict[str, JsonValue]:
    """Not "strict": that mode wants every property required."""
    parameters = dict(tool.parameters)
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": parameters,
        "strict": False,
    }


def response_schema(schema: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """``text`` that binds the reply to a schema."""
    return {"format": {"type": "json_schema", "name": "reply", "strict": False, "schema": rooted(schema)}}


class ResponsesAssembly:
    """Waits for the event that carries the whole response: nothing is ever put together from parts."""

    def __init__(self) -> None:
        self._final: object = None
        self._failed = ""

    def add(self, event: object) -> None:
        kind = getattr(event, "type", None)
        if kind in ("response.completed", "response.incomplete"):
            self._final = getattr(event, "response", None)
        elif kind in ("response.failed", "error"):
            error = getattr(getattr(event, "response", None), "error", None) or event
            self._failed = str(getattr(error, "message", "") or kind)

    def usage(self) -> Usage:
        return response_usage(getattr(self._final, "usage", None))

    def replay(self) -> Items:
        """Reasoning items with their encrypted content, and the calls after them, as they came; empty without."""
        items = [_plain(item) for item in self._output()]
        kept = tuple(item for item in items if item.get("type") in ("reasoning", "function_call"))
        return kept if any(item.get("encrypted_content") for item in kept) else ()

    def reply(self, max_output_tokens: int) -> Reply:
        """Raises BrokenStream when the stream had no end, or the server gave up."""
        if self._final is None:
            if says_too_long(self._failed):
                raise ContextTooLong(self._failed, limit=context_limit(self._failed))
            raise BrokenStream(f"the stream ended without a whole response {self._failed}".rstrip())
        texts: list[str] = []
        refusals: list[str] = []
        reasoning: list[str] = []
        calls: list[ToolCall] = []
        for item in self._output():
            match getattr(item, "type", None):
                case "message":
                    for part in _list(getattr(item, "content", None)):
                        texts.append(_text(part, "text"))
                        refusals.append(_text(part, "refusal"))
                case "function_call":
                    calls.append(tool_call(_text(item, "call_id"), _text(item, "name"), _text(item, "arguments")))
                case "reasoning":
                    parts = (*_list(getattr(item, "summary", None)), *_list(getattr(item, "content", None)))
                    reasoning.extend(_text(part, "text") for part in parts)
                case _:
                    pass
        text, refused = "".join(texts), "".join(refusals)
        usage = self.usage()
        stop = self._stop(bool(calls), usage, max_output_tokens)
        if refused and not text:
            text, stop = refused, "refusal"
        return Reply(text, "\n".join(reasoning), tuple(calls), stop, usage)

    def _stop(self, has_calls: bool, usage: Usage, cap: int) -> StopReason:
        details = getattr(self._final, "incomplete_details", None)
        if details is not None:
            return _INCOMPLETE.get(_text(details, "reason"), "length")
        if usage.output is not None and usage.output >= cap:
            return "length"
        return "tool_calls" if has_calls else "end"

    def _output(self) -> list[object]:
        return _list(getattr(self._final, "output", None))


def response_usage(usage: object) -> Usage:
    """``input_tokens`` includes cached ones; what is not said stays None."""
    if usage is None:
        return Usage()
    details, output = getattr(usage, "input_tokens_details", None), getattr(usage, "output_tokens_details", None)
    return Usage(
        input_total=count_of(getattr(usage, "input_tokens", None)) or None,
        cache_read=count_of(getattr(details, "cached_tokens", None)),
        cache_write=count_of(getattr(details, "cache_write_tokens", None)),
        output=count_of(getattr(usage, "output_tokens", None)),
        reasoning=count_of(getattr(output, "reasoning_tokens", None)),
    )


def _call_item(call: ToolCall) -> dict[str, JsonValue]:
    return {
        "type": "function_call",
        "call_id": wire_id(call.id),
        "name": wire_id(call.name),
        "arguments": json.dumps(dict(call.arguments), ensure_ascii=False),
    }


def _list(value: object) -> list[object]:
    return list(value) if isinstance(value, list) else []


def _text(item: object, name: str) -> str:
    value = getattr(item, name, None)
    return value if isinstance(value, str) else ""


def _plain(item: object) -> dict[str, JsonValue]:
    """An item of the SDK as the JSON that it came from."""
    dump = getattr(item, "model_dump", None)
    value = dump(mode="json", exclude_none=True) if callable(dump) else None
    return value if isinstance(value, dict) else {}

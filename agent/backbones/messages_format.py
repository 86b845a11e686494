"""Anthropic Messages: our records to its JSON, its stream events to our `Reply`. No I/O, no SDK."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from agent.backbones.base import tool_call, wire_id
from agent.backbones.chat_format import count_of
from agent.backbones.replay import Items
from agent.errors import BrokenStream
from memory.records import Image, JsonValue, Message, Reply, StopReason, ToolSpec, Usage

MAX_CACHE_POINTS = 4
SCHEMA_TOOL = "reply"
"""Name of the tool that a reply bound to a schema is asked through."""
_STOPS: dict[str, StopReason] = {
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}


def split_messages(
    messages: Sequence[Message], images: Sequence[Image] = (), thinking: Items = ()
) -> tuple[list[dict[str, JsonValue]], list[dict[str, JsonValue]]]:
    """(system blocks, messages). Neighbours of one role share a message; empty texts, which the API refuses, are left
    out; the last four cache points become ``cache_control``. The pictures begin the first message of the user;
    ``thinking`` begins the last one of the assistant, as it came."""
    points = {id(message) for message in [each for each in messages if each.cache_point][-MAX_CACHE_POINTS:]}
    system: list[dict[str, JsonValue]] = []
    wire: list[tuple[str, list[JsonValue]]] = []
    for message in messages:
        blocks = _blocks(message)
        if blocks and id(message) in points:
            blocks[-1]["cache_control"] = {"type": "ephemeral"}
        if message.role == "system":
            system.extend(blocks)
            continue
        role = "assistant" if message.role == "assistant" else "user"
        if wire and wire[-1][0] == role:
            wire[-1][1].extend(blocks)
        elif blocks:
            wire.append((role, list(blocks)))
    first = next((content for role, content in wire if role == "user"), [])
    first[:0] = [_picture(image) for image in images]
    last = next((content for role, content in reversed(wire) if role == "assistant"), [])
    last[:0] = thinking
    return system, [{"role": role, "content": content} for role, content in wire]


def messages_tool(tool: ToolSpec) -> dict[str, JsonValue]:
    return {"name": tool.name, "description": tool.description, "input_schema": dict(tool.parameters)}


class MessagesAssembly:
    """Puts the events of one stream together. ``schema``: the reply comes as the input of `SCHEMA_TOOL`."""

    def __init__(self, *, schema: bool = False) -> None:
        self._schema = schema
        self._blocks: dict[int, _Block] = {}
        self._stop = ""
        self._ended = False
        self._usage: dict[str, int] = {}

    def add(self, event: object) -> None:
        kind = getattr(event, "type", None)
        if kind == "message_start":
            self._count(getattr(getattr(event, "message", None), "usage", None))
        elif kind == "content_block_start":
            self._blocks[self._index(event)] = _Block(getattr(event, "content_block", None))
        elif kind == "content_block_delta":
            block = self._blocks.get(self._index(event))
            if block is not None:
                block.add(getattr(event, "delta", None))
        elif kind == "message_delta":
            stop = getattr(getattr(event, "delta", None), "stop_reason", None)
            self._stop = stop if isinstance(stop, str) else self._stop
            self._count(getattr(event, "usage", None))
        elif kind == "message_stop":
            self._ended = True

    def thinking(self) -> Items:
        """The thinking blocks of the reply, signatures included, to be sent back unchanged."""
        blocks = [self._blocks[index] for index in sorted(self._blocks)]
        return tuple(block.opaque() for block in blocks if block.kind in ("thinking", "redacted_thinking"))

    def usage(self) -> Usage:
        """What has been said so far of what the call costs."""
        return self._normalised()

    def reply(self, max_output_tokens: int) -> Reply:
        """Raises BrokenStream when the stream had no end."""
        if not self._ended or not self._stop:
            raise BrokenStream("the stream ended without message_stop")
        blocks = [self._blocks[index] for index in sorted(self._blocks)]
        usage = self._normalised()
        stop = _STOPS.get(self._stop, "end")
        if stop in ("end", "tool_calls") and usage.output is not None and usage.output >= max_output_tokens:
            stop = "length"
        text = "".join(block.text() for block in blocks if block.kind == "text")
        calls = tuple(tool_call(block.id, block.name, block.text()) for block in blocks if block.kind == "tool_use")
        if self._schema and calls:
            text = next(block.text() for block in blocks if block.kind == "tool_use")
            calls, stop = (), "end" if stop == "tool_calls" else stop
        reasoning = "".join(block.text() for block in blocks if block.kind == "thinking")
        return Reply(text, reasoning, calls, stop, usage)

    @staticmethod
    def _index(event: object) -> int:
        index = getattr(event, "index", None)
        return index if isinstance(index, int) else -1

    def _count(self, usage: object) -> None:
        """Later figures replace earlier ones: those of ``message_delta`` are cumulative."""
        for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens"):
            value = count_of(getattr(usage, name, None))
            if value is not None:
                self._usage[name] = value

    def _normalised(self) -> Usage:
        """``input_tokens`` leaves out what the cache read and wrote; ours is the total."""
        fresh = self._usage.get("input_tokens")
        read = self._usage.get("cache_read_input_tokens")
        written = self._usage.get("cache_creation_input_tokens")
        total = None if fresh is None else fresh + (read or 0) + (written or 0) or None
        return Usage(total, read, written, self._usage.get("output_tokens"))


class _Block:
    """One content block as it grows."""

    _FIELDS = ("text", "partial_json", "thinking")

    def __init__(self, start: object) -> None:
        self.kind = str(getattr(start, "type", ""))
        self.id = str(getattr(start, "id", "") or "")
        self.name = str(getattr(start, "name", "") or "")
        self._parts: list[str] = []
        self._signature: list[str] = []
        self._data = str(getattr(start, "data", "") or "")
        if self.kind != "tool_use":  # its input is {} at the start and comes as fragments
            self.add(start)

    def add(self, delta: object) -> None:
        for name in self._FIELDS:
            value = getattr(delta, name, None)
            if isinstance(value, str):
                self._parts.append(value)
        signature = getattr(delta, "signature", None)
        if isinstance(signature, str):
            self._signature.append(signature)

    def text(self) -> str:
        return "".join(self._parts)

    def opaque(self) -> dict[str, JsonValue]:
        if self.kind == "redacted_thinking":
            return {"type": self.kind, "data": self._data}
        return {"type": self.kind, "thinking": self.text(), "signature": "".join(self._signature)}


def _blocks(message: Message) -> list[dict[str, JsonValue]]:
    if message.role == "tool":
        content = message.content if message.content.strip() else "(empty)"
        return [{"type": "tool_result", "tool_use_id": wire_id(message.tool_call_id), "content": content}]
    blocks: list[dict[str, JsonValue]] = []
    if message.content.strip():
        blocks.append({"type": "text", "text": message.content})
    blocks.extend(
        {"type": "tool_use", "id": wire_id(call.id), "name": wire_id(call.name), "input": dict(call.arguments)}
        for call in message.tool_calls
    )
    return blocks


def _picture(image: Image) -> dict[str, JsonValue]:
    data = base64.b64encode(image.data).decode("ascii")
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": data}}

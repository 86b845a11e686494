"""A scripted turn as bytes of either wire format: what a provider would send, and what it sends when it fails. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from agent.backbones.base import UnparsedCall
from memory.records import JsonValue, Reply, ToolCall, Usage

Wire: TypeAlias = Literal["openai", "responses", "anthropic"]
Json: TypeAlias = dict[str, JsonValue]

_OPENAI_STOPS = {"end": "stop", "tool_calls": "tool_calls", "length": "length", "refusal": "content_filter"}
_ANTHROPIC_STOPS = {"end": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "refusal": "refusal"}
_NOTHING = Reply("")


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer of the server: a reply, and what goes wrong with it. Tokens and stop reason are those of the reply;
    an unknown usage sends none. An `UnparsedCall` sends its raw arguments as they are.

    ``status`` >= 400 answers with an error body (``error``, ``error_type``); with status 200 an ``error`` is an error
    event in the stream, after the text. ``retry_after``: the header, verbatim. ``cut_after``: the connection closes
    after so many bytes of the body; ``hang_after``: nothing more comes until the client leaves. ``delay_s``: seconds
    before anything comes; ``drip_s``: between single bytes. ``chunked`` False frames the body by closing the
    connection, so that a cut looks like an end. ``end`` False leaves out finish reason and end marker. ``body``: sent
    instead, whatever was asked. ``signature``: what a provider signs, or encrypts, its reasoning with.
    """

    reply: Reply = _NOTHING
    status: int = 200
    error: str = ""
    error_type: str = "api_error"
    retry_after: str = ""
    cut_after: int | None = None
    hang_after: int | None = None
    delay_s: float = 0.0
    drip_s: float = 0.0
    chunked: bool = True
    end: bool = True
    body: bytes | None = None
    content_type: str = ""
    reasoning_field: str = "reasoning_content"
    signature: str = ""


def payload(turn: Turn, wire: Wire, model: str, *, stream: bool) -> bytes:
    """The whole body of the answer."""
    if turn.body is not None:
        return turn.body
    if turn.status >= 400 or (turn.error and not stream):
        return dump(error_body(turn, wire))
    if wire == "responses":
        from runners.devserver.responses_wire import response_events, response_whole

        return b"".join(response_events(turn, model)) if stream else dump(response_whole(turn, model))
    if not stream:
        return dump(_chat_whole(turn, model) if wire == "openai" else _message_whole(turn, model))
    events = _chat_events(turn, model) if wire == "openai" else _message_events(turn, model)
    return b"".join(events)


def error_body(turn: Turn, wire: Wire) -> Json:
    inner: Json = {"type": turn.error_type, "message": turn.error or f"scripted error {turn.status}"}
    if wire != "anthropic":
        return {"error": {**inner, "code": None, "param": None}}
    return {"type": "error", "error": inner, "request_id": "req_scripted"}


def models_body(model: str) -> bytes:
    """GET /v1/models."""
    return dump({"object": "list", "data": [{"id": model, "object": "model", "created": 0, "owned_by": "scripted"}]})


def _chat_whole(turn: Turn, model: str) -> Json:
    reply = turn.reply
    message: Json = {"role": "assistant", "content": reply.text or None}
    if reply.reasoning:
        message[turn.reasoning_field] = reply.reasoning
    if reply.tool_calls:
        message["tool_calls"] = [_chat_call(call, i) for i, call in enumerate(reply.tool_calls)]
    choice: Json = {"index": 0, "message": message, "finish_reason": _OPENAI_STOPS[_stop(reply)]}
    body: Json = {"id": "chatcmpl-0", "object": "chat.completion", "created": 0, "model": model, "choices": [choice]}
    usage = _chat_usage(reply.usage)
    return {**body, "usage": usage} if usage else body


def _chat_events(turn: Turn, model: str) -> list[bytes]:
    reply = turn.reply
    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    deltas += [{turn.reasoning_field: part} for part in _halves(reply.reasoning)]
    deltas += [{"content": part} for part in _halves(reply.text)]
    for i, call in enumerate(reply.tool_calls):
        first, *rest = _halves(raw(call)) or [""]
        opened = _chat_call(call, i)
        opened["function"] = {"name": call.name, "arguments": first}
        deltas.append({"tool_calls": [{"index": i, **opened}]})
        deltas += [{"tool_calls": [{"index": i, "function": {"arguments": part}}]} for part in rest]
    events = [_chat_event(model, [{"index": 0, "delta": delta, "finish_reason": None}]) for delta in deltas]
    if turn.error:
        return [*events, data_line(error_body(turn, "openai"))]
    if not turn.end:
        return events
    events.append(_chat_event(model, [{"index": 0, "delta": {}, "finish_reason": _OPENAI_STOPS[_stop(reply)]}]))
    usage = _chat_usage(reply.usage)
    if usage:
        events.append(_chat_event(model, [], usage))
    return [*events, b"data: [DONE]\n\n"]


def _chat_event(model: str, choices: Sequence[Json], usage: Json | None = None) -> bytes:
    chunk: Json = {"id": "chatcmpl-0", "object": "chat.completion.chunk", "created": 0, "model": model}
    return data_line({**chunk, "choices": list(choices), **({"usage": usage} if usage else {})})


def _chat_call(call: ToolCall, index: int) -> Json:
    return {
        "id": call.id or f"call_{index}",
        "type": "function",
        "function": {"name": call.name, "arguments": raw(call)},
    }


def _chat_usage(usage: Usage) -> Json:
    if usage.input_total is None and usage.output is None:
        return {}
    found: Json = {
        "prompt_tokens": usage.input_total,
        "completion_tokens": usage.output,
        "total_tokens": (usage.input_total or 0) + (usage.output or 0),
    }
    if usage.cache_read is not None:
        found["prompt_tokens_details"] = {"cached_tokens": usage.cache_read}
    if usage.reasoning is not None:
        found["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning}
    return found


def _message_whole(turn: Turn, model: str) -> Json:
    reply = turn.reply
    content: list[JsonValue] = [_finished(block, text) for block, text in _message_blocks(reply)]
    stop = _ANTHROPIC_STOPS[_stop(reply)]
    return {**_message_head(model), "content": content, "stop_reason": stop, "usage": _message_usage(reply.usage)}


def _message_events(turn: Turn, model: str) -> list[bytes]:
    reply = turn.reply
    usage = _message_usage(reply.usage)
    start: Json = {**_message_head(model), "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    events = [event({"type": "message_start", "message": start}), event({"type": "ping"})]
    for index, (block, text) in enumerate(_message_blocks(reply)):
        events.append(event({"type": "content_block_start", "index": index, "content_block": block}))
        kind, name = {"text": ("text_delta", "text"), "thinking": ("thinking_delta", "thinking")}.get(
            str(block["type"]), ("input_json_delta", "partial_json")
        )
        for part in _halves(text):
            delta: Json = {"type": kind, name: part}
            events.append(event({"type": "content_block_delta", "index": index, "delta": delta}))
        if turn.signature and block["type"] == "thinking":
            signed: Json = {"type": "signature_delta", "signature": turn.signature}
            events.append(event({"type": "content_block_delta", "index": index, "delta": signed}))
        events.append(event({"type": "content_block_stop", "index": index}))
    if turn.error:
        return [*events, event(error_body(turn, "anthropic"))]
    if not turn.end:
        return events
    last: Json = {"stop_reason": _ANTHROPIC_STOPS[_stop(reply)], "stop_sequence": None}
    output: Json = {"output_tokens": reply.usage.output} if reply.usage.output is not None else {}
    return [
        *events,
        event({"type": "message_delta", "delta": last, "usage": output}),
        event({"type": "message_stop"}),
    ]


def _message_head(model: str) -> Json:
    return {"id": "msg_0", "type": "message", "role": "assistant", "model": model, "stop_sequence": None}


def _message_blocks(reply: Reply) -> list[tuple[Json, str]]:
    """(block as it starts, the text that it grows by)."""
    blocks: list[tuple[Json, str]] = []
    if reply.reasoning:
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, reply.reasoning))
    if reply.text:
        blocks.append(({"type": "text", "text": ""}, reply.text))
    for i, call in enumerate(reply.tool_calls):
        blocks.append(({"type": "tool_use", "id": call.id or f"toolu_{i}", "name": call.name, "input": {}}, raw(call)))
    return blocks


def _finished(block: Json, text: str) -> Json:
    kind = str(block["type"])
    return {**block, "input": json.loads(text)} if kind == "tool_use" else {**block, kind: text}


def _message_usage(usage: Usage) -> Json:
    """The provider's own figures: its input tokens leave cached ones out."""
    if usage.input_total is None:
        return {}
    fresh = usage.input_total - (usage.cache_read or 0) - (usage.cache_write or 0)
    return {
        "input_tokens": fresh,
        "cache_read_input_tokens": usage.cache_read or 0,
        "cache_creation_input_tokens": usage.cache_write or 0,
        "output_tokens": usage.output,
    }


def _stop(reply: Reply) -> str:
    return "tool_calls" if reply.tool_calls and reply.stop_reason == "end" else reply.stop_reason


def raw(call: ToolCall) -> str:
    return call.raw if isinstance(call, UnparsedCall) else json.dumps(dict(call.arguments), ensure_ascii=False)


def _halves(text: str) -> list[str]:
    middle = (len(text) + 1) // 2
    return [part for part in (text[:middle], text[middle:]) if part]


def event(body: Mapping[str, JsonValue]) -> bytes:
    return f"event: {body['type']}\n".encode() + data_line(body)


def data_line(body: Mapping[str, JsonValue]) -> bytes:
    return b"data: " + dump(body) + b"\n\n"


def dump(body: Mapping[str, JsonValue]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")

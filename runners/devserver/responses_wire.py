"""A scripted turn as bytes of OpenAI's Responses format. Pure."""

from __future__ import annotations

from memory.records import JsonValue, Reply, Usage
from runners.devserver.wire import Json, Turn, error_body, event, raw


def response_whole(turn: Turn, model: str) -> Json:
    """The response object."""
    reply = turn.reply
    incomplete = {"length": "max_output_tokens", "refusal": "content_filter"}.get(reply.stop_reason)
    body: Json = {
        "id": "resp_0",
        "object": "response",
        "created_at": 0,
        "model": model,
        "status": "incomplete" if incomplete else "completed",
        "incomplete_details": {"reason": incomplete} if incomplete else None,
        "error": None,
        "output": list(_items(turn)),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    usage = _usage(reply.usage)
    return {**body, "usage": usage} if usage else body


def response_events(turn: Turn, model: str) -> list[bytes]:
    """The stream: text as it grows, then the whole response."""
    started: Json = {**response_whole(Turn(Reply("")), model), "status": "in_progress", "output": []}
    events: list[Json] = [{"type": "response.created", "response": started}]
    place: Json = {"item_id": "msg_0", "output_index": 0, "content_index": 0, "logprobs": []}
    half = (len(turn.reply.text) + 1) // 2
    parts = [part for part in (turn.reply.text[:half], turn.reply.text[half:]) if part]
    events += [{"type": "response.output_text.delta", "delta": part, **place} for part in parts]
    if turn.error:
        error = error_body(turn, "responses")["error"]
        failed: Json = {**response_whole(turn, model), "status": "failed", "error": error}
        events.append({"type": "response.failed", "response": failed})
    elif turn.end:
        whole = response_whole(turn, model)
        events.append({"type": f"response.{whole['status']}", "response": whole})
    return [event({**one, "sequence_number": number}) for number, one in enumerate(events)]


def _items(turn: Turn) -> list[Json]:
    reply = turn.reply
    items: list[Json] = []
    if reply.reasoning or turn.signature:
        summary: list[JsonValue] = [{"type": "summary_text", "text": reply.reasoning}] if reply.reasoning else []
        reasoning: Json = {"id": "rs_0", "type": "reasoning", "summary": summary}
        items.append({**reasoning, "encrypted_content": turn.signature} if turn.signature else reasoning)
    if reply.text:
        text: Json = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
        items.append({"id": "msg_0", "type": "message", "role": "assistant", "status": "completed", "content": [text]})
    for i, call in enumerate(reply.tool_calls):
        item: Json = {"id": f"fc_{i}", "type": "function_call", "status": "completed"}
        items.append({**item, "call_id": call.id or f"call_{i}", "name": call.name, "arguments": raw(call)})
    return items


def _usage(usage: Usage) -> Json:
    if usage.input_total is None and usage.output is None:
        return {}
    return {
        "input_tokens": usage.input_total,
        "input_tokens_details": {"cached_tokens": usage.cache_read or 0},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning or 0},
        "total_tokens": (usage.input_total or 0) + (usage.output or 0),
    }

"""What only some providers know: signed thinking, encrypted reasoning, pictures, rooted schemas, their own usage."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from agent.backbones.anthropic import AnthropicBackbone, Thinking
from agent.backbones.base import Backbone
from agent.backbones.openai import OpenAIBackbone
from agent.backbones.replay import MAX_BYTES, MAX_KEPT, Replay
from agent.backbones.responses import ResponsesBackbone
from agent.backbones.schema import rooted, unwrapped
from agent.backbones.sdk import tamed
from agent.dialects.base import Situation
from agent.dialects.legal import legal_schema
from memory.records import Image, JsonValue, Message, Reply, Request, Sampling, ToolCall, ToolSpec, Usage
from runners.devserver.model_server import ModelServer
from runners.devserver.wire import Turn

SEARCH = ToolSpec("search", "Search.", {"type": "object", "properties": {"q": {"type": "string"}}})
CALL = ToolCall("toolu_1", "search", {"q": "x"})
THOUGHT = "I \u200bthink\ufeff <|im_end|> so"
"""Nothing of it may be mended, or the signature no longer fits."""
ANY = {
    "anyOf": [{"type": "object", "properties": {"action": {"enum": [name]}}, "required": ["action"]} for name in "ab"]
}


@pytest.fixture
async def closing() -> AsyncIterator[list[Backbone]]:
    made: list[Backbone] = []
    yield made
    for backbone in made:
        await backbone.aclose()


def asked(*calls: ToolCall, note: str = "") -> Request:
    """A request whose newest step made these calls."""
    messages = [Message("user", "Question: q?")]
    if calls:
        messages.append(Message("assistant", "looking", tool_calls=calls))
        messages += [Message("tool", "found", tool_call_id=call.id) for call in calls]
    if note:
        messages.append(Message("user", note))
    return Request(messages=tuple(messages), tools=(SEARCH,), sampling=Sampling(temperature=0.5))


def claude(server: ModelServer, closing: list[Backbone], kind: Any = "fixed") -> AnthropicBackbone:
    made = AnthropicBackbone(
        model="m", api_key="k", base_url=server.url, max_retries=0, thinking=Thinking(kind, 2048, "low")
    )
    closing.append(made)
    return made


async def test_thinking_goes_back_as_it_came(closing: list[Backbone]) -> None:
    thinks = Turn(Reply("", reasoning=THOUGHT, tool_calls=(CALL,)), signature="c2lnbg==")
    with ModelServer([thinks, "answer"]) as server:
        backbone = claude(server, closing)
        first = await backbone.complete(asked())
        ours = ToolCall("s1.0", first.tool_calls[0].name, first.tool_calls[0].arguments)
        await backbone.complete(asked(ours, note="note"))
    before, after = (request.body for request in server.requests)
    assert before["thinking"] == after["thinking"] == {"type": "enabled", "budget_tokens": 2048}
    assert before["max_tokens"] == 4096 + 2048
    assert "temperature" not in before
    content: Any = after["messages"][1]["content"]  # type: ignore[index, call-overload]
    assert content[0] == {"type": "thinking", "thinking": THOUGHT, "signature": "c2lnbg=="}
    assert [block["type"] for block in content] == ["thinking", "text", "tool_use"]
    assert backbone.window == 200_000 - 2 * 2048


async def test_redacted_thinking_goes_back_too(closing: list[Backbone]) -> None:
    def event(body: dict[str, JsonValue]) -> str:
        return f"event: {body['type']}\ndata: {json.dumps(body)}\n\n"

    message: dict[str, JsonValue] = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": []}
    blocks: list[dict[str, JsonValue]] = [
        {"type": "redacted_thinking", "data": "b3BhcXVl"},
        {"type": "tool_use", "id": "t", "name": "search", "input": {}},
    ]
    parts = [event({"type": "message_start", "message": {**message, "usage": {"input_tokens": 1, "output_tokens": 1}}})]
    for index, block in enumerate(blocks):
        parts.append(event({"type": "content_block_start", "index": index, "content_block": block}))
        if index:
            delta: dict[str, JsonValue] = {"type": "input_json_delta", "partial_json": '{"q": "x"}'}
            parts.append(event({"type": "content_block_delta", "index": index, "delta": delta}))
        parts.append(event({"type": "content_block_stop", "index": index}))
    parts.append(event({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}}))
    parts.append(event({"type": "message_stop"}))
    raw = Turn(body="".join(parts).encode(), content_type="text/event-stream")
    with ModelServer([raw, "answer"]) as server:
        backbone = claude(server, closing, "adaptive")
        (call,) = (await backbone.complete(asked())).tool_calls
        await backbone.complete(asked(replace(call, id="s1.0")))
    body: Any = server.requests[1].body
    assert body["messages"][1]["content"][0] == {"type": "redacted_thinking", "data": "b3BhcXVl"}
    assert (body["thinking"], body["output_config"]) == ({"type": "adaptive"}, {"effort": "low"})


async def test_calls_whose_thinking_is_not_known_go_out_without(closing: list[Backbone]) -> None:
    """After a restart, or when a call had to be repaired. A schema, asked for by a forced tool, excludes it as well."""
    bound = Reply("", tool_calls=(ToolCall("a", "reply", {"action": "a"}),))
    with ModelServer(["answer", bound]) as server:
        backbone = claude(server, closing)
        await backbone.complete(asked(CALL))
        await backbone.complete(Request(messages=asked().messages, schema={"type": "object"}))
    assert ["thinking" in request.body for request in server.requests] == [False, False]
    assert server.requests[0].body["temperature"] == 0.5


async def test_encrypted_reasoning_goes_back_before_its_calls(closing: list[Backbone]) -> None:
    thinks = Turn(Reply("", reasoning="hm", tool_calls=(replace(CALL, id="call_9"),)), signature="ZW5j")
    with ModelServer([thinks, "answer"]) as server:
        backbone = ResponsesBackbone(
            model="m", api_key="k", base_urls=[f"{server.url}/v1"], max_retries=0, effort="low"
        )
        closing.append(backbone)
        await backbone.complete(asked())
        await backbone.complete(replace(asked(replace(CALL, id="s1.0")), task_key="task"))
    body: Any = server.requests[1].body
    assert (body["store"], body["include"], body["reasoning"]) == (
        False, ["reasoning.encrypted_content"], {"effort": "low"},
    )  # fmt: skip
    assert body["prompt_cache_key"] == "task"
    reasoning, call, output = body["input"][2:]
    assert (reasoning["type"], reasoning["encrypted_content"]) == ("reasoning", "ZW5j")
    assert call["call_id"] == output["call_id"] == "call_9"


async def test_a_model_without_encrypted_reasoning_is_not_asked_again(closing: list[Backbone]) -> None:
    said = "Encrypted content is not supported with this model: reasoning.encrypted_content"
    with ModelServer([Turn(status=400, error=said), "a", "b"]) as server:
        backbone = ResponsesBackbone(model="m", api_key="k", base_urls=[f"{server.url}/v1"], max_retries=0)
        closing.append(backbone)
        assert [(await backbone.complete(asked())).text for _ in range(2)] == ["a", "b"]
    assert ["include" in request.body for request in server.requests] == [True, False, False]


def test_what_is_kept_for_replay_is_bounded() -> None:
    replay = Replay()
    item: dict[str, JsonValue] = {"type": "thinking", "thinking": "t"}
    replay.keep((), (item,))
    replay.keep((CALL,), ({**item, "signature": "s" * MAX_BYTES},))
    assert replay.of(asked(CALL).messages) == ()
    for number in range(MAX_KEPT + 1):
        replay.keep((ToolCall("", "search", {"q": number}),), (item,))
    assert replay.of(asked(ToolCall("s9.0", "search", {"q": 0})).messages) == ()
    assert replay.of(asked(ToolCall("s9.0", "search", {"q": MAX_KEPT})).messages) == (item,)
    assert replay.of(asked().messages) == ()


@pytest.mark.parametrize("wire", ["openai", "responses", "anthropic"])
@pytest.mark.parametrize("takes", [True, False])
async def test_pictures_stand_with_the_question(wire: str, takes: bool, closing: list[Backbone]) -> None:
    data = b"\x89PNG not really"
    request = Request(messages=asked().messages, images=(Image("image/png", data, "a.png"),))
    with ModelServer(["seen"]) as server:
        common: dict[str, Any] = {"model": "m", "api_key": "k", "max_retries": 0, "supports_images": takes}
        if wire == "anthropic":
            backbone: Backbone = AnthropicBackbone(base_url=server.url, **common)
        else:
            kind = OpenAIBackbone if wire == "openai" else ResponsesBackbone
            backbone = kind(base_urls=[f"{server.url}/v1"], **common)
        closing.append(backbone)
        await backbone.complete(request)
    sent = json.dumps(server.requests[0].body)
    assert (base64.b64encode(data).decode() in sent) is takes
    assert "Question: q?" in sent
    assert ("image/png" in sent) is takes


@pytest.mark.parametrize("wire", ["openai", "responses", "anthropic"])
async def test_a_root_that_is_no_object_is_wrapped_and_unwrapped(wire: str, closing: list[Backbone]) -> None:
    wrapped = '{"reply": {"action": "a", "q": "ü"}}'
    with ModelServer(
        [Reply("", tool_calls=(ToolCall("a", "reply", json.loads(wrapped)),)) if wire == "anthropic" else wrapped]
    ) as server:
        if wire == "anthropic":
            backbone: Backbone = AnthropicBackbone(model="m", api_key="k", base_url=server.url, max_retries=0)
        else:
            kind = OpenAIBackbone if wire == "openai" else ResponsesBackbone
            backbone = kind(model="m", api_key="k", base_urls=[f"{server.url}/v1"], max_retries=0)
        closing.append(backbone)
        reply = await backbone.complete(Request(messages=asked().messages, schema=ANY))
    assert json.loads(reply.text) == {"action": "a", "q": "ü"}
    body: Any = server.requests[0].body
    shapes = {
        "openai": lambda: body["response_format"]["json_schema"],
        "responses": lambda: body["text"]["format"],
        "anthropic": lambda: {"schema": body["tools"][0]["input_schema"], "strict": False},
    }
    sent = shapes[wire]()
    assert sent["strict"] is False
    assert sent["schema"]["type"] == "object"
    assert sent["schema"]["properties"]["reply"] == ANY


def test_schemas_of_the_guided_dialect_have_an_object_at_the_root() -> None:
    tools = [ToolSpec(name, name, {"type": "object", "properties": {}}) for name in ("search", "visit", "python")]
    first = legal_schema(tools, Situation(1))
    later = legal_schema(tools, Situation(4, task_step=4, listed=("http://x",), last_tools=("visit",)))
    assert "anyOf" in later
    for schema in (first, later):
        sent = rooted(schema)
        assert sent["type"] == "object"
        assert not {"anyOf", "oneOf", "allOf", "enum", "not"} & set(sent)
    assert rooted(first) == first
    assert unwrapped("not json", later) == "not json"
    assert unwrapped('{"action": "answer"}', later) == '{"action": "answer"}'
    assert unwrapped('{"reply": 1}', first) == '{"reply": 1}'


class Bag:
    """Attributes, as the SDKs' models have them."""

    def __init__(self, **values: object) -> None:
        self.__dict__.update(values)


@pytest.mark.parametrize(
    ("usage", "wanted"),
    [
        ({"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 60},
          "completion_tokens_details": {"reasoning_tokens": 3}}, Usage(100, 60, None, 7, 3)),  # OpenAI
        ({"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 0,
          "cache_write_tokens": 80}}, Usage(100, 0, 80, 7)),  # OpenAI, explicit cache
        ({"prompt_tokens": 100, "completion_tokens": 7, "prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 36},
         Usage(100, 64, None, 7)),  # DeepSeek
        ({"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": None},
         Usage(100, None, None, 7)),  # vLLM and SGLang without their flags
        ({"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 5}},
         Usage(100, 5, None, 7)),  # vLLM and SGLang with them
        ({"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107}, Usage(100, None, None, 7)),  # Ollama
        ({"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 150}, Usage(100, None, None, 7)),  # Gemini
        ({"prompt_tokens": 100, "completion_tokens": 7, "cost": 0.0012, "prompt_tokens_details": {"cached_tokens": 9}},
         Usage(100, 9, None, 7, None, 0.0012)),  # OpenRouter
        ({"prompt_tokens": -1, "completion_tokens": 10**12, "cost": -3}, Usage()),
        ({"prompt_tokens": True, "completion_tokens": "7", "cost": "free"}, Usage()),
        (None, Usage()),
    ],
)  # fmt: skip
async def test_usage_of_every_server_is_normalised(usage: JsonValue, wanted: Usage, closing: list[Backbone]) -> None:
    """What is not said is unknown, not nothing; what cannot be is unknown too."""
    chunk: dict[str, JsonValue] = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m"}
    choice: dict[str, JsonValue] = {"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}
    rows = [{**chunk, "choices": [choice]}, {**chunk, "choices": [], "usage": usage}]
    body = "".join(f"data: {json.dumps(row)}\n\n" for row in rows) + "data: [DONE]\n\n"
    with ModelServer([Turn(body=body.encode())]) as server:
        backbone = OpenAIBackbone(model="m", api_key="k", base_urls=[f"{server.url}/v1"], max_retries=0)
        closing.append(backbone)
        assert (await backbone.complete(asked())).usage == wanted


@pytest.mark.parametrize("client", [openai.AsyncOpenAI, anthropic.AsyncAnthropic])
async def test_the_sdks_leave_429_to_us_and_no_server_stops_them_for_weeks(client: type[Any]) -> None:
    made = tamed(client)(api_key="k", max_retries=3)
    answers = {status: httpx2.Response(status) for status in (429, 500, 503, 529, 408, 409, 400, 401)}
    assert [status for status, answer in answers.items() if made._should_retry(answer)] == [500, 503, 529, 408, 409]
    headers = httpx2.Headers({"retry-after": "1000000000"})
    options = Bag(get_max_retries=lambda most: most)
    assert made._calculate_retry_timeout(2, options, headers) <= 120
    await made.close()

"""Both SDKs, for real, against the scripted server on loopback."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeAlias

import pytest

from agent.backbones.anthropic import AnthropicBackbone
from agent.backbones.base import Backbone, UnparsedCall
from agent.backbones.openai import OpenAIBackbone
from agent.backbones.responses import ResponsesBackbone
from agent.dialects.native import NativeDialect
from agent.dialects.tongyi import SAMPLING, STOP, TongyiDialect
from agent.errors import AuthFailed, BackboneFault, BadRequest, BrokenStream, ContextTooLong, RateLimited, Unavailable
from memory.records import JsonValue, Message, Reply, Request, Sampling, Step, StopReason, ToolCall, ToolSpec, Usage
from runners.devserver.model_server import ModelServer, WireRequest
from runners.devserver.wire import Turn, Wire, payload

WIRES = ("openai", "responses", "anthropic")
SEARCH = ToolSpec("search", "Search.", {"type": "object", "properties": {"queries": {"type": "array"}}})
USAGE = Usage(input_total=100, cache_read=60, cache_write=None, output=7)
ASK = Request(messages=(Message("system", "Be brief."), Message("user", "Where?")), tools=(SEARCH,))
CALLS = Reply(
    "Looking.",
    reasoning="hm",
    tool_calls=(
        ToolCall("a", "search", {"queries": ["cafés", "北京"]}),
        ToolCall("b", "search", {"queries": []}),
    ),
    usage=USAGE,
)
Connect: TypeAlias = Callable[..., Backbone]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    made: list[Backbone] = []

    def make(wire: str, server: ModelServer, **options: Any) -> Backbone:
        options = {"max_retries": 0, "timeout_s": 5.0, "model": "m", "api_key": "k", **options}
        if wire != "anthropic":
            kind = OpenAIBackbone if wire == "openai" else ResponsesBackbone
            made.append(kind(base_urls=[f"{server.url}/v1"], **options))
        else:
            made.append(AnthropicBackbone(base_url=server.url, **options))
        return made[-1]

    yield make
    for backbone in made:
        await backbone.aclose()


@pytest.mark.parametrize("wire", WIRES)
async def test_streams_text_reasoning_calls_and_usage(wire: str, connect: Connect) -> None:
    with ModelServer([CALLS, "Paris"]) as server:
        backbone = connect(wire, server)
        reply = await backbone.complete(ASK)
        answer = await backbone.complete(ASK)
    assert (reply.text, reply.reasoning, reply.stop_reason) == ("Looking.", "hm", "tool_calls")
    assert [(call.name, dict(call.arguments)) for call in reply.tool_calls] == [
        ("search", {"queries": ["cafés", "北京"]}),
        ("search", {"queries": []}),
    ]
    assert (reply.usage.input_total, reply.usage.cache_read, reply.usage.output) == (100, 60, 7)
    assert (answer.text, answer.tool_calls, answer.stop_reason) == ("Paris", (), "end")
    assert (answer.usage.input_total, answer.usage.cache_read) == (None, None)
    assert server.requests[0].body["stream"] is True


@pytest.mark.parametrize("wire", WIRES)
async def test_a_native_step_round_trip(wire: str, connect: Connect) -> None:
    """What the dialect renders of a step is what the server receives, linked call by call."""
    step_format = NativeDialect().step_format([SEARCH])
    step = Step(3, thought="look", calls=(ToolCall("s3.0", "search", {"queries": ["x"]}),))
    messages = (*step_format.preamble("Where?"), step_format.history("old"), *step_format.step(step))
    with ModelServer(["Paris"]) as server:
        await connect(wire, server).complete(Request(messages=messages, tools=(SEARCH,)))
    body: Any = server.requests[0].body
    sent = body.get("messages") or body["input"]
    if wire == "openai":
        assert [message["role"] for message in sent] == ["system", "user", "assistant", "tool"]
        assert sent[1]["content"] == "Question: Where?\n\nold"
        assert sent[2]["tool_calls"][0]["id"] == sent[3]["tool_call_id"] == "s3.0"
        assert body["tools"][0]["function"]["name"] == "search"
    elif wire == "responses":
        kinds = [item.get("role") or item["type"] for item in sent]
        assert kinds == ["system", "user", "user", "assistant", "function_call", "function_call_output"]
        assert sent[4]["call_id"] == sent[5]["call_id"] == "s3_0"
        assert (body["store"], body["tools"][0]["name"]) == (False, "search")
    else:
        assert [message["role"] for message in sent] == ["user", "assistant", "user"]
        assert [block.get("cache_control") for block in sent[0]["content"]] == [{"type": "ephemeral"}, None]
        assert sent[1]["content"][1]["id"] == sent[2]["content"][0]["tool_use_id"] == "s3_0"
        assert "research agent" in body["system"][0]["text"]
        assert body["tools"][0]["input_schema"]["type"] == "object"


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("stop", ["length", "refusal", "end"])
async def test_stop_reasons(wire: str, stop: StopReason, connect: Connect) -> None:
    with ModelServer([Reply("some text", stop_reason=stop)]) as server:
        assert (await connect(wire, server).complete(ASK)).stop_reason == stop


@pytest.mark.parametrize("wire", WIRES)
async def test_output_at_the_cap_counts_as_cut_whatever_the_server_says(wire: str, connect: Connect) -> None:
    full = Reply("", tool_calls=CALLS.tool_calls, usage=Usage(input_total=10, output=32))
    with ModelServer([full]) as server:
        request = Request(messages=ASK.messages, max_output_tokens=32)
        assert (await connect(wire, server).complete(request)).stop_reason == "length"


@pytest.mark.parametrize("wire", WIRES)
async def test_arguments_that_are_not_json_stay_raw(wire: str, connect: Connect) -> None:
    broken = Reply("", tool_calls=(UnparsedCall("a", "search", raw="{'queries': ['x']}"),))
    with ModelServer([broken]) as server:
        reply = await connect(wire, server).complete(ASK)
    (call,) = reply.tool_calls
    assert isinstance(call, UnparsedCall)
    assert (call.raw, dict(call.arguments)) == ("{'queries': ['x']}", {})


@pytest.mark.parametrize("wire", WIRES)
async def test_schema_sampling_stop_and_cap_are_sent(wire: str, connect: Connect) -> None:
    schema: dict[str, JsonValue] = {"type": "object", "properties": {"action": {"type": "string"}}}
    request = Request(
        messages=ASK.messages,
        schema=schema,
        stop=("</x>",),
        max_output_tokens=500,
        sampling=Sampling(temperature=0.5),
    )
    bound = Reply("", tool_calls=(ToolCall("a", "reply", {"action": "go"}),))
    with ModelServer([bound if wire == "anthropic" else '{"action": "go"}']) as server:
        reply = await connect(wire, server, max_output_tokens=400).complete(request)
    assert (reply.text, reply.tool_calls, reply.stop_reason) == ('{"action": "go"}', (), "end")
    body: Any = server.requests[0].body
    assert body["temperature"] == 0.5
    assert body["max_output_tokens" if wire == "responses" else "max_tokens"] == 400
    if wire == "responses":
        assert body["text"]["format"]["schema"] == schema
    elif wire == "openai":
        assert body["response_format"]["json_schema"]["schema"] == schema
        assert body["stop"] == ["</x>"]
    else:
        assert body["tools"][0]["input_schema"] == schema
        assert body["stop_sequences"] == ["</x>"]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("turn", "fault", "retryable"),
    [
        (Turn(status=400, error="bad parameter", error_type="invalid_request_error"), BadRequest, False),
        (Turn(status=400, error="maximum context length is 8192 tokens"), ContextTooLong, False),
        (Turn(status=413, error="request too large"), ContextTooLong, False),
        (Turn(status=401, error="bad key sk-abc"), AuthFailed, False),
        (Turn(status=403, error="not yours"), AuthFailed, False),
        (Turn(status=404, error="no such model"), Unavailable, False),
        (Turn(status=422, error="nonsense"), BadRequest, False),
        (Turn(status=429, error="slow down", retry_after="7"), RateLimited, True),
        (Turn(status=500, error="oops"), Unavailable, True),
        (Turn(status=529, error="overloaded", error_type="overloaded_error"), Unavailable, True),
        (Turn(status=503, body=b"<html>gateway</html>", content_type="text/html"), Unavailable, True),
        (Turn(Reply("half"), error="Overloaded", error_type="overloaded_error"), BrokenStream, True),
        (Turn(error="prompt is too long: 9 tokens > 8 maximum"), ContextTooLong, False),
        (Turn(Reply("half"), end=False), BrokenStream, True),
        (Turn(body=b"<html>login</html>", content_type="text/html"), BrokenStream, True),
        (Turn(body=b"data: {not json\n\n"), BrokenStream, True),
        (Turn(body=b"event: x\ndata: [1, 2]\n\ndata: 5\n\n"), BrokenStream, True),
        (Turn(body=b'event: message_stop\ndata: {"type": "message_stop", "choices": 3}\n\n'), BrokenStream, True),
        (Turn(body=b"data: \xff\xfe\n\n"), BrokenStream, True),
    ],
)  # fmt: skip
async def test_faults(wire: str, turn: Turn, fault: type[BackboneFault], retryable: bool, connect: Connect) -> None:
    with ModelServer([turn]) as server, pytest.raises(fault) as caught:
        await connect(wire, server).complete(ASK)
    assert type(caught.value) is fault
    assert caught.value.retryable is retryable
    assert "sk-abc" not in str(caught.value)
    if isinstance(caught.value, RateLimited):
        assert caught.value.retry_after == 7.0


@pytest.mark.parametrize("wire", WIRES)
async def test_auth_names_the_variable(wire: str, connect: Connect) -> None:
    with ModelServer([Turn(status=401)]) as server, pytest.raises(AuthFailed) as caught:
        await connect(wire, server, key_env="MY_KEY").complete(ASK)
    assert "MY_KEY" in caught.value.hint


@pytest.mark.parametrize("wire", WIRES)
async def test_a_server_that_is_not_there(wire: str, connect: Connect) -> None:
    server = ModelServer([]).start()
    server.stop()
    with pytest.raises(Unavailable, match="cannot reach") as caught:
        await connect(wire, server).complete(ASK)
    assert caught.value.retryable


@pytest.mark.parametrize("wire", WIRES)
async def test_the_sdk_retries_its_own_errors(wire: str, connect: Connect) -> None:
    with ModelServer([Turn(status=503, retry_after="0.01"), "fine"]) as server:
        assert (await connect(wire, server, max_retries=1).complete(ASK)).text == "fine"


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("chunked", [True, False])
async def test_a_stream_cut_anywhere_is_never_half_a_reply(wire: Wire, chunked: bool, connect: Connect) -> None:
    """With ``chunked`` False, where a cut looks like the regular end of the body, every byte; else every fourth.
    Responses, whose last event holds all, at every fifth of these."""
    whole = Reply("Añ", tool_calls=(ToolCall("a", "f", {"q": "é"}),), usage=Usage(input_total=3, output=2))
    size = len(payload(Turn(whole), wire, "m", stream=True))
    positions = range(0, size, (4 if chunked else 1) * (5 if wire == "responses" else 1))
    cuts = iter(positions)
    outcomes = {"whole": 0, "broken": 0}

    async def one(backbone: Backbone) -> None:
        try:
            reply = await backbone.complete(ASK)
        except (BrokenStream, Unavailable):
            outcomes["broken"] += 1
        else:
            outcomes["whole"] += 1
            assert (reply.text, reply.stop_reason) == ("Añ", "tool_calls")
            assert [dict(call.arguments) for call in reply.tool_calls] == [{"q": "é"}]

    with ModelServer(lambda _: Turn(whole, cut_after=next(cuts), chunked=chunked)) as server:
        backbone = connect(wire, server)
        for _ in positions:
            await one(backbone)
    assert sum(outcomes.values()) == len(positions)
    assert outcomes["broken"] > len(positions) / 2
    assert next(cuts, None) is None


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("after", [0, 40, 400])
async def test_cancelling_in_the_middle_closes_the_connection(wire: str, after: int, connect: Connect) -> None:
    with ModelServer([Turn(Reply("text " * 40), hang_after=after)]) as server:
        call = asyncio.create_task(connect(wire, server).complete(ASK))
        assert await asyncio.to_thread(server.reached.wait, 20)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await asyncio.to_thread(server.left.wait, 5)


@pytest.mark.parametrize("wire", WIRES)
async def test_silence_past_the_timeout_is_a_fault(wire: str, connect: Connect) -> None:
    with ModelServer([Turn(Reply("text"), hang_after=30)]) as server, pytest.raises((BrokenStream, Unavailable)):
        await connect(wire, server, timeout_s=0.2).complete(ASK)


@pytest.mark.parametrize("parsed", [False, True])
async def test_the_tongyi_text_dialect_over_chat_completions(parsed: bool, connect: Connect) -> None:
    """As the model writes it, and as a server with its own parsers hands it on."""
    dialect = TongyiDialect()
    text = '<think>hm</think>\n<tool_call>\n{"name": "search", "arguments": {"query": ["x"]}}\n</tool_call>'
    call = Reply("", reasoning="hm", tool_calls=(ToolCall("a", "search", {"query": ["x"]}),))
    with ModelServer([call if parsed else text, "<think>so</think><answer>Paris [c1]</answer>"]) as server:
        backbone = connect("openai", server)
        request = Request(messages=dialect.step_format([SEARCH]).preamble("Where?"), stop=STOP, sampling=SAMPLING)
        first = dialect.parse(await backbone.complete(request), 1)
        last = dialect.parse(await backbone.complete(request), 2)
    assert (first.thought, first.calls) == ("hm", (ToolCall("s1.0", "search", {"queries": ["x"]}),))
    assert (last.thought, last.answer) == ("so", "Paris [c1]")
    body = server.requests[0].body
    assert (body["stop"], body["presence_penalty"], "tools" in body) == (list(STOP), 1.1, False)


async def test_a_refused_option_is_left_out_from_then_on(connect: Connect) -> None:
    refusal = Turn(status=400, error="Unrecognized request argument supplied: stream_options")
    cap = Turn(status=400, error="Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
    with ModelServer([refusal, cap, "a", "b"]) as server:
        backbone = connect("openai", server)
        assert [(await backbone.complete(ASK)).text for _ in range(2)] == ["a", "b"]
    bodies = [request.body for request in server.requests]
    assert ["stream_options" in body for body in bodies] == [True, False, False, False]
    assert ["max_completion_tokens" in body for body in bodies] == [False, False, True, True]


async def test_refusals_of_calls_under_way_together(connect: Connect) -> None:
    def answer(request: WireRequest) -> Turn | str:
        refused = "stream_options" in request.body
        return Turn(status=400, error="unknown field stream_options") if refused else "fine"

    with ModelServer(answer) as server:
        backbone = connect("openai", server)
        replies = await asyncio.gather(*(backbone.complete(ASK) for _ in range(4)))
    assert [reply.text for reply in replies] == ["fine"] * 4


async def test_a_server_that_refuses_either_cap_does_not_loop(connect: Connect) -> None:
    def answer(request: WireRequest) -> Turn:
        name = "max_tokens" if "max_tokens" in request.body else "max_completion_tokens"
        return Turn(status=400, error=f"unsupported: {name}")

    with ModelServer(answer) as server, pytest.raises(BadRequest):
        await connect("openai", server).complete(ASK)
    assert len(server.requests) < 12


async def test_sampling_is_left_out_where_the_model_takes_none(connect: Connect) -> None:
    refusal = Turn(status=400, error="`temperature` is not supported by this model", error_type="invalid_request_error")
    request = Request(messages=ASK.messages, sampling=Sampling(temperature=1.5, top_p=0.9))
    with ModelServer([refusal, "a", "b"]) as server:
        backbone = connect("anthropic", server)
        assert [(await backbone.complete(request)).text for _ in range(2)] == ["a", "b"]
    assert [request.body.get("temperature") for request in server.requests] == [1.0, None, None]
    assert all("top_p" not in request.body for request in server.requests)


async def test_a_task_stays_on_its_server() -> None:
    with ModelServer(lambda _: "a") as one, ModelServer(lambda _: "b") as two:
        backbone = OpenAIBackbone(model="m", api_key="k", base_urls=[f"{one.url}/v1", f"{two.url}/v1"], max_retries=0)
        said = {key: {await _ask(backbone, key) for _ in range(3)} for key in ("t1", "t2", "t3", "t4", "t5")}
        await backbone.aclose()
    assert all(len(texts) == 1 for texts in said.values())
    assert set().union(*said.values()) == {"a", "b"}


async def _ask(backbone: Backbone, key: str) -> str:
    return (await backbone.complete(Request(messages=ASK.messages, task_key=key))).text


def test_importing_the_backbones_imports_no_sdk() -> None:
    code = (
        "import sys, agent.backbones.openai, agent.backbones.anthropic, agent.backbones.factory\n"
        "assert not {'openai', 'anthropic', 'httpx2', 'json_repair'} & set(sys.modules), 'imported too early'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)

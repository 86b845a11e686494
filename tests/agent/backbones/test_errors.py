from __future__ import annotations

from types import SimpleNamespace

import pytest

from agent.backbones.chat_format import ChatAssembly, chat_usage
from agent.backbones.errors import context_limit, retry_after, status_fault
from agent.backbones.messages_format import MAX_CACHE_POINTS, split_messages
from agent.errors import AuthFailed, BackboneFault, BadRequest, BrokenStream, ContextTooLong, Unavailable
from memory.records import Message, ToolCall, Usage


def fault(status: int, message: str, kind: str = "") -> BackboneFault:
    return status_fault(status, kind, message, headers={}, key_env="KEY", where="m")


@pytest.mark.parametrize(
    ("message", "limit"),
    [
        ("This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens", 8192),
        ("Input length (5000) exceeds model's maximum context length (4096).", 4096),
        ("The decoder prompt (length 5000) is longer than the maximum model length of 4096.", 4096),
        ("prompt is too long: 213000 tokens > 200000 maximum", 200_000),
        ("input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length", 200_000),
        ("the request exceeds the available context size (4096 tokens), try increasing it", 4096),
        ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", 1_048_576),
        ("Prompt contains 40000 tokens, too large for model with 32768 maximum context length", 32_768),
        ("The input (5000 tokens) is longer than the model's context length (4,096 tokens).", 4096),
        ("Requested token count exceeds the model's maximum context length of 4096 tokens.", 4096),
        ("Invalid 'messages[0].content': string too long", None),
        ("Please reduce the length of the messages or completion.", None),
        ("Input is too long for requested model.", None),
        ("the input length exceeds the context length", None),
    ],
)  # fmt: skip
def test_wordings_of_too_long(message: str, limit: int | None) -> None:
    kind = "string_above_max_length" if "string too long" in message else ""
    found = fault(400, message, kind)
    assert isinstance(found, ContextTooLong)
    assert found.limit == limit == context_limit(message)


@pytest.mark.parametrize(
    ("status", "kind", "message", "expected", "retryable"),
    [
        (413, "", "", ContextTooLong, False),
        (429, "", "Request too large for gpt: Limit 30000, Requested 41000", ContextTooLong, False),
        (400, "", "max_tokens: must be at most 8192", BadRequest, False),
        (400, "", "temperature must be below 2", BadRequest, False),
        (400, "", "Model Not Exist", Unavailable, False),
        (404, "model_not_found", "The model `x` does not exist", Unavailable, False),
        (402, "", "Insufficient Balance", AuthFailed, False),
        (429, "insufficient_quota", "You exceeded your current quota", AuthFailed, False),
        (400, "", "Your credit balance is too low", AuthFailed, False),
        (408, "", "", Unavailable, True),
        (409, "", "", Unavailable, True),
        (504, "", "", Unavailable, True),
        (529, "overloaded_error", "Overloaded", Unavailable, True),
    ],
)
def test_statuses(status: int, kind: str, message: str, expected: type[BackboneFault], retryable: bool) -> None:
    found = fault(status, message, kind)
    assert type(found) is expected
    assert found.retryable is retryable


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        ("0", 1.0),
        ("-5", 1.0),
        ("1000000000", 120.0),
        ("inf", 120.0),
        ("nan", None),
        ("soon", None),
        ("", None),
        ("Thu, 01 Jan 1970 00:01:40 GMT", 40.0),
        ("Thu, 01 Jan 1970 00:00:01 GMT", 1.0),
    ],
)
def test_retry_after_is_clamped(header: str, seconds: float | None) -> None:
    assert retry_after({"retry-after": header}, now=60.0) == seconds


def test_usage_of_several_servers() -> None:
    details = SimpleNamespace(cached_tokens=40)
    openai = SimpleNamespace(prompt_tokens=100, completion_tokens=5, prompt_tokens_details=details, cost=0.01)
    assert chat_usage(openai) == Usage(100, 40, None, 5, None, 0.01)
    deepseek = SimpleNamespace(prompt_tokens=100, completion_tokens=5, prompt_cache_hit_tokens=64)
    assert chat_usage(deepseek).cache_read == 64
    ollama = SimpleNamespace(prompt_tokens=100, completion_tokens=5, prompt_tokens_details=None)
    assert chat_usage(ollama).cache_read is None
    absurd = SimpleNamespace(prompt_tokens=-3, completion_tokens=10**12, cost=-1.0)
    assert chat_usage(absurd) == chat_usage(None) == Usage()


def _chunk(finish: str | None = None, **delta: object) -> SimpleNamespace:
    return SimpleNamespace(choices=[SimpleNamespace(index=0, delta=SimpleNamespace(**delta), finish_reason=finish)])


def _part(index: int | None, call_id: str | None, name: str | None, arguments: str) -> SimpleNamespace:
    return SimpleNamespace(index=index, id=call_id, function=SimpleNamespace(name=name, arguments=arguments))


@pytest.mark.parametrize("index", [0, None])
def test_servers_that_number_every_call_zero(index: int | None) -> None:
    assembly = ChatAssembly()
    assembly.add(_chunk(tool_calls=[_part(index, "a", "f", "{}")]))
    assembly.add(_chunk(tool_calls=[_part(index, "b", "g", '{"x"')]))
    assembly.add(_chunk("stop", tool_calls=[_part(index, None, None, ": 1}")]))
    reply = assembly.reply(100)
    assert reply.tool_calls == (ToolCall("a", "f", {}), ToolCall("b", "g", {"x": 1}))
    assert reply.stop_reason == "tool_calls"


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_under_either_name(field: str) -> None:
    assembly = ChatAssembly()
    assembly.add(_chunk(**{field: "because"}))
    assembly.add(_chunk("stop", content="x"))
    assert assembly.reply(100).reasoning == "because"


@pytest.mark.parametrize("finish", [None, "error", "abort", "insufficient_system_resource"])
def test_a_stream_whose_server_gave_up_is_broken(finish: str | None) -> None:
    assembly = ChatAssembly()
    assembly.add(_chunk(finish, content="half"))
    with pytest.raises(BrokenStream):
        assembly.reply(100)


def test_a_refusal_is_a_refusal() -> None:
    assembly = ChatAssembly()
    assembly.add(_chunk("stop", refusal="I cannot"))
    assert (assembly.reply(100).text, assembly.reply(100).stop_reason) == ("I cannot", "refusal")


def test_at_most_four_cache_points_and_no_empty_blocks() -> None:
    messages = [Message("system", "s", cache_point=True)]
    messages += [Message("user", f"u{i}", cache_point=True) for i in range(6)]
    messages += [Message("assistant", "  "), Message("user", "")]
    system, sent = split_messages(messages)
    (only,) = sent
    blocks = only["content"]
    assert isinstance(blocks, list)
    marked = [block["text"] for block in [*system, *blocks] if isinstance(block, dict) and "cache_control" in block]
    assert marked == ["u2", "u3", "u4", "u5"]
    assert len(marked) == MAX_CACHE_POINTS
    assert len(blocks) == 6

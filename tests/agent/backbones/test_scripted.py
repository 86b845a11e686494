from __future__ import annotations

import asyncio

import pytest

from agent.backbones.scripted import ScriptedBackbone
from agent.errors import RateLimited, ScriptExhausted, ScriptUnused
from memory.records import JsonValue, Message, Reply, Request


def ask(text: str = "hi") -> Request:
    return Request(messages=(Message("user", text),))


async def test_replies_in_order_and_records_requests() -> None:
    backbone = ScriptedBackbone(["a", Reply(text="b"), lambda request: request.messages[0].content.upper()])
    replies = [(await backbone.complete(ask(text))).text for text in ("one", "two", "three")]
    assert replies == ["a", "b", "THREE"]
    assert [call.messages[0].content for call in backbone.calls] == ["one", "two", "three"]
    await backbone.aclose()


async def test_one_call_too_many_fails() -> None:
    backbone = ScriptedBackbone(["a"])
    await backbone.complete(ask())
    with pytest.raises(ScriptExhausted):
        await backbone.complete(ask())
    await backbone.aclose()


async def test_unused_replies_fail_at_close_unless_allowed() -> None:
    with pytest.raises(ScriptUnused, match="2 of 2"):
        await ScriptedBackbone(["a", "b"]).aclose()
    await ScriptedBackbone(["a"], allow_unused=True).aclose()


async def test_raises_scripted_errors_then_goes_on() -> None:
    backbone = ScriptedBackbone([RateLimited("slow down", retry_after=3), "a"])
    with pytest.raises(RateLimited):
        await backbone.complete(ask())
    assert (await backbone.complete(ask())).text == "a"


async def test_callable_script_never_ends() -> None:
    backbone = ScriptedBackbone(lambda request: f"{len(request.messages)}")
    assert [(await backbone.complete(ask())).text for _ in range(3)] == ["1", "1", "1"]
    await backbone.aclose()


async def test_delay_goes_through_the_injected_sleep_and_can_be_cancelled() -> None:
    slept: list[float] = []
    started = asyncio.Event()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        started.set()
        await asyncio.Event().wait()

    backbone = ScriptedBackbone(["a"], delay_s=0.5, sleep=sleep)
    call = asyncio.create_task(backbone.complete(ask()))
    await started.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert slept == [0.5]


async def test_recorded_requests_are_copies() -> None:
    arguments: dict[str, JsonValue] = {"queries": ["a"]}
    schema: dict[str, JsonValue] = {"type": "object", "properties": arguments}
    request = Request(messages=(), schema=schema)
    backbone = ScriptedBackbone(["a"])
    await backbone.complete(request)
    arguments["queries"] = ["b"]
    assert backbone.calls[0].schema == {"type": "object", "properties": {"queries": ["a"]}}

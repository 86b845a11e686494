from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import ValidationError

from agent.backbones.factory import BackboneConfig, make_backbone
from agent.backbones.openai import OpenAIBackbone
from agent.backbones.retrying import Retrying
from agent.backbones.scripted import ScriptedBackbone
from agent.backbones.throttled import Throttled
from agent.errors import AuthFailed, BackboneFault, BrokenStream, RateLimited, Unavailable
from memory.records import Message, Reply, Request
from runners.devserver.model_server import ModelServer
from runners.devserver.wire import Turn

ASK = Request(messages=(Message("user", "hi"),))


class Naps:
    """A sleep that only remembers."""

    def __init__(self) -> None:
        self.taken: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)


async def test_broken_streams_are_retried_with_growing_waits() -> None:
    naps = Naps()
    backbone = Retrying(ScriptedBackbone([BrokenStream("a"), BrokenStream("b"), "fine"]), attempts=3, sleep=naps)
    assert (await backbone.complete(ASK)).text == "fine"
    await backbone.aclose()
    assert len(naps.taken) == 2
    assert 0.7 < naps.taken[0] <= 1.0 < naps.taken[1] <= 2.0


async def test_the_last_break_is_raised() -> None:
    naps = Naps()
    backbone = Retrying(ScriptedBackbone([BrokenStream("a"), BrokenStream("b")]), attempts=2, sleep=naps)
    with pytest.raises(BrokenStream, match="b"):
        await backbone.complete(ASK)
    await backbone.aclose()


@pytest.mark.parametrize("fault", [Unavailable("x"), RateLimited("x"), AuthFailed("x")])
async def test_what_the_sdk_has_retried_is_not_retried_again(fault: BackboneFault) -> None:
    backbone = Retrying(ScriptedBackbone([fault]), sleep=Naps())
    with pytest.raises(type(fault)):
        await backbone.complete(ASK)
    await backbone.aclose()


async def test_the_deadline_covers_all_tries() -> None:
    async def never(_: float) -> None:
        await asyncio.Event().wait()

    backbone = Retrying(ScriptedBackbone([BrokenStream("a")]), deadline_s=0.05, sleep=never)
    with pytest.raises(Unavailable, match=r"within 0\.05 s"):
        await backbone.complete(ASK)


async def test_a_drip_ends_at_the_deadline_and_the_connection_closes() -> None:
    with ModelServer([Turn(Reply("text"), drip_s=0.02)]) as server:
        inner = OpenAIBackbone(model="m", api_key="k", base_urls=[f"{server.url}/v1"], max_retries=0)
        with pytest.raises(Unavailable, match="no whole reply"):
            await Retrying(inner, deadline_s=0.5).complete(ASK)
        assert await asyncio.to_thread(server.left.wait, 5)
        await inner.aclose()


async def test_concurrency_is_bounded() -> None:
    running = 0
    highest = 0
    full, gate = asyncio.Event(), asyncio.Event()

    async def wait(_: float) -> None:
        nonlocal running, highest
        running += 1
        highest = max(highest, running)
        if running == 2:
            full.set()
        await gate.wait()
        running -= 1

    backbone = Throttled(ScriptedBackbone(lambda _: "a", delay_s=1, sleep=wait), concurrency=2)
    calls = [asyncio.create_task(backbone.complete(ASK)) for _ in range(6)]
    await full.wait()
    gate.set()
    assert [reply.text for reply in await asyncio.gather(*calls)] == ["a"] * 6
    assert highest == 2


async def test_calls_per_period_are_bounded() -> None:
    inner = ScriptedBackbone(lambda _: "a")
    backbone = Throttled(inner, rpm=2, period_s=0.2)
    loop = asyncio.get_running_loop()
    start = loop.time()
    await asyncio.gather(*(backbone.complete(ASK) for _ in range(4)))
    assert loop.time() - start >= 0.2
    assert len(inner.calls) == 4


@pytest.mark.parametrize(("kind", "variable"), [("openai", "OPENAI_API_KEY"), ("anthropic", "ANTHROPIC_API_KEY")])
def test_no_key_is_said_before_any_call(kind: Any, variable: str) -> None:
    with pytest.raises(AuthFailed, match=variable):
        make_backbone(BackboneConfig(kind=kind, model="m"), {})
    with pytest.raises(AuthFailed, match="OTHER_KEY"):
        make_backbone(BackboneConfig(kind=kind, model="m", api_key_env="OTHER_KEY"), {variable: "k"})
    with pytest.raises(AuthFailed):
        make_backbone(BackboneConfig(kind=kind, model="m", base_url="http://10.0.0.1/v1"), {variable: "  "})
    with pytest.raises(AuthFailed, match=variable):
        make_backbone(BackboneConfig(kind=kind, model="m"), {variable: "ключ"})
    assert make_backbone(BackboneConfig(kind=kind, model="m"), {variable: "k"}).model == "m"


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/v1", "http://localhost:8000/v1", "http://[::1]:8000/v1"])
def test_a_server_on_this_machine_needs_no_key(url: str) -> None:
    assert make_backbone(BackboneConfig(kind="openai", model="m", base_url=url), {}).name == "openai"
    assert make_backbone(BackboneConfig(kind="openai", model="m"), {"OPENAI_BASE_URL": url}).name == "openai"


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "openai"},
        {"kind": "klingon", "model": "m"},
        {"kind": "openai", "model": "m", "colour": "red"},
        {"kind": "anthropic", "model": "m", "base_url": ["http://a", "http://b"]},
        {"kind": "openai", "model": "m", "base_url": []},
        {"kind": "openai", "model": "m", "window": 0},
    ],
)
def test_wrong_configurations_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        BackboneConfig.model_validate(wrong)


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_a_made_backbone_retries_a_broken_stream(kind: Any) -> None:
    script: list[Turn | Reply | str] = [Turn(Reply("half"), error="Overloaded", error_type="overloaded_error"), "whole"]
    with ModelServer(script) as server:
        url = f"{server.url}/v1" if kind == "openai" else server.url
        config = BackboneConfig(kind=kind, model="m", base_url=url, max_retries=0, rpm=1000, concurrency=4)
        backbone = make_backbone(config, {}, sleep=Naps())
        assert (await backbone.complete(ASK)).text == "whole"
        await backbone.aclose()


async def test_scripted_and_embedded_come_from_configuration() -> None:
    scripted = make_backbone(BackboneConfig(kind="scripted", replies=("a",)), {})
    assert (await scripted.complete(ASK)).text == "a"
    assert make_backbone(BackboneConfig(), {}).name == "embedded"

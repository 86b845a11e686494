"""A real llama.cpp server and real weights, through every wire format that it offers. SmolLM2 is for the wire only."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from agent.backbones.anthropic import AnthropicBackbone
from agent.backbones.base import Backbone
from agent.backbones.factory import BackboneConfig, make_backbone
from agent.backbones.llama_server import LlamaServer, ServerOptions, weights_file
from agent.backbones.openai import OpenAIBackbone
from agent.backbones.responses import ResponsesBackbone
from agent.dialects.base import Situation
from agent.dialects.legal import legal_schema, violation
from agent.errors import ContextTooLong
from memory.records import Message, Request, Sampling, ToolSpec
from runners.models.catalogue import CATALOGUE
from runners.models.pull import is_here, model_folder
from tests.acceptance.demo_llm import main as demo

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]
HOME = Path(__file__).parents[2] / ".cache"
GREEDY = Sampling(temperature=0.0)
ASK = Request(
    messages=(Message("system", "Be brief."), Message("user", "What is the capital of France?")),
    max_output_tokens=24,
    sampling=GREEDY,
)


def _weights(name: str) -> Path:
    """The weights that ``make test-nightly`` pulls beforehand: a test leaves this machine for nothing."""
    pytest.importorskip("xllamacpp")
    if not is_here(HOME, CATALOGUE[name]):
        pytest.skip(f"NO MODEL: longstride models pull {name}, with LONGSTRIDE_HOME={HOME}")
    return model_folder(HOME, name) / CATALOGUE[name].file.path


@pytest.fixture(scope="module")
def smollm() -> Path:
    return _weights("smollm2-135m")


@pytest.fixture(scope="module")
def server(smollm: Path) -> Iterator[LlamaServer]:
    running = LlamaServer(ServerOptions(smollm, 2048, threads=1))
    yield running
    running.close()


@pytest.fixture(params=["openai", "responses", "anthropic"])
async def peer(request: pytest.FixtureRequest, server: LlamaServer) -> AsyncIterator[Backbone]:
    made: Backbone
    if request.param == "anthropic":
        made = AnthropicBackbone(model="m", api_key=server.key, base_url=server.url, window=2048, max_retries=0)
    else:
        kind = OpenAIBackbone if request.param == "openai" else ResponsesBackbone
        made = kind(model="m", api_key=server.key, base_urls=[f"{server.url}/v1"], window=2048, max_retries=0)
    yield made
    await made.aclose()


async def test_text_and_usage(peer: Backbone) -> None:
    reply = await peer.complete(ASK)
    assert reply.text.strip()
    assert 0 < (reply.usage.output or 0) <= 24
    assert 10 < (reply.usage.input_total or 0) < 100
    again = await peer.complete(ASK)
    assert again.text == reply.text
    assert (again.usage.cache_read or 0) > 0


async def test_the_output_cap_is_recognised(peer: Backbone) -> None:
    long = Request(
        messages=(Message("user", "Count from 1 to 200, with commas."),), max_output_tokens=8, sampling=GREEDY
    )
    assert (await peer.complete(long)).stop_reason == "length"


async def test_a_context_too_long_is_recognised(peer: Backbone) -> None:
    with pytest.raises(ContextTooLong):
        await peer.complete(Request(messages=(Message("user", "word " * 6_000),), max_output_tokens=8))


async def test_the_legal_actions_bind(server: LlamaServer) -> None:
    """The grammar of a step holds even for a model that understands nothing of it."""
    tools = [ToolSpec(name, name, {"type": "object", "properties": {}}) for name in ("search", "visit")]
    listed = tuple(f"http://corpus.local/{name}" for name in "abc")
    situations = [
        Situation(1),
        Situation(2, task_step=2, listed=listed, last_tools=("search",)),
        Situation(3, task_step=3, listed=listed, last_tools=("visit",)),
    ]
    # the server closes a connection after some requests, just when the next one may be on its way
    backbone = OpenAIBackbone(model="m", api_key=server.key, base_urls=[f"{server.url}/v1"], max_retries=2)
    for situation in situations:
        for small in (False, True):
            schema = legal_schema(tools, situation, small=small)
            request = Request(messages=ASK.messages, schema=schema, max_output_tokens=300, sampling=GREEDY)
            reply = await backbone.complete(request)
            if reply.stop_reason != "length":  # a text that a model of this size never ends
                assert violation(json.loads(reply.text), schema) == ""
    await backbone.aclose()


async def test_the_local_backbone_shares_one_server_and_ends_it(smollm: Path) -> None:
    config = BackboneConfig(kind="local", model=str(smollm), window=1024, max_output_tokens=16, threads=1)
    one, two = make_backbone(config, {}), make_backbone(config, {})
    first, second = await asyncio.gather(one.complete(ASK), two.complete(ASK))
    assert first.text and second.text
    from agent.backbones import llama_server

    (running,) = llama_server._running.values()
    assert running[1] == 2
    await one.aclose()
    assert (await two.complete(ASK)).text
    await two.aclose()
    assert not llama_server._running
    await two.aclose()


def test_nobody_else_may_use_the_server(server: LlamaServer) -> None:
    import httpx

    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
    answer = httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=10, trust_env=False)
    assert answer.status_code == 401


async def test_ten_questions_read_by_a_small_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """At least six right in the model's own words: what ``make demo-llm`` shows."""
    _weights("qwen2.5-coder-0.5b")
    monkeypatch.setenv("LONGSTRIDE_HOME", str(HOME))
    assert weights_file("qwen2.5-coder-0.5b", str(HOME)).is_file()
    assert await demo("embedded-reader", 10) >= 0.6

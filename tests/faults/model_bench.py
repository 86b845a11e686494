"""A session over a real SDK and the scripted server, with every wait of ours taken at once and written down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.backbones.base import Backbone
from agent.backbones.factory import BackboneConfig, make_backbone
from agent.session import Outcome
from memory.records import JsonValue, Step, ToolCall
from runners.devserver.model_server import ModelServer, ScriptedTurn, WireRequest
from tests.agent.bench import Bench, FakeTool, Setup, bench

WIRES = ("openai", "responses", "anthropic")
Script = Sequence[ScriptedTurn] | Callable[[WireRequest], ScriptedTurn]


@dataclass
class Naps:
    """A sleep that only remembers."""

    taken: list[float] = field(default_factory=list)

    async def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)
        await asyncio.sleep(0)


def backbone_at(url: str, wire: str, naps: Naps | None = None, **options: Any) -> Backbone:
    """The backbone as the configuration makes it, pointed at a server."""
    chosen: dict[str, Any] = {"max_retries": 0, "timeout_s": 5.0, "model": "m", **options}
    if wire == "anthropic":
        config = BackboneConfig(kind="anthropic", base_url=url, **chosen)
    else:
        api: Any = "responses" if wire == "responses" else "chat"
        config = BackboneConfig(kind="openai", api=api, base_url=f"{url}/v1", **chosen)
    return make_backbone(config, {}, sleep=naps or asyncio.sleep)


@dataclass
class Run:
    """How a question went."""

    outcome: Outcome
    steps: list[Step]
    requests: list[WireRequest]
    naps: list[float]
    bench: Bench

    @property
    def notes(self) -> str:
        """All that the loop and the tools said to the model."""
        return "\n".join(item.text for step in self.steps for item in step.observations)


@asynccontextmanager
async def served(
    path: Path, script: Script, wire: str, tools: Sequence[FakeTool] = (), setup: Setup | None = None, **options: Any
) -> AsyncIterator[tuple[Bench, ModelServer, Naps]]:
    """An open session whose model is the server."""
    naps = Naps()
    with ModelServer(script, allow_unused=callable(script)) as server:
        backbone = backbone_at(server.url, wire, naps, **options)
        async with bench(path, backbone, tools, setup) as b:
            yield b, server, naps


async def asked(
    path: Path, script: Script, wire: str, tools: Sequence[FakeTool] = (), setup: Setup | None = None, **options: Any
) -> Run:
    """One question to its end."""
    async with served(path, script, wire, tools, setup, **options) as (b, server, naps):
        outcome = await b.session.ask("q?")
        steps = await b.steps()
    return Run(outcome, steps, server.requests, naps.taken, b)


def searching(q: str = "a", call_id: str = "") -> ToolCall:
    return ToolCall(call_id, "search", {"q": q})


def texts(value: JsonValue) -> list[str]:
    """Every text of a request body; arguments of calls, which travel as JSON, are left out."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        if value.get("type") in ("tool_use", "function_call"):
            return []
        return [text for item in value.values() for text in texts(item)]
    return [text for item in value for text in texts(item)] if isinstance(value, list) else []

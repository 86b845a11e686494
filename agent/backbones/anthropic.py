"""Anthropic Messages through the official SDK.

The SDK is imported at the first call, off the event loop (it takes seconds), and makes its own HTTP client. With
thinking on, the blocks of the newest tool calls go back unchanged (`agent.backbones.replay`); when they are not known
(after a restart, or when the calls had to be repaired), that one request goes out without thinking, as the API wants.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, cast

from agent.backbones.errors import sdk_fault, stream_fault
from agent.backbones.messages_format import SCHEMA_TOOL, MessagesAssembly, messages_tool, split_messages
from agent.backbones.replay import Items, Replay, last_calls
from agent.backbones.schema import rooted, unwrapped
from agent.backbones.sdk import tamed
from agent.errors import BadRequest, BrokenStream
from memory.records import Reply, Request, Sampling

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic, AsyncStream
    from anthropic.types import RawMessageStreamEvent

DEFAULT_BASE_URL = "https://api.anthropic.com"
CONNECT_S = 15.0
_SAMPLING = re.compile(r"\btemperature\b|\btop_p\b")


@dataclass(frozen=True, slots=True)
class Thinking:
    """Extended thinking. ``tokens``: the most that one reply may think, on top of its output; ``effort`` goes with
    adaptive thinking (None: the provider's own)."""

    kind: Literal["fixed", "adaptive"]
    tokens: int
    effort: str | None = None


class AnthropicBackbone:
    """One Claude model, or a server that speaks its format.

    ``max_retries`` and ``timeout_s`` (seconds between bytes) are the SDK's own. ``sampling`` fills what a request
    leaves open; there is no presence penalty here, and of temperature and top_p only the first that is set is sent
    (neither while it thinks). ``thinking`` takes its tokens twice from ``window``: thought now, and sent back.
    """

    def __init__(
        self,
        *,
        model: str,
        api_key: str,
        base_url: str = DEFAULT_BASE_URL,
        key_env: str = "ANTHROPIC_API_KEY",
        window: int = 200_000,
        max_output_tokens: int | None = None,
        sampling: Sampling | None = None,
        timeout_s: float = 600.0,
        max_retries: int = 2,
        supports_tools: bool = True,
        supports_schema: bool = True,
        supports_images: bool = False,
        thinking: Thinking | None = None,
    ) -> None:
        self.name = "anthropic"
        self.model = model
        self.window = window - (2 * thinking.tokens if thinking else 0)
        self.supports_tools = supports_tools
        self.supports_schema = supports_schema
        self.supports_images = supports_images
        self._thinking = thinking
        self._replay = Replay()
        self._api_key = api_key
        self._base_url = base_url
        self._key_env = key_env
        self._max_output_tokens = max_output_tokens
        self._sampling = sampling or Sampling()
        self._timeout_s = timeout_s
        self._max_retries = max_retries
        self._client: AsyncAnthropic | None = None
        self._no_sampling = False

    async def complete(self, request: Request) -> Reply:
        """Raises what ``agent.backbones.errors`` maps to, and BrokenStream."""
        client = await self._connected()
        parameters = self._parameters(request)
        try:
            return await self._once(client, request, parameters)
        except BadRequest as fault:
            if "extra_body" not in parameters or not _SAMPLING.search(str(fault)):
                raise
            self._no_sampling = True  # newer models take no sampling parameters
        return await self._once(client, request, self._parameters(request))

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _once(self, client: AsyncAnthropic, request: Request, parameters: dict[str, Any]) -> Reply:
        import anthropic
        import httpx2

        where = f"{self.model} at {self._base_url}"
        try:
            stream = cast("AsyncStream[RawMessageStreamEvent]", await client.messages.create(**parameters))
        except anthropic.APIError as error:
            raise sdk_fault(error, key_env=self._key_env, where=where, key=self._api_key) from error
        assembly = MessagesAssembly(schema=self._binds(request))
        try:
            async with stream:
                async for event in stream:
                    assembly.add(event)
        except (anthropic.APIError, httpx2.HTTPError, ValueError) as error:  # ValueError: not JSON, or not UTF-8
            fault = stream_fault(error, key_env=self._key_env, where=where, key=self._api_key)
            fault.usage = assembly.usage()
            raise fault from error
        try:
            reply = assembly.reply(parameters["max_tokens"])
        except BrokenStream as broken:
            broken.usage = assembly.usage()
            raise
        self._replay.keep(reply.tool_calls, assembly.thinking())
        return replace(reply, text=unwrapped(reply.text, request.schema if self._binds(request) else None))

    async def _connected(self) -> AsyncAnthropic:
        if self._client is None:
            anthropic = await asyncio.to_thread(_import_sdk)
            if self._client is None:  # another call may have made it meanwhile
                self._client = tamed(anthropic.AsyncAnthropic)(
                    api_key=self._api_key,
                    base_url=self._base_url,
                    max_retries=self._max_retries,
                    timeout=anthropic.Timeout(self._timeout_s, connect=min(CONNECT_S, self._timeout_s)),
                )
        return self._client

    def _parameters(self, request: Request) -> dict[str, Any]:
        """Keyword arguments of the SDK's ``create``."""
        thinking, blocks = self._thinks(request)
        images = request.images if self.supports_images else ()
        system, messages = split_messages(request.messages, images, blocks)
        parameters: dict[str, Any] = {
            "model": self.model,
            "max_tokens": self._cap(request),
            "messages": messages,
            "stream": True,
        }
        if system:
            parameters["system"] = system
        if thinking is not None:
            parameters |= _thinking_parameters(thinking)
            parameters["max_tokens"] += thinking.tokens
        if request.schema is not None and self.supports_schema:
            schema = rooted(request.schema)
            described = "Give the reply as this tool's input."
            parameters["tools"] = [{"name": SCHEMA_TOOL, "description": described, "input_schema": schema}]
            parameters["tool_choice"] = {"type": "tool", "name": SCHEMA_TOOL}
        elif request.tools:
            parameters["tools"] = [messages_tool(tool) for tool in request.tools]
        if request.stop:
            parameters["stop_sequences"] = list(request.stop)
        sampling = self._asked_sampling(request)
        if sampling and thinking is None and not self._no_sampling:
            parameters["extra_body"] = sampling  # the SDK has no arguments for them any more; older models have
        return parameters

    def _asked_sampling(self, request: Request) -> dict[str, float]:
        asked, own = request.sampling, self._sampling
        temperature = asked.temperature if asked.temperature is not None else own.temperature
        top_p = asked.top_p if asked.top_p is not None else own.top_p
        if temperature is not None:
            return {"temperature": min(1.0, temperature)}
        return {} if top_p is None else {"top_p": top_p}

    def _thinks(self, request: Request) -> tuple[Thinking | None, Items]:
        """Whether this request may think, and the blocks that must go back with it."""
        if self._thinking is None or self._binds(request):  # a forced tool and thinking exclude each other
            return None, ()
        blocks = self._replay.of(request.messages)
        return (self._thinking, blocks) if blocks or not last_calls(request.messages) else (None, ())

    def _binds(self, request: Request) -> bool:
        return request.schema is not None and self.supports_schema

    def _cap(self, request: Request) -> int:
        own = self._max_output_tokens
        return request.max_output_tokens if own is None else min(own, request.max_output_tokens)


def _thinking_parameters(thinking: Thinking) -> dict[str, Any]:
    if thinking.kind == "fixed":
        return {"thinking": {"type": "enabled", "budget_tokens": thinking.tokens}}
    effort = {"output_config": {"effort": thinking.effort}} if thinking.effort else {}
    return {"thinking": {"type": "adaptive"}, **effort}


def _import_sdk() -> Any:
    import anthropic

    return anthropic

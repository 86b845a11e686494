"""Anthropic Messages through the official SDK.

The SDK is imported at the first call, off the event loop (it takes seconds), and makes its own HTTP client. Extended
thinking is not switched on: its blocks would have to be sent back unchanged, which a rebuilt context cannot do.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, cast

from agent.backbones.errors import sdk_fault, stream_fault
from agent.backbones.messages_format import SCHEMA_TOOL, MessagesAssembly, messages_tool, split_messages
from agent.errors import BadRequest
from memory.records import Reply, Request, Sampling

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic, AsyncStream
    from anthropic.types import RawMessageStreamEvent

DEFAULT_BASE_URL = "https://api.anthropic.com"
CONNECT_S = 15.0
_SAMPLING = re.compile(r"\btemperature\b|\btop_p\b")


class AnthropicBackbone:
    """One Claude model, or a server that speaks its format.

    ``max_retries`` and ``timeout_s`` (seconds between bytes) are the SDK's own. ``sampling`` fills what a request
    leaves open; there is no presence penalty here, and of temperature and top_p only the first that is set is sent.
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
    ) -> None:
        self.name = "anthropic"
        self.model = model
        self.window = window
        self.supports_tools = supports_tools
        self.supports_schema = supports_schema
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
            raise sdk_fault(error, key_env=self._key_env, where=where) from error
        assembly = MessagesAssembly(schema=self._binds(request))
        try:
            async with stream:
                async for event in stream:
                    assembly.add(event)
        except (anthropic.APIError, httpx2.HTTPError, ValueError) as error:  # ValueError: not JSON, or not UTF-8
            raise stream_fault(error, key_env=self._key_env, where=where) from error
        return assembly.reply(self._cap(request))

    async def _connected(self) -> AsyncAnthropic:
        if self._client is None:
            anthropic = await asyncio.to_thread(_import_sdk)
            if self._client is None:  # another call may have made it meanwhile
                self._client = anthropic.AsyncAnthropic(
                    api_key=self._api_key,
                    base_url=self._base_url,
                    max_retries=self._max_retries,
                    timeout=anthropic.Timeout(self._timeout_s, connect=min(CONNECT_S, self._timeout_s)),
                )
        return self._client

    def _parameters(self, request: Request) -> dict[str, Any]:
        """Keyword arguments of the SDK's ``create``."""
        system, messages = split_messages(request.messages)
        parameters: dict[str, Any] = {
            "model": self.model,
            "max_tokens": self._cap(request),
            "messages": messages,
            "stream": True,
        }
        if system:
            parameters["system"] = system
        if self._binds(request):
            described = "Give the reply as this tool's input."
            parameters["tools"] = [{"name": SCHEMA_TOOL, "description": described, "input_schema": request.schema}]
            parameters["tool_choice"] = {"type": "tool", "name": SCHEMA_TOOL}
        elif request.tools:
            parameters["tools"] = [messages_tool(tool) for tool in request.tools]
        if request.stop:
            parameters["stop_sequences"] = list(request.stop)
        sampling = self._asked_sampling(request)
        if sampling and not self._no_sampling:
            parameters["extra_body"] = sampling  # the SDK has no arguments for them any more; older models have
        return parameters

    def _asked_sampling(self, request: Request) -> dict[str, float]:
        asked, own = request.sampling, self._sampling
        temperature = asked.temperature if asked.temperature is not None else own.temperature
        top_p = asked.top_p if asked.top_p is not None else own.top_p
        if temperature is not None:
            return {"temperature": min(1.0, temperature)}
        return {} if top_p is None else {"top_p": top_p}

    def _binds(self, request: Request) -> bool:
        return request.schema is not None and self.supports_schema

    def _cap(self, request: Request) -> int:
        own = self._max_output_tokens
        return request.max_output_tokens if own is None else min(own, request.max_output_tokens)


def _import_sdk() -> Any:
    import anthropic

    return anthropic

"""Chat Completions through the official SDK: OpenAI, and every server that speaks its format.

The SDK is imported at the first call, off the event loop (it takes seconds), and makes its own HTTP client.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from agent.backbones.chat_format import ChatAssembly, chat_messages, chat_schema, chat_tool
from agent.backbones.errors import sdk_fault, stream_fault
from agent.backbones.schema import unwrapped
from agent.backbones.sdk import tamed
from agent.errors import BadRequest, BrokenStream
from memory.records import Reply, Request, Sampling

if TYPE_CHECKING:
    from openai import AsyncOpenAI, AsyncStream

    from agent.backbones.responses_format import ResponsesAssembly

DEFAULT_BASE_URL = "https://api.openai.com/v1"
CONNECT_S = 15.0

# Parts of a request that some servers refuse; each is left out (a cap: renamed) from its first refusal on.
_OPTIONAL = (
    "stream_options",
    "temperature",
    "top_p",
    "presence_penalty",
    "reasoning_effort",
    "reasoning.encrypted_content",
    "prompt_cache_key",
    "max_tokens",
    "max_completion_tokens",
)
_UNSUPPORTED = re.compile(
    r"unsupported|not support|unrecogni[sz]ed|unknown|unexpected|not permitted|not allowed|extra", re.IGNORECASE
)


class OpenAIBackbone:
    """One model behind one or several equal servers. ``base_urls``: a task stays on one of them (`Request.task_key`).

    ``max_retries`` and ``timeout_s`` (seconds between bytes) are the SDK's own. ``sampling`` fills what a request
    leaves open. ``effort`` is the reasoning effort, as the provider names it.
    """

    def __init__(
        self,
        *,
        model: str,
        api_key: str,
        base_urls: Sequence[str] = (DEFAULT_BASE_URL,),
        key_env: str = "OPENAI_API_KEY",
        window: int = 131_072,
        max_output_tokens: int | None = None,
        sampling: Sampling | None = None,
        timeout_s: float = 600.0,
        max_retries: int = 2,
        supports_tools: bool = True,
        supports_schema: bool = True,
        supports_images: bool = False,
        effort: str | None = None,
    ) -> None:
        if not base_urls:
            raise ValueError("base_urls is empty")
        self.name = "openai"
        self.model = model
        self.window = window
        self.supports_tools = supports_tools
        self.supports_schema = supports_schema
        self.supports_images = supports_images
        self._effort = effort
        self._api_key = api_key
        self._key_env = key_env
        self._base_urls = tuple(base_urls)
        self._max_output_tokens = max_output_tokens
        self._sampling = sampling or Sampling()
        self._timeout_s = timeout_s
        self._max_retries = max_retries
        self._clients: dict[str, AsyncOpenAI] = {}
        self._refused: set[str] = set()

    async def complete(self, request: Request) -> Reply:
        """Raises what ``agent.backbones.errors`` maps to, and BrokenStream."""
        base_url = self._base_urls[zlib.crc32(request.task_key.encode()) % len(self._base_urls)]
        client = await self._client(base_url)
        for _ in _OPTIONAL:  # each can be refused once
            parameters = self._parameters(request, base_url)
            try:
                return await self._once(client, base_url, parameters, request)
            except BadRequest as fault:
                option = _refused_option(parameters, str(fault))
                if option is None:
                    raise
                self._refused.add(option)
        return await self._once(client, base_url, self._parameters(request, base_url), request)

    async def aclose(self) -> None:
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.close()

    async def _once(self, client: AsyncOpenAI, base_url: str, parameters: dict[str, Any], request: Request) -> Reply:
        import httpx2
        import openai

        where = f"{self.model} at {base_url}"
        try:
            stream = await self._stream(client, parameters)
        except openai.APIError as error:
            raise sdk_fault(error, key_env=self._key_env, where=where, key=self._api_key) from error
        assembly = self._assembly()
        try:
            async with stream:
                async for chunk in stream:
                    assembly.add(chunk)
        except (openai.APIError, httpx2.HTTPError, ValueError) as error:  # ValueError: bytes that are not JSON or UTF-8
            fault = stream_fault(error, key_env=self._key_env, where=where, key=self._api_key)
            fault.usage = assembly.usage()
            raise fault from error
        try:
            reply = assembly.reply(self._cap(request))
        except BrokenStream as fault:
            fault.usage = assembly.usage()
            raise
        self._replied(assembly, reply)
        return replace(reply, text=unwrapped(reply.text, request.schema if self.supports_schema else None))

    def _assembly(self) -> ChatAssembly | ResponsesAssembly:
        return ChatAssembly()

    async def _stream(self, client: AsyncOpenAI, parameters: dict[str, Any]) -> AsyncStream[Any]:
        return cast("AsyncStream[Any]", await client.chat.completions.create(**parameters))

    def _replied(self, assembly: ChatAssembly | ResponsesAssembly, reply: Reply) -> None:
        """A whole reply is here."""

    async def _client(self, base_url: str) -> AsyncOpenAI:
        if base_url not in self._clients:
            openai = await asyncio.to_thread(_import_sdk)
            if base_url not in self._clients:  # another call may have made it meanwhile
                self._clients[base_url] = tamed(openai.AsyncOpenAI)(
                    api_key=self._api_key,
                    base_url=base_url,
                    max_retries=self._max_retries,
                    timeout=openai.Timeout(self._timeout_s, connect=min(CONNECT_S, self._timeout_s)),
                )
        return self._clients[base_url]

    def _parameters(self, request: Request, base_url: str) -> dict[str, Any]:
        """Keyword arguments of the SDK's ``create``."""
        parameters: dict[str, Any] = {
            "model": self.model,
            "messages": chat_messages(request.messages, request.images if self.supports_images else ()),
            "stream": True,
            self._cap_field(base_url): self._cap(request),
        }
        if "stream_options" not in self._refused:
            parameters["stream_options"] = {"include_usage": True}
        if request.tools:
            parameters["tools"] = [chat_tool(tool) for tool in request.tools]
        if request.schema is not None and self.supports_schema:
            parameters["response_format"] = chat_schema(request.schema)
        if request.stop:
            parameters["stop"] = list(request.stop)
        if self._effort and "reasoning_effort" not in self._refused:
            parameters["reasoning_effort"] = self._effort
        for name in ("temperature", "top_p", "presence_penalty"):
            value = self._sampled(request, name)
            if value is not None and name not in self._refused:
                parameters[name] = value
        return parameters

    def _sampled(self, request: Request, name: str) -> float | None:
        asked = getattr(request.sampling, name)
        value: float | None = asked if asked is not None else getattr(self._sampling, name)
        return value

    def _cap(self, request: Request) -> int:
        own = self._max_output_tokens
        return request.max_output_tokens if own is None else min(own, request.max_output_tokens)

    def _cap_field(self, base_url: str) -> str:
        """OpenAI's own newer models want another name than every other server."""
        names = ("max_tokens", "max_completion_tokens")
        first = 1 if base_url.startswith("https://api.openai.com") else 0
        return names[1 - first] if names[first] in self._refused else names[first]


def _refused_option(parameters: dict[str, Any], message: str) -> str | None:
    """The part of a request that a refusal names as unsupported."""
    if not _UNSUPPORTED.search(message):
        return None
    said = message.replace("include_usage", "stream_options")
    present = {*parameters, *parameters.get("include", ())}
    return next((name for name in _OPTIONAL if name in present and re.search(rf"\b{re.escape(name)}\b", said)), None)


def _import_sdk() -> Any:
    import openai

    return openai

"""A model file on this machine, run in this process: no key, no network, no server to start."""

from __future__ import annotations

import asyncio

from agent.backbones.llama_server import LlamaServer, ServerOptions, acquire, release
from agent.backbones.openai import OpenAIBackbone
from memory.records import Reply, Request, Sampling


class LocalBackbone:
    """`agent.backbones.base.Backbone` over llama.cpp, started at the first call and stopped by ``aclose``.

    Backbones of one process with the same options share one server; its calls wait for one another.
    """

    supports_tools = False
    supports_schema = True
    supports_images = False

    def __init__(
        self, options: ServerOptions, *, model: str, max_output_tokens: int, sampling: Sampling, timeout_s: float
    ) -> None:
        self.name = "local"
        self.model = model
        self.window = options.window
        self._options = options
        self._max_output_tokens = max_output_tokens
        self._sampling = sampling
        self._timeout_s = timeout_s
        self._lock = asyncio.Lock()
        self._server: LlamaServer | None = None
        self._client: OpenAIBackbone | None = None

    async def complete(self, request: Request) -> Reply:
        """Raises ModelMissing when the model cannot be run here, else as the openai backbone."""
        return await (await self._connected()).complete(request)

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()
        server, self._server = self._server, None
        if server is not None:
            await asyncio.to_thread(release, self._options)

    async def _connected(self) -> OpenAIBackbone:
        async with self._lock:
            if self._client is None:
                self._server = await self._acquired()
                self._client = OpenAIBackbone(
                    model=self.model,
                    api_key=self._server.key,
                    base_urls=[f"{self._server.url}/v1"],
                    window=self.window,
                    max_output_tokens=self._max_output_tokens,
                    sampling=self._sampling,
                    timeout_s=self._timeout_s,
                    max_retries=0,
                )
            return self._client

    async def _acquired(self) -> LlamaServer:
        """A server that came although nobody waited for it any more is given back at once."""
        starting = asyncio.ensure_future(asyncio.to_thread(acquire, self._options))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(lambda done: None if done.exception() else release(self._options))
            raise

"""Limits of a backbone: calls under way at once, and calls begun per minute."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from agent.backbones.base import Backbone
from memory.records import Reply, Request


class Throttled:
    """A backbone that lets calls wait for their turn. ``None`` sets no limit.

    Outermost wrapper: time spent waiting here does not count against a call's deadline.
    """

    def __init__(
        self, backbone: Backbone, *, rpm: int | None = None, concurrency: int | None = None, period_s: float = 60.0
    ) -> None:
        from asyncio_throttle.throttler import Throttler

        self._backbone = backbone
        self._slots = asyncio.Semaphore(concurrency) if concurrency else None
        self._throttle = Throttler(rate_limit=rpm, period=period_s) if rpm else None
        self.name = backbone.name
        self.model = backbone.model
        self.window = backbone.window
        self.supports_tools = backbone.supports_tools
        self.supports_schema = backbone.supports_schema

    async def complete(self, request: Request) -> Reply:
        async with AsyncExitStack() as stack:
            if self._slots is not None:
                await stack.enter_async_context(self._slots)
            if self._throttle is not None:
                await stack.enter_async_context(self._throttle)
            return await self._backbone.complete(request)

    async def aclose(self) -> None:
        await self._backbone.aclose()

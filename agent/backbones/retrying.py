"""Retries of what no SDK retries: a reply whose stream broke. Everything else passes through at once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from agent.backbones.base import Backbone
from agent.errors import BrokenStream, Unavailable
from memory.records import Reply, Request

BACKOFF_S = (1.0, 30.0)
"""First and longest wait before another try, seconds; doubled each time, with jitter."""


class Retrying:
    """A backbone that asks again when a stream broke. ``deadline_s`` bounds one call with all its tries."""

    def __init__(
        self,
        backbone: Backbone,
        *,
        attempts: int = 3,
        deadline_s: float = 900.0,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._backbone = backbone
        self._attempts = max(1, attempts)
        self._deadline_s = deadline_s
        self._sleep = sleep
        self.name = backbone.name
        self.model = backbone.model
        self.window = backbone.window
        self.supports_tools = backbone.supports_tools
        self.supports_schema = backbone.supports_schema

    async def complete(self, request: Request) -> Reply:
        """Raises Unavailable past the deadline, or the last BrokenStream."""
        try:
            async with asyncio.timeout(self._deadline_s) as scope:
                return await self._tries(request)
        except TimeoutError as error:
            if not scope.expired():
                raise
            raise Unavailable(f"{self.name} {self.model}: no whole reply within {self._deadline_s:g} s") from error

    async def aclose(self) -> None:
        await self._backbone.aclose()

    async def _tries(self, request: Request) -> Reply:
        first, longest = BACKOFF_S
        for attempt in range(1, self._attempts):
            try:
                return await self._backbone.complete(request)
            except BrokenStream:
                wait = min(longest, first * 2 ** (attempt - 1))
                await self._sleep(wait * random.uniform(0.75, 1.0))
        return await self._backbone.complete(request)

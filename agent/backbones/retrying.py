"""Retries of what no SDK retries: a reply whose stream broke. Everything else passes through at once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace

from agent.backbones.base import Backbone, Wrapper
from agent.errors import BackboneFault, BrokenStream, Unavailable
from memory.records import Reply, Request, Usage, add_usage

BACKOFF_S = (1.0, 30.0)
"""First and longest wait before another try, seconds; doubled each time, with jitter."""


class Retrying(Wrapper):
    """A backbone that asks again when a stream broke. ``deadline_s`` bounds one call with all its tries.

    What is known to be paid for broken replies is in the usage of the whole one, or of the fault.
    """

    def __init__(
        self,
        backbone: Backbone,
        *,
        attempts: int = 3,
        deadline_s: float = 900.0,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        super().__init__(backbone)
        self._attempts = max(1, attempts)
        self._deadline_s = deadline_s
        self._sleep = sleep

    async def complete(self, request: Request) -> Reply:
        """Raises Unavailable past the deadline, or the last BrokenStream."""
        lost = [Usage()]
        try:
            async with asyncio.timeout(self._deadline_s) as scope:
                return await self._tries(request, lost)
        except TimeoutError as error:
            if not scope.expired():
                raise
            fault = Unavailable(f"{self.name} {self.model}: no whole reply within {self._deadline_s:g} s")
            fault.usage = lost[0]
            raise fault from error
        except BackboneFault as fault:
            fault.usage = lost[0]
            raise

    async def _tries(self, request: Request, lost: list[Usage]) -> Reply:
        first, longest = BACKOFF_S
        for attempt in range(1, self._attempts + 1):
            try:
                reply = await self._backbone.complete(request)
            except BrokenStream as fault:
                lost[0] = add_usage(lost[0], fault.usage)
                if attempt == self._attempts:
                    raise
                wait = min(longest, first * 2 ** (attempt - 1))
                await self._sleep(wait * random.uniform(0.75, 1.0))
            else:
                return reply if lost[0] == Usage() else replace(reply, usage=add_usage(reply.usage, lost[0]))
        raise AssertionError("unreachable")

"""Limits of a backbone: calls under way at once, calls and tokens per minute; slower after a 429."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from agent.backbones.base import Backbone, Wrapper
from agent.backbones.errors import RETRY_AFTER_S
from agent.errors import RateLimited
from memory.records import Reply, Request
from memory.tokens import ScriptCounter, request_tokens

BACKOFF_S = (2.0, 60.0)
"""First and longest wait after a 429 that names no time, seconds; doubled each time, with jitter."""
GROWTH = 1.0
"""Slots that come back for a full round of calls without a 429."""
Sleep = Callable[[float], Awaitable[object]]


class Throttled(Wrapper):
    """A backbone that lets calls wait for their turn. ``None`` sets no limit.

    A 429 halves the number of calls under way at once and holds every call back until the time that the server named;
    calls that succeed win the slots back one by one. The refused call is repeated, for at most ``patience_s`` of
    waiting. Outermost wrapper: time spent waiting here does not count against a call's deadline.
    """

    def __init__(
        self,
        backbone: Backbone,
        *,
        rpm: int | None = None,
        tpm: int | None = None,
        concurrency: int | None = None,
        patience_s: float = 600.0,
        period_s: float = 60.0,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        from asyncio_throttle.throttler import Throttler

        super().__init__(backbone)
        self._slots = Slots(concurrency)
        self._tokens = TokenRate(tpm, period_s, sleep) if tpm else None
        self._throttle = Throttler(rate_limit=rpm, period=period_s) if rpm else None
        self._patience_s = patience_s
        self._sleep = sleep
        self._open_at = 0.0

    async def complete(self, request: Request) -> Reply:
        """Raises RateLimited when the server still refuses after ``patience_s`` of waiting."""
        waited, tries = 0.0, 0
        while True:
            try:
                async with self._turn(request) as spent:
                    reply = await self._backbone.complete(request)
                    spent(reply)
                    return reply
            except RateLimited as fault:
                wait = _wait(fault, tries)
                tries += 1
                if waited + wait > self._patience_s:
                    raise
                waited += wait
                self._open_at = max(self._open_at, asyncio.get_running_loop().time() + wait)
                await self._sleep(wait)

    @asynccontextmanager
    async def _turn(self, request: Request) -> AsyncIterator[Callable[[Reply], None]]:
        """One call's turn; what it yields is told of the reply."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._slots.one())
            behind = self._open_at - asyncio.get_running_loop().time()
            if behind > 0:
                await self._sleep(behind)
            if self._throttle is not None:
                await stack.enter_async_context(self._throttle)
            taken = await self._tokens.take(request) if self._tokens is not None else None

            def spent(reply: Reply) -> None:
                if taken is not None and reply.usage.input_total is not None:
                    taken[1] = reply.usage.input_total + (reply.usage.output or 0)

            yield spent


class Slots:
    """How many calls may be under way. The number falls to half on a 429, and grows again with what succeeds."""

    def __init__(self, most: int | None) -> None:
        self.most = most
        self.allowed: float | None = most
        self.busy = 0
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        async with self._changed:
            await self._changed.wait_for(lambda: self.allowed is None or self.busy < int(self.allowed))
            self.busy += 1
        try:
            yield
        except RateLimited:
            self.allowed = max(1.0, min(self.busy, self.allowed or self.busy) / 2)
            raise
        else:
            self._grow()
        finally:
            self.busy -= 1
            async with self._changed:
                self._changed.notify_all()

    def _grow(self) -> None:
        if self.allowed is None:
            return
        self.allowed += GROWTH / self.allowed
        if self.most is not None:
            self.allowed = min(self.allowed, self.most)


class TokenRate:
    """Tokens begun in the last ``period_s`` seconds: input as counted by us and the output asked for, until the reply
    says better. A request larger than the whole rate goes alone."""

    def __init__(self, rate: int, period_s: float, sleep: Sleep = asyncio.sleep) -> None:
        self._rate = rate
        self._period_s = period_s
        self._sleep = sleep
        self._counter = ScriptCounter()
        self._lock = asyncio.Lock()
        self._begun: deque[list[float]] = deque()

    async def take(self, request: Request) -> list[float]:
        """Wait for room; returns the entry [time, tokens], whose tokens may be corrected."""
        size = request_tokens(request.messages, "", self._counter) + request.max_output_tokens
        loop = asyncio.get_running_loop()
        async with self._lock:
            while True:
                while self._begun and self._begun[0][0] <= loop.time() - self._period_s:
                    self._begun.popleft()
                if not self._begun or sum(tokens for _, tokens in self._begun) + size <= self._rate:
                    break
                await self._sleep(max(0.01, self._begun[0][0] + self._period_s - loop.time()))
            self._begun.append([loop.time(), float(size)])
            return self._begun[-1]


def _wait(fault: RateLimited, tries: int) -> float:
    if fault.retry_after is not None:
        return min(RETRY_AFTER_S[1], max(RETRY_AFTER_S[0], fault.retry_after))
    first, longest = BACKOFF_S
    return min(longest, first * 2.0**tries) * random.uniform(0.75, 1.0)

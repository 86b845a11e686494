"""The strict fake: says what it was told, in order, and fails when it is asked for more or left with less."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from agent.errors import ScriptExhausted, ScriptUnused
from memory.records import Reply, Request

Outcome: TypeAlias = Reply | str | Exception
"""A reply, the text of one, or an error to raise."""
Scripted: TypeAlias = Outcome | Callable[[Request], Outcome]


class ScriptedBackbone:
    """Replies from a list (each used once, in order) or from a callable (asked every time, never exhausted).

    A list item may itself be a callable from the request to its outcome. ``calls`` holds deep copies of all requests.
    ``delay_s`` is awaited through ``sleep`` before each outcome.
    """

    def __init__(
        self,
        script: Sequence[Scripted] | Callable[[Request], Outcome],
        *,
        model: str = "scripted",
        window: int = 131_072,
        supports_tools: bool = True,
        supports_schema: bool = True,
        supports_images: bool = False,
        delay_s: float = 0.0,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        allow_unused: bool = False,
    ) -> None:
        self.name = "scripted"
        self.model = model
        self.window = window
        self.supports_tools = supports_tools
        self.supports_schema = supports_schema
        self.supports_images = supports_images
        self.calls: list[Request] = []
        self.closed = False
        self._script: Callable[[Request], Outcome] | tuple[Scripted, ...] = (
            script if callable(script) else tuple(script)
        )
        self._delay_s = delay_s
        self._sleep = sleep
        self._allow_unused = allow_unused

    async def complete(self, request: Request) -> Reply:
        """The next outcome. Raises ScriptExhausted past the end of the script, or the scripted error."""
        turn = len(self.calls)
        self.calls.append(copy.deepcopy(request))
        outcome = self._outcome(turn, request)
        if self._delay_s > 0:
            await self._sleep(self._delay_s)
        if isinstance(outcome, Exception):
            raise outcome
        return Reply(text=outcome) if isinstance(outcome, str) else outcome

    async def aclose(self) -> None:
        """Raises ScriptUnused when steps are left, unless that was allowed."""
        self.closed = True
        if callable(self._script) or self._allow_unused:
            return
        left = len(self._script) - len(self.calls)
        if left > 0:
            raise ScriptUnused(f"{left} of {len(self._script)} scripted replies were never asked for")

    def _outcome(self, turn: int, request: Request) -> Outcome:
        if callable(self._script):
            return self._script(request)
        if turn >= len(self._script):
            raise ScriptExhausted(f"call {turn + 1} of a script of {len(self._script)} replies")
        item = self._script[turn]
        return item(request) if callable(item) else item

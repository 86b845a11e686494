"""Strict fakes: a completion and a summariser that do what they were told, and fail when asked for more."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

from memory.errors import SummaryRejected
from memory.records import Level, Reply, Request, View
from memory.summaries.base import SummaryJob


class ScriptedCompletion:
    """Replies from a list, in order; an exception in it is raised. Fails on an extra call, and on closing unused."""

    def __init__(self, script: Iterable[Reply | str | Exception], name: str = "scripted") -> None:
        self.name = name
        self.requests: list[Request] = []
        self.closed = False
        self._script = deque(script)

    async def complete(self, request: Request) -> Reply:
        """The next outcome. Raises AssertionError past the end."""
        if not self._script:
            raise AssertionError(f"call {len(self.requests) + 1}: the script is at its end")
        self.requests.append(request)
        outcome = self._script.popleft()
        if isinstance(outcome, Exception):
            raise outcome
        return Reply(outcome) if isinstance(outcome, str) else outcome

    async def aclose(self) -> None:
        """Raises AssertionError when replies are left."""
        self.closed = True
        if self._script:
            raise AssertionError(f"{len(self._script)} scripted replies were never asked for")


class FakeSummariser:
    """Instant summaries, in this process. Chunks in ``rejected`` fail as many times as told; those in ``hanging``
    wait until ``release`` is set."""

    def __init__(self, rejected: dict[int, int] | None = None, hanging: Iterable[int] = ()) -> None:
        self.producer = "fake"
        self.prompt_hash = "0"
        self.asked: list[int] = []
        self.started = asyncio.Event()
        self.release = asyncio.Event()
        self.closed = False
        self._rejected = dict(rejected or {})
        self._hanging = set(hanging)

    async def summarise(self, job: SummaryJob) -> list[View]:
        """A view of each level, holding the chunk's number."""
        self.asked.append(job.chunk)
        self.started.set()
        if job.chunk in self._hanging:
            await self.release.wait()
        if self._rejected.get(job.chunk, 0) > 0:
            self._rejected[job.chunk] -= 1
            raise SummaryRejected("told to")
        return [
            View(job.chunk, level, f"{level.name} of {job.chunk}", 1, producer="fake", prompt_hash="0")
            for level in (Level.DETAILED, Level.BRIEF)
        ]

    async def aclose(self) -> None:
        self.closed = True

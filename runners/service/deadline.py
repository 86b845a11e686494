"""A limit on the time of requests on sessions in a database: a server may hang, or its network swallow what is sent,
for longer than anybody waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from runners.service.gate import unavailable

if TYPE_CHECKING:
    from runners.service.state import Service

OVERDUE = 32
"""Requests that were given up and go on; while there are so many, others are refused at once."""
Handler = Callable[[Request], Awaitable[Response]]


class Deadline:
    """Answers 503 for what is not done in time. It goes on: half a step would be one too many."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._overdue: set[asyncio.Task[Response]] = set()

    async def within(self, work: Coroutine[Any, Any, Response]) -> Response:
        """What ``work`` returns or raises. Raises Refused."""
        if len(self._overdue) >= OVERDUE:
            work.close()
            raise unavailable()
        task = asyncio.create_task(work)
        try:
            done, _ = await asyncio.wait({task}, timeout=self._limit_s)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if done:
            return task.result()
        self._overdue.add(task)
        task.add_done_callback(self._done)
        raise unavailable()

    def _done(self, task: asyncio.Task[Response]) -> None:
        self._overdue.discard(task)
        if not task.cancelled():
            task.exception()  # nobody asks for it any more


def timely(service: Service) -> type[APIRoute]:
    """How the routes of sessions are made: within the limit, where the sessions are in a database."""
    if service.settings.database is None:
        return APIRoute
    deadline = service.deadline

    class Timely(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handler = super().get_route_handler()

            async def limited(request: Request) -> Response:
                return await deadline.within(handler(request))

            return limited

    return Timely

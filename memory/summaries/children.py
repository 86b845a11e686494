"""Child processes that the sessions of one event loop share: a hundred sessions need no hundred interpreters."""

from __future__ import annotations

import asyncio
import contextlib
import os
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary


class Children:
    """At most ``limit`` children at once, each serving one job at a time, for whoever comes first.

    Users `join` and `leave`; with the last one the children end.
    """

    def __init__(self, limit: int) -> None:
        self._seats = asyncio.Semaphore(limit)
        self._idle: list[Process] = []
        self._users: set[object] = set()

    def join(self, user: object) -> None:
        """A user that has not left keeps the children alive."""
        self._users.add(user)

    async def leave(self, user: object) -> None:
        """The last one ends what is idle."""
        self._users.discard(user)
        if not self._users:
            idle, self._idle = self._idle, []
            for process in idle:
                await end(process)

    @asynccontextmanager
    async def seat(self) -> AsyncIterator[None]:
        """Wait for one's turn to have a child."""
        async with self._seats:
            yield

    def take(self, preferred: Process | None) -> Process | None:
        """An idle child, ``preferred`` if it is one; None when one has to be started. Only with a seat."""
        self._idle = [process for process in self._idle if process.returncode is None]
        if not self._idle:
            return None
        return self._idle.pop(self._idle.index(preferred) if preferred in self._idle else -1)

    async def give(self, process: Process) -> None:
        """Hand a child back that is ready for the next job."""
        if self._users:
            self._idle.append(process)
        else:
            await end(process)


_SHARED: WeakKeyDictionary[asyncio.AbstractEventLoop, Children] = WeakKeyDictionary()


def shared_children() -> Children:
    """Those of the running event loop: one for each core."""
    loop = asyncio.get_running_loop()
    found = _SHARED.get(loop)
    if found is None:
        found = _SHARED[loop] = Children(os.cpu_count() or 1)
    return found


async def end(process: Process) -> None:
    """Kill a child and wait until it is gone."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    if process.stdin is not None:
        process.stdin.close()
    await asyncio.shield(process.wait())

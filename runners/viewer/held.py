"""The sessions that the live viewer has open, read only: also while their runs go on."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from memory.store.sqlite import SqliteStore
from runners.environment import Environment
from runners.folders import SessionFolder
from runners.redact import Redactor
from runners.viewer.recorded import Recorded
from runners.viewer.replan import Replanner

MOST = 8


@dataclass(slots=True)
class Viewed:
    """One open session. ``turn``: reading what is new, and deciding steps again, go one after another."""

    session: Recorded
    store: SqliteStore
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    planner: Replanner | None = None
    users: int = 0

    async def planned(self) -> Replanner:
        """What decides steps again. Raises UsageFault."""
        if self.planner is None:
            self.planner = await Replanner.open(self.session)
        return self.planner


class Held:
    """Sessions by name; those unused for longest are closed for others. ``folder`` finds one, or raises NotStored."""

    def __init__(self, folder: Callable[[str], SessionFolder], environment: Environment) -> None:
        self._folder = folder
        self._redact = Redactor(environment.secrets.values(), shapes=True)
        self._open: OrderedDict[str, Viewed] = OrderedDict()
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def use(self, name: str) -> AsyncIterator[Viewed]:
        """The session, opened where it is not yet. Raises NotStored, StoreFault."""
        async with self._turn:
            viewed = self._open.get(name)
            if viewed is None:
                viewed = self._open[name] = await self._opened(name)
            self._open.move_to_end(name)
            viewed.users += 1
        try:
            yield viewed
        finally:
            viewed.users -= 1

    async def aclose(self) -> None:
        """Close every store."""
        async with self._turn:
            while self._open:
                await self._open.popitem()[1].store.aclose()

    async def _opened(self, name: str) -> Viewed:
        folder = self._folder(name)
        idle = [key for key, viewed in self._open.items() if not viewed.users]
        while len(self._open) >= MOST and idle:
            await self._open.pop(idle.pop(0)).store.aclose()
        store = await SqliteStore.open(folder.store, create=False, read_only=True)
        try:
            return Viewed(await Recorded.open(name, store, self._redact), store)
        except BaseException:
            await store.aclose()
            raise

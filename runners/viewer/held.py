"""The sessions that the live viewer has open, read only: also while their runs go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from memory.store.sqlstore import SqlStore
from runners.environment import Environment
from runners.kept import Kept
from runners.redact import Redactor
from runners.viewer.recorded import Recorded
from runners.viewer.replan import Replanner

MOST = 8
Reading: TypeAlias = Callable[[str], AbstractAsyncContextManager[SqlStore]]


@dataclass(slots=True)
class Viewed:
    """One open session. ``turn``: reading what is new, and deciding steps again, go one after another."""

    session: Recorded
    store: SqlStore
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    planner: Replanner | None = None

    async def planned(self) -> Replanner:
        """What decides steps again. Raises UsageFault."""
        if self.planner is None:
            self.planner = await Replanner.open(self.session)
        return self.planner


class Held:
    """Sessions by name; those unused for longest are closed for others. ``reading`` opens the store of one, or raises
    NotStored."""

    def __init__(self, reading: Reading, environment: Environment) -> None:
        self._reading = reading
        self._redact = Redactor(environment.secrets.values(), shapes=True)
        self._kept: Kept[Viewed] = Kept(MOST, strict=False)

    def use(self, name: str) -> AbstractAsyncContextManager[Viewed]:
        """The session, opened where it is not yet. Raises NotStored, StoreFault."""
        return self._kept.use(name, partial(self._opened, name))

    async def aclose(self) -> None:
        """Close every store."""
        await self._kept.aclose()

    @asynccontextmanager
    async def _opened(self, name: str) -> AsyncIterator[Viewed]:
        async with self._reading(name) as store:
            yield Viewed(await Recorded.open(name, store, self._redact), store)

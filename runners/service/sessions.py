"""The sessions that the service holds open: each name once, the ones unused for longest closed for others."""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from memory.errors import NotStored, StoreBusy
from memory.store.sqlite import SqliteStore
from runners.config import RunConfig
from runners.environment import Environment
from runners.errors import UsageFault
from runners.folders import SessionFolder, new_folder, session_name
from runners.hosted import Hosted, open_hosted
from runners.service.bodies import SESSION

HOST = "serve"


@dataclass(slots=True)
class _Open:
    hosted: Hosted
    stack: AsyncExitStack
    users: int = 0


class Sessions:
    """Sessions below ``LONGSTRIDE_HOME``, by name. ``limit`` are open at once."""

    def __init__(self, environment: Environment, config: RunConfig, limit: int) -> None:
        self._environment = environment
        self._config = config
        self._limit = limit
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._turn = asyncio.Lock()

    def __len__(self) -> int:
        return len(self._open)

    def folder(self, name: str) -> SessionFolder:
        """The folder of a session that is there. Raises NotStored."""
        if not re.fullmatch(SESSION, name):
            raise NotStored("no such session")
        folder = SessionFolder(self._environment.home / "runs" / name)
        if not folder.store.is_file():
            raise NotStored(f"no session {name!r}")
        return folder

    @asynccontextmanager
    async def use(self, name: str, *, begin: bool = False) -> AsyncIterator[Hosted]:
        """The session of that name, opened where it is not yet, kept open while it is used.

        Raises NotStored, unless it may ``begin``, StoreBusy when another process writes to it, or all are in use.
        """
        async with self._turn:
            held = self._open.get(name) or await self._opened(name, begin)
            self._open.move_to_end(name)
            held.users += 1
        try:
            yield held.hosted
        finally:
            held.users -= 1

    async def begin(self, name: str | None) -> str:
        """Begin a session, or open the one there; returns its name."""
        name = name or session_name()
        async with self.use(name, begin=True):
            return name

    @asynccontextmanager
    async def reading(self, name: str) -> AsyncIterator[SqliteStore]:
        """The store of a session, read only: also while another process writes to it."""
        store = await SqliteStore.open(self.folder(name).store, create=False, read_only=True)
        try:
            yield store
        finally:
            await store.aclose()

    async def aclose(self) -> None:
        """Close all of them, whatever they are doing being brought to its end."""
        async with self._turn:
            while self._open:
                await self._open.popitem()[1].stack.aclose()

    async def _opened(self, name: str, begin: bool) -> _Open:
        if begin:
            if not re.fullmatch(SESSION, name):
                raise UsageFault("this is no name for a session")
            path = self._environment.home / "runs" / name
            if path.is_symlink() and not SessionFolder(path).store.is_file():
                raise UsageFault("a link stands at this name, and no session")
            folder = new_folder(self._environment.home, path)
        else:
            folder = self.folder(name)
        await self._make_room()
        stack = AsyncExitStack()
        hosted = await stack.enter_async_context(open_hosted(folder, self._environment, self._config, HOST))
        self._open[name] = held = _Open(hosted, stack)
        return held

    async def _make_room(self) -> None:
        while len(self._open) >= self._limit:
            idle = next((name for name, held in self._open.items() if not held.users), None)
            if idle is None:
                raise StoreBusy("too many sessions are in use", hint="try again")
            await self._open.pop(idle).stack.aclose()

"""The sessions that the service works on, by name: below its home, or in a database that it may share with others."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

from memory.errors import NotStored, StoreFault
from memory.store.address import Address, is_address
from memory.store.sqlstore import SqlStore
from runners.config import RunConfig
from runners.environment import Environment
from runners.errors import UsageFault
from runners.folders import SessionFolder, new_folder, session_name
from runners.hosted import Hosted, open_hosted
from runners.kept import Kept
from runners.service.bodies import SESSION
from runners.service.settings import ServiceSettings
from runners.service.stream import DATABASE_POLL_S, POLL_S
from runners.sessions.catalogue import SessionEntry, catalogue
from runners.stores import in_database, open_store

HOST = "serve"


class Sessions:
    """Sessions by name; ``settings`` say where they are, and how many are open at once."""

    def __init__(self, environment: Environment, config: RunConfig, settings: ServiceSettings) -> None:
        self._environment = environment
        self._config = config
        self._database: Address | None = settings.database
        self._wait_s = settings.store_wait_s
        self._kept: Kept[Hosted] = Kept(settings.max_sessions)
        self._listing = asyncio.Lock()
        self._next_list: asyncio.Task[list[SessionEntry]] | None = None

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def poll_s(self) -> float:
        """Between two looks for what is new in a session that is watched."""
        return POLL_S if self._database is None else DATABASE_POLL_S

    def use(self, name: str, *, begin: bool = False) -> AbstractAsyncContextManager[Hosted]:
        """The session of that name, opened where it is not yet, kept open while it is used.

        Raises NotStored, unless it may ``begin``, StoreBusy when another process writes to it, or all are in use,
        StoreFault.
        """
        return self._kept.use(name, partial(self._opened, name, begin))

    async def begin(self, name: str | None) -> str:
        """Begin a session, or open the one there; returns its name. Raises UsageFault for one that is none."""
        name = name or session_name()
        if not re.fullmatch(SESSION, name):
            raise UsageFault("this is no name for a session")
        async with self.use(name, begin=True):
            return name

    @asynccontextmanager
    async def reading(self, name: str) -> AsyncIterator[SqlStore]:
        """The store of a session, read only: also while another process writes to it. Raises NotStored, StoreFault."""
        async with await open_store(self._folder(name), create=False, read_only=True, wait_s=self._wait_s) as store:
            yield store

    async def check(self, name: str) -> None:
        """Raises NotStored where there is no such session, StoreFault where that cannot be known."""
        if self._folder(name).address is not None:
            async with self.reading(name):
                pass

    async def listed(self) -> list[SessionEntry]:
        """All sessions, latest activity first. However many ask, one list at a time is made. Raises StoreFault."""
        if self._next_list is None:
            self._next_list = asyncio.create_task(self._list())
            self._next_list.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(self._next_list)

    async def aclose(self) -> None:
        """Close all of them, whatever they are doing being brought to its end."""
        await self._kept.aclose()

    async def _list(self) -> list[SessionEntry]:
        async with self._listing:
            self._next_list = None  # who asks from now on may have changed what this one does not see
            found = await asyncio.to_thread(catalogue, self._environment.home, self._database)
        if found.problem:
            raise StoreFault(found.problem, retryable=True)
        return [entry for entry in found.sessions if is_address(entry.folder) == (self._database is not None)]

    def _folder(self, name: str) -> SessionFolder:
        """The place of a session; one of a file is there. Raises NotStored."""
        if not re.fullmatch(SESSION, name):
            raise NotStored("no such session")
        if self._database is not None:
            return in_database(self._environment.home, self._database.of(name))
        folder = SessionFolder(self._environment.home / "runs" / name)
        if not folder.store.is_file():
            raise NotStored(f"no session {name!r}")
        return folder

    def _new_folder(self, name: str) -> SessionFolder:
        if self._database is not None:
            return self._folder(name)
        path = self._environment.home / "runs" / name
        if path.is_symlink() and not SessionFolder(path).store.is_file():
            raise UsageFault("a link stands at this name, and no session")
        return new_folder(self._environment.home, path)

    @asynccontextmanager
    async def _opened(self, name: str, begin: bool) -> AsyncIterator[Hosted]:
        folder = self._new_folder(name) if begin else self._folder(name)
        async with open_hosted(
            folder, self._environment, self._config, HOST, create=begin, wait_s=self._wait_s
        ) as hosted:
            yield hosted

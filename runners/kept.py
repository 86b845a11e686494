"""Things that are held open by name: each of them once, the ones unused for longest closed for others.

One that is slow to open, or to close, holds up those who want that one, and nobody else.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

from memory.errors import MemoryFault, NotStored, StoreBusy, StoreFault, StoreFull

T = TypeVar("T")
Opening: TypeAlias = Callable[[], AbstractAsyncContextManager[T]]
_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Place(Generic[T]):
    """``inside``: it counts among those that are open. ``leaving``: it is not used again."""

    opened: asyncio.Task[T] | None = None
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    users: int = 0
    inside: bool = False
    leaving: bool = False
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    closing: asyncio.Task[None] | None = None


class Kept(Generic[T]):
    """At most ``limit`` are open at once. When all of them are in use, one more is refused (StoreBusy), or, unless
    ``strict``, opened beside them."""

    def __init__(self, limit: int, *, strict: bool = True) -> None:
        self._limit = limit
        self._strict = strict
        self._places: OrderedDict[str, _Place[T]] = OrderedDict()

    def __len__(self) -> int:
        return sum(place.inside for place in self._places.values())

    @asynccontextmanager
    async def use(self, name: str, opening: Opening[T]) -> AsyncIterator[T]:
        """The thing of that name, opened by ``opening`` where it is not yet, and kept open.

        After a fault of its store it is closed, and opened again for whoever comes next: what it holds in memory may no
        longer be what is stored. Raises StoreBusy, and what ``opening`` does.
        """
        place, thing = await self._joined(name, opening)
        try:
            yield thing
        except StoreFault as fault:
            place.leaving = place.leaving or not isinstance(fault, StoreFull)
            raise
        finally:
            self._left(name, place)

    async def aclose(self) -> None:
        """Close all of them, side by side; nobody uses one any more."""
        while self._places:
            await asyncio.gather(*(self._close(name, place) for name, place in list(self._places.items())))

    async def _joined(self, name: str, opening: Opening[T]) -> tuple[_Place[T], T]:
        while True:
            place = self._places.get(name)
            if place is not None and place.leaving:
                await place.gone.wait()
                continue
            first = place is None
            if place is None:
                place = self._places[name] = _Place()
                place.opened = asyncio.create_task(self._open(name, place, opening))
                place.opened.add_done_callback(_seen)
            self._places.move_to_end(name)
            place.users += 1
            assert place.opened is not None
            try:
                return place, await asyncio.shield(place.opened)
            except NotStored:
                self._left(name, place)
                if first:
                    raise  # others may have wanted it made
            except BaseException:
                self._left(name, place)
                raise

    async def _open(self, name: str, place: _Place[T], opening: Opening[T]) -> T:
        try:
            await self._make_room()
            place.inside = True
            return await place.stack.enter_async_context(opening())
        except BaseException:
            self._forget(name, place)
            raise

    async def _make_room(self) -> None:
        while len(self) >= self._limit:
            inside = [(name, place) for name, place in self._places.items() if place.inside]
            idle = next(((name, place) for name, place in inside if not (place.users or place.leaving)), None)
            leaving = next((place for _, place in inside if place.leaving), None)
            if idle is not None:
                await self._close(*idle)
            elif leaving is not None:
                await leaving.gone.wait()
            elif self._strict:
                raise StoreBusy("too many sessions are in use", hint="try again")
            else:
                return

    def _left(self, name: str, place: _Place[T]) -> None:
        place.users -= 1
        if place.leaving and not place.users and not place.gone.is_set():
            self._closing(name, place)

    async def _close(self, name: str, place: _Place[T]) -> None:
        await asyncio.shield(self._closing(name, place))

    def _closing(self, name: str, place: _Place[T]) -> asyncio.Task[None]:
        """Begin to close it; once."""
        place.leaving = True
        if place.closing is None:
            place.closing = asyncio.create_task(self._closed(name, place))
        return place.closing

    async def _closed(self, name: str, place: _Place[T]) -> None:
        try:
            if place.opened is not None:
                await asyncio.wait([place.opened])
            await place.stack.aclose()
        except MemoryFault as fault:
            _log.warning("%s was not closed in order: %s", name, fault)
        finally:
            self._forget(name, place)

    def _forget(self, name: str, place: _Place[T]) -> None:
        place.leaving, place.inside = True, False
        if self._places.get(name) is place:
            del self._places[name]
        place.gone.set()


def _seen(task: asyncio.Task[T]) -> None:
    if not task.cancelled():
        task.exception()

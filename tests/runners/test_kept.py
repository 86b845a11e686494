"""What is held open by name: once, within a limit, and nobody waits for what is not theirs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from memory.errors import NotStored, StoreBusy, StoreFault, StoreFull
from runners.kept import Kept


class Things:
    """Opens things; remembers what happened to them."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.held: dict[str, asyncio.Event] = {}
        self.wrong: dict[str, Exception] = {}

    def opening(self, name: str) -> Callable[[], AbstractAsyncContextManager[str]]:
        @asynccontextmanager
        async def open_it() -> AsyncIterator[str]:
            self.log.append(f"open {name}")
            if name in self.held:
                await self.held[name].wait()
            if name in self.wrong:
                raise self.wrong[name]
            yield name
            self.log.append(f"close {name}")

        return open_it


@pytest.fixture
def things() -> Things:
    return Things()


async def visit(kept: Kept[str], things: Things, name: str) -> None:
    async with kept.use(name, things.opening(name)) as thing:
        assert thing == name


async def at_rest() -> None:
    """Let every task come to where it waits."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_each_is_opened_once_and_the_longest_unused_makes_room(things: Things) -> None:
    kept: Kept[str] = Kept(2)
    await asyncio.gather(*(visit(kept, things, "a") for _ in range(5)))
    for name in ("b", "a", "c", "a"):
        await visit(kept, things, name)
    assert things.log == ["open a", "open b", "close b", "open c"]
    async with kept.use("a", things.opening("a")), kept.use("c", things.opening("c")):
        with pytest.raises(StoreBusy, match="too many"):
            await visit(kept, things, "d")
    assert len(kept) == 2
    await kept.aclose()
    assert sorted(things.log[-2:]) == ["close a", "close c"] and len(kept) == 0


async def test_one_that_need_not_be_strict_opens_more_while_all_are_used(things: Things) -> None:
    kept: Kept[str] = Kept(1, strict=False)
    async with kept.use("a", things.opening("a")):
        await visit(kept, things, "b")
        assert len(kept) == 2
    await visit(kept, things, "c")
    assert len(kept) == 1
    await kept.aclose()


async def test_a_slow_opening_holds_up_nobody_else(things: Things) -> None:
    kept: Kept[str] = Kept(4)
    things.held["slow"] = asyncio.Event()
    waiting = [asyncio.create_task(visit(kept, things, "slow")) for _ in range(3)]
    await at_rest()
    await visit(kept, things, "quick")
    waiting[0].cancel()  # who asked first gives up; the others still get it
    await at_rest()
    things.held["slow"].set()
    assert [
        isinstance(one, asyncio.CancelledError) for one in await asyncio.gather(*waiting, return_exceptions=True)
    ] == [
        True,
        False,
        False,
    ]
    assert things.log.count("open slow") == 1
    await kept.aclose()


async def test_an_opening_that_fails_fails_for_all_who_wait_and_is_tried_again_later(things: Things) -> None:
    kept: Kept[str] = Kept(2)
    things.held["a"], things.wrong["a"] = asyncio.Event(), StoreFault("away", retryable=True)
    waiting = [asyncio.create_task(visit(kept, things, "a")) for _ in range(5)]
    await at_rest()
    things.held["a"].set()
    assert {str(one) for one in await asyncio.gather(*waiting, return_exceptions=True)} == {"away"}
    assert things.log == ["open a"] and len(kept) == 0
    del things.wrong["a"]
    await visit(kept, things, "a")
    await kept.aclose()


async def test_who_would_make_it_is_not_told_that_it_is_not_there(things: Things) -> None:
    kept: Kept[str] = Kept(2)
    things.held["a"], things.wrong["a"] = asyncio.Event(), NotStored("no session")
    reader = asyncio.create_task(visit(kept, things, "a"))
    await at_rest()

    @asynccontextmanager
    async def make() -> AsyncIterator[str]:
        yield "made"

    async def begin() -> str:
        async with kept.use("a", make) as thing:
            return thing

    maker = asyncio.create_task(begin())
    await at_rest()
    things.held["a"].set()
    assert await maker == "made"
    with pytest.raises(NotStored):
        await reader
    await kept.aclose()


async def test_after_a_fault_of_its_store_it_is_opened_again(things: Things) -> None:
    kept: Kept[str] = Kept(2)
    leave = asyncio.Event()

    async def stay() -> None:
        async with kept.use("a", things.opening("a")):
            await leave.wait()

    async def fail(fault: Exception) -> None:
        async with kept.use("a", things.opening("a")):
            raise fault

    for harmless in (StoreFull("full"), NotStored("no c9"), ValueError("what?")):
        with pytest.raises(type(harmless)):
            await fail(harmless)
    assert things.log == ["open a"]
    staying = asyncio.create_task(stay())
    await at_rest()
    with pytest.raises(StoreFault):
        await fail(StoreFault("gone", retryable=True))
    again = asyncio.create_task(visit(kept, things, "a"))
    await at_rest()
    assert things.log == ["open a"], "one still uses it"
    leave.set()
    await asyncio.gather(staying, again)
    assert things.log == ["open a", "close a", "open a"]
    await kept.aclose()

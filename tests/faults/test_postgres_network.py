"""A network between a session and its server that cuts, half-closes and holds back: no step lost, none twice."""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from memory.errors import StoreBusy, StoreFault
from memory.records import Usage
from memory.store.address import Address
from memory.store.postgres import PostgresStore, session_names
from memory.store.sqlite import SqliteStore
from memory.store.transfer import pull, push
from memory.stored import Event, Intent, KeyRows, UsageRow
from tests.memory.store.build import chunk, view
from tests.memory.store.places import backend, taken_for_dead
from tests.support.postgres import Server
from tests.support.toxic import TO_CLIENT, TO_SERVER, Pair, Toxic, toxic

LONG = "a comet " * 3_000


@pytest.fixture
def network(postgres: Server) -> Iterator[Toxic]:
    with toxic(postgres.port) as made:
        yield made


def through(network: Toxic, address: Address) -> Address:
    """The same database, by way of the network."""
    head, _, name = address.url.rpartition("/")
    return Address(f"{head.rpartition(':')[0]}:{network.port}/{name}", address.session)


class Cuts:
    """Cuts every connection after a random number of bytes, in one of many ways; after ``times`` of them no more."""

    def __init__(self, seed: int, times: int) -> None:
        self._rng = random.Random(seed)
        self._lock = threading.Lock()
        self._left: dict[Pair, int] = {}
        self.times = times
        self.done = 0

    def __call__(self, pair: Pair, way: int, data: bytes) -> bytes | None:
        with self._lock:
            left = self._left.setdefault(pair, int(self._rng.expovariate(1 / 12_000)))
            if self.done >= self.times or left >= len(data):
                self._left[pair] = left - len(data)
                return data
            self.done += 1
            how = self._rng.choice(("reset", "close", "to client", "to server", "after the server"))
        if how != "after the server" or way == TO_CLIENT:
            pair.ends[way].sendall(data[:left])
        else:  # the server has it all, the client hears nothing of it
            pair.ends[way].sendall(data)
            pair.cut(reset=True, ends=(TO_CLIENT,))
            pair.cut(reset=False, ends=(TO_SERVER,))
            return None
        ends = {"to client": (TO_CLIENT,), "to server": (TO_SERVER,)}.get(how, (TO_SERVER, TO_CLIENT))
        pair.cut(reset=how != "close", ends=ends)
        if len(ends) == 1:
            pair.cut(reset=False)
        return None


async def worked(network: Toxic, direct: Address, cuts: Cuts, most: int) -> int:
    """An owner works until every cut was made; returns how many steps it committed."""
    network.judge = cuts
    number, last = 0, time.monotonic() + 300
    address = through(network, direct)
    async with await opened(address) as store:
        await store.claim("run")
        while cuts.done < cuts.times and number < most and time.monotonic() < last:
            number += 1
            made = chunk(number, LONG if number % 5 == 0 else "short")
            await store.begin_step(Intent(made.step, 0.0))
            await store.commit_step(made, [UsageRow(number, "step", "m", Usage(input_total=number))])
            await store.add_event(Event("n", float(number), {"n": number}))
            await store.add_views([view(number)])
            await store.add_keys(KeyRows("e", np.array([number]), np.ones((1, 8), np.float32), np.array([number])))
            assert await store.last_step() == number
    return number


async def opened(address: Address) -> PostgresStore:
    """Opening is not repeated by the store; a person does it."""
    while True:
        try:
            return await PostgresStore.open(address, create=True)
        except StoreFault as fault:
            if not fault.retryable:
                raise


async def check(network: Toxic, direct: Address, seed: int, times: int) -> None:
    cuts = Cuts(seed, times)
    number = await worked(network, direct, cuts, 40 * times)
    assert cuts.done == times
    async with await PostgresStore.open(direct, create=False) as store:
        assert await store.last_step() == number
        assert [one.step.number for one in await store.chunks(range(1, number + 1))] == list(range(1, number + 1))
        assert [event.body["n"] for event in await store.events()] == list(range(1, number + 1))
        assert [row.usage.input_total for row in await store.usage()] == list(range(1, number + 1))
        assert (await store.key_numbers("e")).tolist() == list(range(1, number + 1))
        assert [one for one in await store.verify() if one.problems and one.name not in ("texts", "views")] == []
        assert await store.owner() is None


async def test_thirty_cuts(network: Toxic, postgres: Server) -> None:
    await check(network, postgres.database().of("s"), 1, 30)


@pytest.mark.nightly
@pytest.mark.timeout(900)
async def test_three_hundred_cuts(network: Toxic, postgres: Server) -> None:
    """Some 15 seconds."""
    await check(network, postgres.database().of("s"), 2, 300)


class Late:
    """Lets the server have what a client sends after ``mark`` only when it is told to."""

    def __init__(self, mark: bytes) -> None:
        self._mark = mark
        self.pair: Pair | None = None
        self.held = threading.Event()

    def __call__(self, pair: Pair, way: int, data: bytes) -> bytes | None:
        if way == TO_SERVER and self.pair is None and self._mark in data:
            self.pair = pair
        if way == TO_SERVER and pair is self.pair:
            pair.held += data
            if b"COMMIT" in pair.held:
                self.held.set()
            return None
        return data


def back(network: Toxic, postgres: Server, count: int) -> None:
    """Return when there are more connections than ``count``, and the last one had time to ask what became of it."""
    with postgres.connect() as connection:
        while len(network.pairs) == count:
            connection.execute("SELECT pg_sleep(0.01)")
        connection.execute("SELECT pg_sleep(0.3)")


@pytest.mark.parametrize("owned", [True, False])
async def test_a_transaction_that_arrives_late_takes_place_once(network: Toxic, postgres: Server, owned: bool) -> None:
    """All of it was sent, and the connection broke off: it reaches the server only after the client is back."""
    address = through(network, postgres.database().of("s"))
    async with await PostgresStore.open(address, create=True) as store:
        if owned:
            await store.claim("run")
        await store.add_event(Event("first", 1.0))
        late = network.judge = Late(b"late")
        writing = asyncio.create_task(store.add_event(Event("late", 2.0)))
        await asyncio.to_thread(late.held.wait)
        assert late.pair is not None
        count = len(network.pairs)
        late.pair.cut(reset=True, ends=(TO_CLIENT,))
        await asyncio.to_thread(back, network, postgres, count)
        late.pair.pass_on()
        late.pair.cut(reset=False, ends=(TO_SERVER,))
        await writing
        await store.add_event(Event("last", 3.0))
        assert [event.kind for event in await store.events()] == ["first", "late", "last"]


class Unheard:
    """Cuts off the client from the answer to its next COMMIT."""

    def __init__(self) -> None:
        self.done = False

    def __call__(self, pair: Pair, way: int, data: bytes) -> bytes | None:
        if way == TO_CLIENT or self.done or b"COMMIT" not in data:
            return data
        self.done = True
        pair.ends[TO_SERVER].sendall(data)
        pair.cut(reset=True, ends=(TO_CLIENT,))
        pair.cut(reset=False, ends=(TO_SERVER,))
        return None


async def test_a_removal_whose_answer_is_lost_has_taken_place(network: Toxic, postgres: Server) -> None:
    address = through(network, postgres.database().of("s"))
    async with await PostgresStore.open(address, create=True) as store:
        await store.commit_step(chunk(1))
        await store.claim("remove")
        unheard = network.judge = Unheard()
        await store.remove()
        assert unheard.done
    assert await session_names(address) == []


async def test_an_owner_whose_answer_is_lost_while_a_former_one_closes(network: Toxic, postgres: Server) -> None:
    """What the former one writes then is not taken for the last word on the session."""
    direct = postgres.database().of("s")
    async with await PostgresStore.open(direct, create=True) as former:
        await former.claim("former")
        async with await PostgresStore.open(through(network, direct), create=False) as store:
            await taken_for_dead(former, store)
            await store.claim("run")
            with pytest.raises(StoreBusy, match="run"):
                await former.commit_step(chunk(1))
            await store.commit_step(chunk(1))
            await former.release()
            (said,) = await store._read(lambda c: c.execute("SELECT last_write FROM longstride.sessions").fetchone())
            assert said.startswith(store._database._token)
            unheard = network.judge = Unheard()
            await store.commit_step(chunk(2))
            assert unheard.done
            assert await store.last_step() == 2


async def test_a_former_owner_that_is_back_does_not_keep_the_lock(network: Toxic, postgres: Server) -> None:
    """Its successor's connection breaks off as well, and is made again later than that of the former one."""
    direct = postgres.database().of("s")
    async with await PostgresStore.open(direct, create=True) as former:
        await former.claim("former")
        async with await PostgresStore.open(direct, create=False, busy_timeout_s=2) as store:
            await taken_for_dead(former, store)
            await store.claim("run")
            with postgres.connect() as connection:
                connection.execute("SELECT pg_terminate_backend(%s, 10000)", (backend(store),))
            with pytest.raises(StoreBusy):
                await former.commit_step(chunk(1))
            await store.commit_step(chunk(1))
            assert store._database.locked
            with pytest.raises(StoreBusy, match="run"):
                await former.commit_step(chunk(2))
            await store.commit_step(chunk(2))


class Once:
    """Cuts one connection, once so many bytes went through."""

    def __init__(self, left: int, *, reset: bool) -> None:
        self._left = left
        self._reset = reset
        self.done = False

    def __call__(self, pair: Pair, way: int, data: bytes) -> bytes | None:
        self._left -= len(data)
        if self.done or self._left >= 0:
            return data
        self.done = True
        pair.ends[way].sendall(data[: self._left])
        pair.cut(reset=self._reset)
        return None


async def test_copies_that_are_cut_off_are_whole_or_not_there(network: Toxic, postgres: Server, tmp_path: Path) -> None:
    """There and back, at any place; done again, each is equal, and no file is left behind."""
    rng, direct, source = random.Random(3), postgres.database(), tmp_path / "s.db"
    async with await SqliteStore.open(source, create=True) as store:
        for number in range(1, 61):
            await store.commit_step(chunk(number, "x\0\ud800é" * rng.randrange(300)))
        await store.add_views([view(number) for number in range(1, 61)])
    via = through(network, direct)
    await push(source, via.of("s"))
    cut = 0
    for number in range(24):
        once = network.judge = Once(rng.randrange(20_000), reset=number % 4 < 2)
        there, back = via.of(f"s{number}"), tmp_path / "back.db"
        try:
            await (push(source, there) if number % 2 else pull(via.of("s"), back))
        except StoreFault as fault:
            assert fault.retryable
            cut += once.done
        await (push(source, there) if number % 2 else pull(via.of("s"), back))
        assert not await push(source if number % 2 else back, direct.of(there.session if number % 2 else "s"))
        back.unlink(missing_ok=True)
        assert os.listdir(tmp_path) == ["s.db"]  # noqa: PTH208
    assert cut > 4

"""Statements that are sent together: how often the server is waited for, and what becomes of errors among them."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from memory.errors import StoreFault
from memory.records import SUMMARY_LEVELS, Usage
from memory.store import postgres_pipe, postgres_schema
from memory.store.address import Address
from memory.store.database import settled
from memory.store.postgres import PostgresStore
from memory.store.postgres_database import opened
from memory.store.postgres_pipe import Pipe
from memory.store.postgres_schema import MIGRATIONS, applied, prepare
from memory.store.sql import Connection
from memory.stored import Intent, KeyRows, UsageRow
from tests.memory.store.build import chunk, view
from tests.support.postgres import Server


@pytest.fixture
def database(postgres: Server) -> Address:
    return postgres.database()


async def test_a_step_waits_for_the_server_once_a_transaction(
    database: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[str] = []
    fetch, end = Pipe.fetch, Pipe.end

    def fetched(pipe: Pipe) -> None:
        waits.append("fetch")
        fetch(pipe)

    def ended(pipe: Pipe) -> None:
        waits.append("end")
        end(pipe)

    monkeypatch.setattr(Pipe, "fetch", fetched)
    monkeypatch.setattr(Pipe, "end", ended)
    async with await PostgresStore.open(database.of("a"), create=True) as store:
        await store.claim("test")
        for number in (1, 2):
            waits.clear()
            made = chunk(number)
            await store.begin_step(Intent(made.step, 0.0))
            await store.commit_step(made, [UsageRow(number, "step", "m", Usage(input_total=1))])
            await store.add_views([view(number, level) for level in SUMMARY_LEVELS])
            await store.add_keys(KeyRows("e", np.array([number]), np.ones((1, 8), np.float32), np.array([number])))
        assert waits == ["end"] * 4
        waits.clear()
        assert len(await store.chunks([1, 2, 1])) == 3
        assert waits == ["fetch", "end"]


async def test_much_goes_both_ways(database: Address) -> None:
    """More than sockets hold, while the server answers."""
    text = "\0 a comet, \ud800 " * 400_000
    async with await PostgresStore.open(database.of("a"), create=True) as store:
        for number in range(1, 4):
            await store.commit_step(chunk(number, text))
        assert [one.step.observations[0].text for one in await store.chunks([3, 2, 1])] == [text] * 3
        keys = np.arange(30_000 * 64, dtype=np.float32).reshape(-1, 64)
        await asyncio.gather(
            *(
                store.add_keys(KeyRows(name, np.full(30_000, 1) if name == "x" else np.array([2]), rows, stamps))
                for name, rows, stamps in (("x", keys, np.arange(30_000)), ("y", keys[:1], np.array([2])))
            )
        )
        assert (await store.keys("x")).matrix.tolist() == keys[:1].tolist()  # the first key of a chunk stays


async def test_after_an_error_the_connection_is_used_on(database: Address) -> None:
    async with await PostgresStore.open(database.of("a"), create=True) as store:
        await store.commit_step(chunk(1))
        link = store._database._link
        assert link is not None
        for _ in range(2):
            with pytest.raises(StoreFault, match="nowhere"):
                await store._write(lambda c: c.execute("SELECT * FROM nowhere WHERE x = ?", (1,)))
            with pytest.raises(StoreFault, match="nowhere"):  # and where nothing is fetched before the end
                await store._write(lambda c: [c.execute("DELETE FROM nowhere"), c.execute("DELETE FROM meta")])
            with pytest.raises(StoreFault, match="step 9 cannot follow step 1: the next one is 2"):
                await store.commit_step(chunk(9))
            with pytest.raises(ZeroDivisionError):
                await store._write(lambda c: [c.execute("DELETE FROM steps"), 1 / 0])
        await store.commit_step(chunk(2))
        assert store._database._link is link
        assert await store.last_step() == 2


async def test_a_database_of_the_first_schema_is_brought_up_to_date(
    database: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_schema, "MIGRATIONS", MIGRATIONS[:1])
    with opened(database) as link:
        prepare(link, write=True)
        assert applied(link) == 1
    monkeypatch.undo()
    with pytest.raises(StoreFault, match="is old"):
        await PostgresStore.open(database.of("a"), create=False, read_only=True)
    async with await PostgresStore.open(database.of("a"), create=True) as store:
        await store.commit_step(chunk(1))
        assert await store.schema() == MIGRATIONS[-1].number


def doubled(number: int, connection: Connection) -> int:
    (found,) = connection.execute(f"SELECT {number} + ?", (number,)).fetchone()
    return int(found)


async def test_prepared_statements_do_not_pile_up(database: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_pipe, "KEPT", 12)
    async with await PostgresStore.open(database.of("a"), create=True) as store:
        for number in range(1, 31):
            await store.commit_step(chunk(number))
            assert await store._write(partial(doubled, number)) == 2 * number
        (held,) = await store._write(lambda c: c.execute("SELECT COUNT(*) FROM pg_prepared_statements").fetchone())
        assert held <= 13


@pytest.mark.parametrize("said", ["DISCARD ALL", "DEALLOCATE ALL"])
async def test_a_connection_that_forgot_everything_is_made_again(database: Address, said: str) -> None:
    async with await PostgresStore.open(database.of("a"), create=True) as store:
        await store.claim("test")
        await store.commit_step(chunk(1))
        link = store._database._link
        assert link is not None
        await settled(store._database._writer, lambda: link.connection.execute(said))
        await store.commit_step(chunk(2))
        assert await store.last_step() == 2
        assert await store.owner() is not None


async def test_a_later_version_migrates_under_an_open_session(database: Address) -> None:
    """What was prepared for a table with fewer columns is prepared again."""
    async with await PostgresStore.open(database.of("a"), create=True) as store:
        await store.commit_step(chunk(1))
        for _ in range(3):
            assert await store.plans() == []
        columns = ", ".join(str(row[0]) for row in await store._read(columns_of_plans))
        with opened(database) as link:
            link.script("ALTER TABLE longstride.plans ADD COLUMN more bigint")
            link.script(
                f"CREATE OR REPLACE VIEW longstride_session.plans AS SELECT {columns}, more FROM longstride.plans"
                f" WHERE session = {postgres_schema.CURRENT}"
            )
        assert await store.plans() == []
        await store.commit_step(chunk(2))


def columns_of_plans(connection: Connection) -> list[tuple[str]]:
    rows = connection.execute(
        "SELECT attname::text FROM pg_attribute WHERE attrelid = 'longstride_session.plans'::regclass AND attnum > 0"
        " ORDER BY attnum"
    )
    return rows.fetchall()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
async def test_a_forked_process_has_connections_of_its_own(database: Address) -> None:
    async with await PostgresStore.open(database.of("a"), create=True) as store:
        await store.claim("parent")
        await store.commit_step(chunk(1))
        assert await store.last_step() == 1
        child = os.fork()
        if not child:
            signal.alarm(20)  # it must not stay
            ended = threading.Thread(target=lambda: os._exit(asyncio.run(in_child(database.of("b")))))
            ended.start()
            ended.join()
            os._exit(9)
        _, status = await asyncio.to_thread(os.waitpid, child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        await store.commit_step(chunk(2))
        assert await store.last_step() == 2


async def in_child(address: Address) -> int:
    async with await PostgresStore.open(address, create=True) as store:
        await store.claim("child")
        await store.commit_step(chunk(1))
        return await store.last_step() - 1


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="this system does not list what is open")
async def test_connections_threads_and_descriptors_come_back(database: Address) -> None:
    descriptors = Path("/proc/self/fd")

    async def use(number: int) -> None:
        async with await PostgresStore.open(database.of(f"s{number}"), create=True) as store:
            await store.claim("test")
            await store.commit_step(chunk(1))
            assert await store.last_step() == 1

    def held() -> int:
        return threading.active_count() + sum(1 for _ in descriptors.iterdir())

    await use(0)
    before = held()
    for number in range(1, 25):
        await use(number)
    assert held() <= before + 4  # the event loop keeps a few threads

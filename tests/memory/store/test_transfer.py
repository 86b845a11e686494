"""A session goes into a database and comes back as it was: every row of it, or nothing."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given

from memory.config import MemoryConfig
from memory.errors import NotStored, StoreBusy, StoreFault
from memory.records import Step, Usage
from memory.store.address import Address
from memory.store.fork import LEFT as FORKED_WITHOUT
from memory.store.postgres import PostgresStore, session_names
from memory.store.postgres_database import opened
from memory.store.postgres_schema import MIGRATIONS, TABLES, applied, prepare
from memory.store.sqlite import SqliteStore
from memory.store.transfer import LEFT, pull, push, tables
from memory.stored import Event, Intent, UsageRow
from tests.memory.sessions import open_memory, page, visit_step
from tests.memory.store import build, strategies
from tests.memory.store.places import Place
from tests.memory.store.test_roundtrip import few
from tests.support.postgres import Server

BUDGET, STEPS = 1_500, 10


@pytest.fixture(scope="module")
def database(postgres: Server) -> Address:
    return postgres.database()


async def filled(path: Path) -> Path:
    """A session with something in every table."""
    async with open_memory(path, config=MemoryConfig(budget=BUDGET), policy="summary-rolling") as memory:
        await memory.ask("What did the harbours cost? \ud800\0")
        for number in range(1, STEPS + 1):
            await memory.assemble(BUDGET)
            await memory.ingest(visit_step(number, page(number)))
    async with await SqliteStore.open(path, create=False) as store:
        await store.pack([1, 2, 3])
        await store.begin_step(Intent(Step(STEPS + 1, thought="under way \udfff"), 1.0))
        await store.add_event(Event("working", 1.0, {"x": "\0"}))
        await store.add_event(Event("ended", 2.0))
        await store.add_usage(UsageRow(1, "summary", "m", Usage(input_total=3, cost=0.1)))
    return path


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return asyncio.run(filled(tmp_path_factory.mktemp("session") / "s.db"))


def rows(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Every row of a store, with the types of its cells, and its number where it has one."""
    with closing(sqlite3.connect(path)) as connection:
        found = {}
        for table, columns in tables(connection):
            number = "rowid, " if table in ("usage", "events") else ""
            types = "".join(f", typeof({column})" for column in columns)
            only = " WHERE key != 'store.clean'" if table == "meta" else ""
            found[table] = sorted(
                connection.execute(f"SELECT {number}{', '.join(columns)}{types} FROM {table}{only}").fetchall(),
                key=repr,
            )
        return found


def copied(session: Path, to: Path) -> None:
    to.write_bytes(session.read_bytes())


def test_every_table_is_copied_or_left_on_purpose(session: Path) -> None:
    with closing(sqlite3.connect(session)) as connection:
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert tables == {*TABLES, "migrations"}
    assert LEFT < FORKED_WITHOUT


async def test_there_and_back_is_the_same(session: Path, database: Address, tmp_path: Path) -> None:
    before, address = rows(session), database.of("back")
    assert all(before[table] for table in before if table != "tombstones")
    files = {"a.csv": b"1,2\n", "deep/東.bin": b"\xff\x00"}
    assert await push(session, address, files.items())
    made, again = await pull(address, tmp_path / "back.db")
    assert made
    assert again == files
    assert rows(tmp_path / "back.db") == before
    async with await SqliteStore.open(tmp_path / "back.db", create=False) as store:
        assert [finding for finding in await store.verify() if finding.problems] == []
        assert await store.owner() is None
    async with await PostgresStore.open(address, create=False) as store:
        assert [finding for finding in await store.verify() if finding.problems] == []
        assert await store.owner() is None


async def test_a_pushed_session_goes_on_and_rebuilds_there(session: Path, database: Address, tmp_path: Path) -> None:
    address = database.of("goes-on")
    await push(session, address)
    async with open_memory(address, config=MemoryConfig(budget=BUDGET), policy="summary-rolling") as memory:
        assert all(one.same for one in await memory.rebuild_all())
        await memory.ingest(visit_step(STEPS + 1, page(STEPS + 1)))
        await memory.assemble(BUDGET)
    await pull(address, tmp_path / "s.db")
    async with open_memory(tmp_path / "s.db", config=MemoryConfig(budget=BUDGET), policy="summary-rolling") as memory:
        assert memory.steps == STEPS + 1
        assert all(one.same for one in await memory.rebuild_all())


async def test_again_is_compared_and_no_other_is_replaced(session: Path, database: Address, tmp_path: Path) -> None:
    address = database.of("again")
    assert await push(session, address)
    assert not await push(session, address)
    other = tmp_path / "other.db"
    copied(session, other)
    async with await SqliteStore.open(other, create=False) as store:
        await store.set_meta({"one more": "x"})
    with pytest.raises(StoreFault, match="another session"):
        await push(other, address)
    before = rows(other)
    with pytest.raises(StoreFault, match="another session"):
        await pull(address, other)
    assert rows(other) == before
    made, _ = await pull(address, tmp_path / "copy.db")
    assert made
    made, _ = await pull(address, tmp_path / "copy.db")
    assert not made


async def test_an_owned_session_is_not_copied(session: Path, database: Address, tmp_path: Path) -> None:
    address = database.of("owned")
    async with await SqliteStore.open(session, create=False) as store:
        await store.claim("run")
        with pytest.raises(StoreBusy, match="run"):
            await push(session, address)
    await push(session, address)
    async with await PostgresStore.open(address, create=False) as held:
        await held.claim("run elsewhere")
        with pytest.raises(StoreBusy, match="run elsewhere"):
            await pull(address, tmp_path / "s.db")
    assert os.listdir(tmp_path) == []  # noqa: PTH208
    with pytest.raises(NotStored):
        await pull(database.of("nobody"), tmp_path / "s.db")


async def test_a_push_that_breaks_off_leaves_nothing(session: Path, database: Address) -> None:
    """Its connection is cut in the middle, by the server; the next one is whole."""
    address = database.of("cut")

    def files():
        with opened(database) as link:
            link.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE state = 'active'"
                " AND application_name = 'longstride' AND pid <> pg_backend_pid() AND query LIKE 'COPY%'"
            ).fetchall()
            link.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
            ).fetchall()
        yield "x", b"x"

    with pytest.raises(StoreFault, match="broke off"):
        await push(session, address, files())
    assert "cut" not in await session_names(database)
    assert await push(session, address)
    assert not await push(session, address)


async def test_racing_pushes_make_one(session: Path, database: Address, tmp_path: Path) -> None:
    copies = [tmp_path / f"{number}.db" for number in range(3)]
    for copy in copies:
        copied(session, copy)
    made = await asyncio.gather(*(push(copy, database.of("raced")) for copy in copies))
    assert sorted(made) == [False, False, True]


@few
@given(strategies.chunks(1), strategies.chunks(2), strategies.plans, strategies.events)
def test_any_rows_come_back(new_place, database, one, two, plan, event):
    async def run(path: Path) -> None:
        async with await SqliteStore.open(path, create=True) as store:
            await store.commit_step(one)
            await store.commit_step(two)
            await store.add_plan(plan)
            await store.add_event(event)
            await store.add_views([build.view(2)])
        address = database.of(path.stem)
        await push(path, address)
        await pull(address, path.with_suffix(".back"))
        assert rows(path.with_suffix(".back")) == rows(path)

    place: Place = new_place()
    if isinstance(place.where, Path):
        asyncio.run(run(place.where))


async def test_racing_to_make_the_schema(postgres: Server) -> None:
    database = postgres.database()

    def make() -> int:
        with opened(database) as link:
            prepare(link, write=True)
            return applied(link)

    assert set(await asyncio.gather(*(asyncio.to_thread(make) for _ in range(6)))) == {MIGRATIONS[-1].number}

"""A fork to, from or within a database is the fork that a file would have, or nothing."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from memory.config import MemoryConfig
from memory.errors import NotStored, StoreFault
from memory.store.address import Address
from memory.store.postgres import PostgresStore, session_names
from memory.store.postgres_fork import fork
from memory.store.sqlite import SqliteStore
from memory.store.transfer import pull, push
from memory.stored import Event
from tests.memory.sessions import open_memory, page, visit_step
from tests.memory.store.places import open_at
from tests.memory.store.test_transfer import BUDGET, STEPS, filled, rows
from tests.support.postgres import Server

EVENT = Event("forked", 3.0, {"from": "a"})
POLICY = "summary-rolling"


@pytest.fixture(scope="module")
def database(postgres: Server) -> Address:
    return postgres.database()


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return asyncio.run(filled(tmp_path_factory.mktemp("session") / "s.db"))


@pytest.fixture(scope="module")
def pushed(session: Path, database: Address) -> Address:
    asyncio.run(push(session, database.of("source"), {"a.csv": b"1,2\n", "deep/b": b"\xff"}.items()))
    return database.of("source")


async def forked(source: Path | Address, target: Path | Address, at: int, **files: bytes) -> None:
    async with await open_at(source, create=False, read_only=True) as store:
        await fork(store, target, at, EVENT, files.items())


@pytest.mark.parametrize("at", [0, 1, 4, STEPS])
async def test_wherever_it_is_made_it_is_the_same(
    session: Path, pushed: Address, postgres: Server, tmp_path: Path, at: int
) -> None:
    await forked(session, tmp_path / "expected.db", at)
    expected = rows(tmp_path / "expected.db")
    assert len(expected["events"]) == 1 and len(expected["steps"]) == at and len(expected["usage"]) == (1 if at else 0)
    elsewhere = postgres.database()
    for name, source, target in (
        ("within", pushed, pushed.of(f"within{at}")),
        ("up", session, pushed.of(f"up{at}")),
        ("across", pushed, elsewhere.of("across")),
        ("down", pushed, tmp_path / "down.db"),
    ):
        await forked(source, target, at)
        if isinstance(target, Address):
            async with await PostgresStore.open(target, create=False) as store:
                assert [finding for finding in await store.verify() if finding.problems] == []
            await pull(target, tmp_path / f"{name}.db")
        assert rows(tmp_path / f"{name}.db") == expected, name


async def test_it_goes_on_where_it_was_made(session: Path, pushed: Address, tmp_path: Path) -> None:
    async with await SqliteStore.open(session, create=False, read_only=True) as store:
        was = (await store.plans(6, 6))[0].render_hash
    address = pushed.of("goes-on")
    await forked(pushed, address, 5)
    async with open_memory(address, config=MemoryConfig(budget=BUDGET), policy=POLICY) as memory:
        assert (await memory.assemble(BUDGET)).render_hash == was
        await memory.ingest(visit_step(6, page(106)))
        assert all(one.same for one in await memory.rebuild_all())
    before = rows(session)
    await pull(pushed, tmp_path / "source.db")
    assert rows(tmp_path / "source.db") == before


async def test_files_go_along(pushed: Address, session: Path, tmp_path: Path) -> None:
    await forked(pushed, pushed.of("files"), 1, **{"a.csv": b"newer", "c": b"text"})
    _, files = await pull(pushed.of("files"), tmp_path / "f.db")
    assert files == {"a.csv": b"newer", "c": b"text", "deep/b": b"\xff"}
    async with await PostgresStore.open(pushed, create=False, read_only=True) as store:
        assert await store.files() == {"a.csv": b"1,2\n", "deep/b": b"\xff"}


async def test_what_is_there_is_never_replaced(pushed: Address, session: Path, tmp_path: Path) -> None:
    await forked(pushed, pushed.of("taken"), 2)
    await forked(pushed, tmp_path / "taken.db", 2)
    before = await session_names(pushed)
    for source in (pushed, session):
        for target in (pushed, pushed.of("taken"), tmp_path / "taken.db"):
            with pytest.raises(StoreFault, match="there already"):
                await forked(source, target, 3)
        for target in (pushed.of("new"), tmp_path / "new.db"):
            for step in (-1, STEPS + 1):
                with pytest.raises(NotStored, match=f"the session has {STEPS}"):
                    await forked(source, target, step)
    assert await session_names(pushed) == before
    assert os.listdir(tmp_path) == ["taken.db"]  # noqa: PTH208
    async with await PostgresStore.open(pushed.of("taken"), create=False, read_only=True) as store:
        assert await store.last_step() == 2


async def test_racing_forks_make_one_and_its_owner_does_not_matter(pushed: Address) -> None:
    async with await PostgresStore.open(pushed, create=False) as held:
        await held.claim("run")
        made = await asyncio.gather(
            *(forked(pushed, pushed.of("raced"), at) for at in (2, 3, 4)), return_exceptions=True
        )
    assert sum(one is None for one in made) == 1
    assert all(one is None or "there already" in str(one) for one in made)
    async with await PostgresStore.open(pushed.of("raced"), create=False) as store:
        assert await store.last_step() == 2 + made.index(None)
        assert await store.owner() is None


@pytest.mark.parametrize("within", [True, False])
async def test_one_that_breaks_off_leaves_nothing(
    postgres: Server, pushed: Address, session: Path, within: bool
) -> None:
    """The server cuts its connection while it waits for the last table."""
    target = pushed.of(f"cut{within}")
    with postgres.connect(pushed.url.rpartition("/")[2]) as other:
        other.execute("BEGIN")
        other.execute("LOCK TABLE longstride.usage IN SHARE MODE")
        making = asyncio.create_task(forked(pushed if within else session, target, 3))
        await cut_who_waits_for(other)
        with pytest.raises(StoreFault, match="broke off"):
            await making
        other.execute("ROLLBACK")
    assert target.session not in await session_names(pushed)
    await forked(pushed, target, 3)


async def cut_who_waits_for(other: Any) -> None:
    """Cut whoever waits for the table that ``other`` has locked."""
    cut = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE NOT granted AND relation = 'longstride.usage'::regclass"
    while not await asyncio.to_thread(lambda: other.execute(cut).fetchall()):
        pass


async def test_who_may_only_read_may_fork_into_a_file(postgres: Server, pushed: Address, tmp_path: Path) -> None:
    with postgres.connect(pushed.url.rpartition("/")[2]) as link:
        link.execute("CREATE ROLE reader LOGIN")
        link.execute("GRANT USAGE ON SCHEMA longstride, longstride_session TO reader")
        link.execute("GRANT SELECT ON ALL TABLES IN SCHEMA longstride, longstride_session TO reader")
        try:
            mine = Address(pushed.url.replace("longstride@", "reader@"), "source")
            await forked(mine, tmp_path / "mine.db", 2)
            with pytest.raises(StoreFault, match="may not"):
                await forked(mine, mine.of("mine"), 2)
            assert "mine" not in await session_names(pushed)
        finally:
            link.execute("DROP OWNED BY reader")
            link.execute("DROP ROLE reader")

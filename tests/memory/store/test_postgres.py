"""Databases that are missing, foreign, too new, not migrated or not reachable; what the driver says, in our terms."""

from __future__ import annotations

import asyncio
import threading

import pytest

from memory.errors import NotStored, StoreBusy, StoreCorrupt, StoreFault, StoreFull, StoreTooNew
from memory.store.address import Address
from memory.store.postgres import PostgresStore, session_names
from memory.store.postgres_database import opened
from memory.store.postgres_link import fault_of, translated
from memory.store.postgres_schema import MIGRATIONS
from tests.memory.store.build import chunk, view
from tests.support.postgres import Server


@pytest.fixture
def database(postgres: Server) -> Address:
    return postgres.database()


def by_hand(postgres: Server, database: Address, *statements: str) -> None:
    with postgres.connect(database.url.rpartition("/")[2]) as connection:
        for statement in statements:
            connection.execute(statement)


async def test_a_missing_session_is_not_made_silently(database: Address) -> None:
    for read_only in (True, False):
        with pytest.raises(NotStored):
            await PostgresStore.open(database.of("a"), create=False, read_only=read_only)
    assert await session_names(database) == []
    with opened(database) as link:  # and the database is left as it was
        assert link.execute("SELECT to_regnamespace('longstride') IS NULL").fetchone() == (True,)
    async with await PostgresStore.open(database.of("a"), create=True):
        assert await session_names(database) == ["a"]
        with pytest.raises(NotStored, match="#b"):
            await PostgresStore.open(database.of("b"), create=False)


async def test_an_empty_database_is_only_read(database: Address) -> None:
    with pytest.raises(NotStored, match="holds no sessions"):
        await PostgresStore.open(database.of("a"), create=True, read_only=True)


async def test_a_database_that_is_not_there(postgres: Server) -> None:
    with pytest.raises(NotStored, match="no such database"):
        await PostgresStore.open(Address(postgres.url("nowhere"), "a"), create=True)
    with pytest.raises(StoreFault, match="cannot be reached") as caught:
        await PostgresStore.open(Address("postgresql://127.0.0.1:1/x", "a"), create=True)
    assert caught.value.retryable


async def test_somebody_elses_schema_and_one_of_the_future(postgres: Server, database: Address) -> None:
    by_hand(postgres, database, "CREATE SCHEMA longstride", "CREATE TABLE longstride.steps (x int)")
    with pytest.raises(StoreCorrupt, match="not ours"):
        await PostgresStore.open(database.of("a"), create=True)
    by_hand(postgres, database, "DROP SCHEMA longstride CASCADE")
    async with await PostgresStore.open(database.of("a"), create=True) as store:
        assert await store.schema() == MIGRATIONS[-1].number
    by_hand(postgres, database, "INSERT INTO longstride.migrations VALUES (99, 'x', 0)")
    with pytest.raises(StoreTooNew, match="99"):
        await PostgresStore.open(database.of("a"), create=False)


async def test_a_user_without_rights_is_told_so(postgres: Server, database: Address) -> None:
    async with await PostgresStore.open(database.of("a"), create=True) as store:
        await store.commit_step(chunk(1))
    by_hand(postgres, database, "CREATE ROLE nobody_much LOGIN")
    try:
        stranger = Address(database.url.replace("longstride@", "nobody_much@"), "a")
        with pytest.raises(StoreFault, match="may not"):
            await PostgresStore.open(stranger, create=False)
    finally:
        by_hand(postgres, database, "DROP ROLE nobody_much")


async def test_a_session_that_another_connection_writes_is_waited_for_and_busy(
    postgres: Server, database: Address
) -> None:
    async with await PostgresStore.open(database.of("a"), create=True, busy_timeout_s=0.2) as store:
        await store.commit_step(chunk(1))
        with postgres.connect(database.url.rpartition("/")[2]) as other:
            other.execute("BEGIN")
            other.execute("SELECT FROM longstride.sessions FOR UPDATE")
            with pytest.raises(StoreBusy) as caught:
                await store.commit_step(chunk(2))
            assert caught.value.retryable
            assert await store.last_step() == 1
            other.execute("ROLLBACK")
        await store.commit_step(chunk(2))


async def test_a_removed_session_stops_its_writer(database: Address) -> None:
    async with await PostgresStore.open(database.of("a"), create=True) as store:
        await store.commit_step(chunk(1))
        await store.add_views([view(1)])
        async with await PostgresStore.open(database.of("a"), create=False) as other:
            await other.claim("rm")
            await other.remove()
        with pytest.raises(StoreFault, match="removed"):
            await store.commit_step(chunk(2))
    assert await session_names(database) == []


async def test_commits_are_on_the_disk_whatever_the_server_says(postgres: Server, database: Address) -> None:
    name = database.url.rpartition("/")[2]
    by_hand(postgres, database, f"ALTER DATABASE {name} SET synchronous_commit = off")
    async with await PostgresStore.open(database.of("a"), create=True) as store:
        (said,) = await store._write(lambda c: c.execute("SELECT current_setting('synchronous_commit')").fetchone())
        assert said == "on"


async def test_ordinary_text_is_read_by_any_tool(postgres: Server, database: Address) -> None:
    async with await PostgresStore.open(database.of("a"), create=True) as store:
        await store.commit_step(chunk(1, "東京 and 'quotes'"))
    with postgres.connect(database.url.rpartition("/")[2]) as connection:
        (text,) = connection.execute("SELECT convert_from(observations, 'UTF8') FROM longstride.steps").fetchone()
    assert "東京" in text


async def test_a_cancelled_claim_is_given_up(database: Address) -> None:
    async with (
        await PostgresStore.open(database.of("a"), create=True) as first,
        await PostgresStore.open(database.of("a"), create=False) as second,
    ):
        held, go = threading.Event(), threading.Event()

        def slow(_: object) -> None:
            held.set()
            go.wait()

        blocker = asyncio.create_task(first._write(slow))
        await asyncio.to_thread(held.wait)
        claim = asyncio.create_task(first.claim("gone"))
        await asyncio.sleep(0)
        claim.cancel()
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await claim
        await blocker
        await first.release()
        await second.claim("next")
        await second.commit_step(chunk(1))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("DiskFull", StoreFull),
        ("LockNotAvailable", StoreBusy),
        ("SerializationFailure", StoreBusy),
        ("DeadlockDetected", StoreBusy),
        ("TooManyConnections", StoreBusy),
        ("ForeignKeyViolation", NotStored),
        ("DataCorrupted", StoreCorrupt),
        ("InvalidPassword", StoreFault),
        ("CannotConnectNow", StoreFault),
        ("UndefinedTable", StoreFault),
    ],
)
def test_faults_have_our_names(name: str, kind: type[Exception]) -> None:
    psycopg = pytest.importorskip("psycopg")
    fault = fault_of(getattr(psycopg.errors, name)("said"), Address("postgresql://u:pw@h/x", "a"))
    assert type(fault) is kind
    assert "pw" not in str(fault)


def test_statements_are_put_into_the_servers_terms() -> None:
    assert translated("SELECT LENGTH(CAST(a AS BLOB)) FROM views INDEXED BY i WHERE n = ? AND t LIKE 'x%'") == (
        "SELECT longstride.cell_length(a) FROM views WHERE n = %s AND t LIKE 'x%%'"
    )
    assert translated("c IN (SELECT value FROM json_each(?))") == "c = ANY(%s)"

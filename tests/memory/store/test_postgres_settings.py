"""Servers, databases, roles and environments with settings of their own: the store does the same on all of them."""

from __future__ import annotations

import secrets
import socket
import time
from pathlib import Path

import pytest

from memory.errors import StoreFault
from memory.store.address import Address
from memory.store.database import settled
from memory.store.postgres import PostgresStore
from memory.store.transfer import pull, push
from tests.memory.store.build import chunk, view
from tests.support.postgres import Server

TEXT = "東京 \ud800\0"
ENCODINGS = ("SQL_ASCII", "LATIN1", "EUC_JP")
SETTINGS = {
    "what a connection is used to": {
        "client_encoding": "SQL_ASCII",
        "standard_conforming_strings": "off",
        "search_path": "nowhere",
        "bytea_output": "escape",
        "IntervalStyle": "iso_8601",
        "extra_float_digits": "-15",
    },
    "how a transaction is": {"default_transaction_read_only": "on", "default_transaction_isolation": "serializable"},
    "how long it may take": {
        "statement_timeout": "20ms",
        "idle_in_transaction_session_timeout": "1ms",
        "lock_timeout": "1ms",
    },
    "how it is planned": {"enable_seqscan": "off", "plan_cache_mode": "force_generic_plan", "jit_above_cost": "0"},
}


def made(server: Server, encoding: str = "UTF8", **settings: str) -> Address:
    """A database with that encoding and those settings."""
    name = f"t_{secrets.token_hex(6)}"
    with server.connect() as connection:
        connection.execute(
            f"CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'"
        )
        for key, value in settings.items():
            connection.execute(f"ALTER DATABASE {name} SET {key} = '{value}'")
    return Address(server.url(name))


async def used(address: Address, folder: Path) -> None:
    """A session is written, found again by the name of its last transaction, and copied both ways."""
    async with await PostgresStore.open(address.of("s"), create=True) as store:
        await store.claim("run")
        for number in range(1, 4):
            await store.commit_step(chunk(number, TEXT))
        await store.add_views([view(1)])
        database = store._database

        def lost_answer() -> bool:
            assert database._link is not None
            database._link.connection.close()
            link = database._held(time.monotonic() + 5)
            return database._took_place(link, f"{database._token}:{database._writes}")

        assert await settled(database._writer, lost_answer)
        await store.commit_step(chunk(4, TEXT))
        assert await store.chunks(range(1, 5)) == [chunk(number, TEXT) for number in range(1, 5)]
        assert [one for one in await store.verify() if one.problems and one.name != "texts"] == []
    await pull(address.of("s"), folder / "s.db")
    assert not await push(folder / "s.db", address.of("s"))
    assert await push(folder / "s.db", address.of("copy"))


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_any_encoding(postgres: Server, tmp_path: Path, encoding: str) -> None:
    await used(made(postgres, encoding), tmp_path)


@pytest.mark.parametrize("name", SETTINGS)
async def test_any_defaults(postgres: Server, tmp_path: Path, name: str) -> None:
    await used(made(postgres, **SETTINGS[name]), tmp_path)


async def test_an_environment_for_another_program(
    postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = made(postgres)
    monkeypatch.setenv("PGCLIENTENCODING", "SQL_ASCII")
    monkeypatch.setenv("PGOPTIONS", "-c search_path=x -c default_transaction_read_only=on")
    await used(address, tmp_path)


async def test_a_session_may_be_idle_for_long(postgres: Server) -> None:
    """Longer than the administrator lets others: its connection, and so its lock, stay."""
    address = made(postgres, idle_session_timeout="1ms") if version(postgres) >= 140_000 else made(postgres)
    async with await PostgresStore.open(address.of("s"), create=True) as store:
        await store.claim("run")
        link = store._database._link
        with postgres.connect() as connection:
            connection.execute("SELECT pg_sleep(0.05)")
        await store.commit_step(chunk(1))
        assert store._database._link is link


def version(server: Server) -> int:
    with server.connect() as connection:
        return int(connection.info.server_version)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this system has no such timeout")
async def test_a_network_that_swallows_everything_is_noticed(postgres: Server) -> None:
    """What was sent and is not acknowledged is waited for as long as an idle connection is, not for a quarter hour."""
    async with await PostgresStore.open(made(postgres).of("s"), create=True) as store:
        link = store._database._link
        assert link is not None
        with socket.socket(fileno=link.connection.fileno()) as held:
            try:
                assert held.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 60_000
            finally:
                held.detach()
        (told,) = await store._write(lambda c: c.execute("SELECT current_setting('tcp_user_timeout')").fetchone())
        assert told in ("1min", "60000")


async def test_a_server_that_may_only_be_read_says_so(postgres: Server) -> None:
    address = made(postgres).of("s")
    async with await PostgresStore.open(address, create=True) as store:
        await store.commit_step(chunk(1))
        with pytest.raises(StoreFault, match="read-only"):
            await store._write(
                lambda c: [c.execute("SET LOCAL transaction_read_only = on"), c.execute("DELETE FROM meta")]
            )
        await store.commit_step(chunk(2))

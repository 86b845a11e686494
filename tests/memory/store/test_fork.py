"""A fork holds the beginning of a session, and can have been at that step."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from pathlib import Path

import pytest

from memory.config import MemoryConfig
from memory.errors import NotStored, StoreFault
from memory.store.fork import COPIED, LEFT
from memory.store.sqlite import SqliteStore
from memory.summaries.config import SummaryConfig
from tests.memory.sessions import open_memory, page, visit_step

BUDGET, STEPS = 1_500, 12
CONFIG = MemoryConfig(budget=BUDGET)


OFF = SummaryConfig(kind="off", publish="lockstep")


async def fill(path: Path, policy: str) -> None:
    async with open_memory(path, config=CONFIG, policy=policy) as memory:
        await memory.ask("What did the harbours cost?")
        for number in range(1, STEPS + 1):
            if number == 8:
                await memory.ask("And the violins?")
            await memory.assemble(BUDGET)
            await memory.ingest(visit_step(number, page(number)))


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """By policy."""
    folder = tmp_path_factory.mktemp("sessions")
    for policy in ("pace", "summary-rolling"):
        asyncio.run(fill(folder / policy, policy))
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.fixture(params=["pace", "summary-rolling"])
def policy(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def path(sessions: dict[str, bytes], policy: str, tmp_path: Path) -> Path:
    path = tmp_path / "s.db"
    path.write_bytes(sessions[policy])
    return path


def content(path: Path) -> bytes:
    return path.read_bytes()


async def forked(path: Path, at: int) -> Path:
    made = path.with_name(f"fork{at}.db")
    async with await SqliteStore.open(path, create=False, read_only=True) as store:
        await store.fork(made, at)
    return made


def test_every_table_is_copied_or_left_on_purpose(tmp_path: Path) -> None:
    from memory.store.files import create_file

    create_file(tmp_path / "s.db", busy_timeout_s=1)
    connection = sqlite3.connect(tmp_path / "s.db")
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    connection.close()
    assert tables == {*COPIED, *LEFT}


@pytest.mark.parametrize("at", [0, 1, 7, 8, STEPS])
async def test_the_beginning_is_the_same_and_goes_on(
    path: Path, sessions: dict[str, bytes], policy: str, at: int
) -> None:
    made = await forked(path, at)
    assert content(path) == sessions[policy]
    async with await SqliteStore.open(path, create=False) as old, await SqliteStore.open(made, create=False) as new:
        assert await new.last_step() == at
        assert await new.chunks(range(1, at + 1)) == await old.chunks(range(1, at + 1))
        assert await new.plans() == await old.plans(last=at)
        assert [finding for finding in await new.verify() if finding.problems] == []
        assert len(await new.questions()) == (1 if at < 8 else 2)
        count = len(await new.blocks())
        assert await new.blocks() == (await old.blocks())[:count]
        assert await new.events() == []
    async with open_memory(made, config=CONFIG, policy=policy, summaries=OFF) as memory:
        assert all(one.same for one in await memory.rebuild_all())
        for number in range(at + 1, at + 4):
            await memory.assemble(BUDGET)
            await memory.ingest(visit_step(number, page(100 + number)))
        assert [one.same for one in await memory.rebuild_all()] == [True] * (at + 3)


async def test_the_next_context_is_what_it_was(path: Path, policy: str) -> None:
    async with await SqliteStore.open(path, create=False, read_only=True) as store:
        was = (await store.plans(6, 6))[0].render_hash
    async with open_memory(await forked(path, 5), config=CONFIG, policy=policy) as memory:
        assert (await memory.assemble(BUDGET)).render_hash == was


async def test_what_cannot_be_forked(path: Path, tmp_path: Path) -> None:
    async with await SqliteStore.open(path, create=False, read_only=True) as store:
        with pytest.raises(NotStored, match="the session has 12"):
            await store.fork(tmp_path / "no.db", STEPS + 1)
        with pytest.raises(StoreFault, match="already"):
            await store.fork(path, 3)
    assert os.listdir(tmp_path) == ["s.db"]  # noqa: PTH208

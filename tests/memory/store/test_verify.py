"""The checker of a store finds what is broken, names it, and finds nothing in a whole one."""

from __future__ import annotations

import asyncio
import gzip
import sqlite3
from pathlib import Path

import pytest

from memory.config import MemoryConfig
from memory.store.sqlite import SqliteStore
from memory.store.verify import Finding
from tests.fixtures import make_store
from tests.memory.sessions import open_memory, page, visit_step

BUDGET = 1_500


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A session with everything in it."""
    path = tmp_path_factory.mktemp("session") / "s.db"

    async def fill() -> None:
        async with open_memory(path, config=MemoryConfig(budget=BUDGET), policy="summary-rolling") as memory:
            await memory.ask("What did the harbours cost?")
            for number in range(1, 9):
                await memory.assemble(BUDGET)
                await memory.ingest(visit_step(number, page(number)))
            await memory.assemble(BUDGET)

    asyncio.run(fill())
    return path.read_bytes()


@pytest.fixture
def path(session: bytes, tmp_path: Path) -> Path:
    path = tmp_path / "s.db"
    path.write_bytes(session)
    return path


@pytest.fixture(params=sorted(make_store.HERE.glob("store-v*.sqlite.gz")), ids=lambda file: file.name)
def earlier(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "s.db"
    path.write_bytes(gzip.decompress(request.param.read_bytes()))
    return path


async def broken(path: Path) -> dict[str, tuple[str, ...]]:
    async with await SqliteStore.open(path, create=False, read_only=True) as store:
        findings: list[Finding] = await store.verify()
    return {finding.name: finding.problems for finding in findings if finding.problems}


async def test_a_whole_store(path: Path) -> None:
    assert await broken(path) == {}


async def test_stores_of_earlier_versions(earlier: Path) -> None:
    assert await broken(earlier) == {}


BREAKS = {
    "a step is missing": ("DELETE FROM steps WHERE number = 4", "steps"),
    "a chunk is missing": ("DELETE FROM chunks WHERE number = 4", "steps"),
    "kinds differ": ("UPDATE chunks SET kind = 'note' WHERE number = 4", "steps"),
    "a text was edited": ("UPDATE steps SET thought = 'another' WHERE number = 4", "texts"),
    "an observation is an orphan": ("UPDATE steps SET calls = '[]' WHERE number = 4", "texts"),
    "a row that cannot be read": ("UPDATE steps SET calls = '[[' WHERE number = 4", "texts"),
    "parents that come later": ("UPDATE chunks SET parents = '[9]' WHERE number = 4", "texts"),
    "a step begun out of order": ("INSERT INTO intents SELECT 12, 'x', 0", "step under way"),
    "a question in the future": ("INSERT INTO questions VALUES (2, 'q', 99, 0)", "questions"),
    "a question is missing": ("DELETE FROM questions", "plans"),
    "a question has another number": ("UPDATE questions SET task = 3", "questions"),
    "a summary of nothing": ("UPDATE views SET chunk = 77 WHERE chunk = 3", "summaries"),
    "a summary before its step": ("UPDATE views SET published_step = 1 WHERE chunk = 3", "summaries"),
    "a key of another size": ("UPDATE keys SET vector = x'00' WHERE chunk = 2", "keys"),
    "a key of nothing": ("UPDATE keys SET chunk = 77 WHERE chunk = 2", "keys"),
    "a block of nothing": ("UPDATE blocks SET last = 50 WHERE number = 1", "blocks"),
    "a block is missing": ("DELETE FROM blocks WHERE number = 1", "blocks"),
    "a plan of no step": ("UPDATE plans SET step = 40 WHERE step = 6", "plans"),
    "a plan of later chunks": ("UPDATE plans SET recent_from = 1 WHERE step = 6", "plans"),
    "a call counted twice": (
        "INSERT INTO usage (step, purpose, model) VALUES (2, 'step', ''), (2, 'step', '')",
        "usage",
    ),
    "a call for no step": ("INSERT INTO usage (step, purpose, model) VALUES (20, 'step', '')", "usage"),
}


@pytest.mark.parametrize("case", BREAKS)
async def test_what_is_broken_is_named(path: Path, case: str) -> None:
    statement, name = BREAKS[case]
    connection = sqlite3.connect(path)
    for (trigger,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {trigger}")
    changed = connection.execute(statement).rowcount
    connection.commit()
    connection.close()
    assert changed > 0
    found = await broken(path)
    assert name in found, found
    assert all(len(problems) <= 5 for problems in found.values())


@pytest.fixture
def damaged(path: Path) -> Path:
    connection = sqlite3.connect(path)
    (page_number,) = connection.execute(
        "SELECT rootpage FROM sqlite_master WHERE name = 'views_unpublished'"
    ).fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    whole = bytearray(path.read_bytes())
    whole[(page_number - 1) * size : page_number * size] = b"\x55" * size
    path.write_bytes(whole)
    return path


async def test_a_damaged_page(damaged: Path) -> None:
    assert "pages" in await broken(damaged)

"""Many sessions on one server at once, and the longest one there and back."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from memory.store.postgres import PostgresStore
from memory.store.transfer import pull, push
from runners.folders import SessionFolder
from runners.redact import Redactor
from runners.sessions.export import export
from tests.memory.store.test_transfer import rows
from tests.perf.bench_postgres import compare, measure
from tests.perf.stores import fill
from tests.support.postgres import Server

LONGEST = 100_000


def test_sessions_of_several_processes_do_not_mix(postgres: Server) -> None:
    one = measure(postgres.database().url, processes=2, sessions=8, steps=4)
    assert (one.lost, one.mixed) == (0, 0)


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_sixty_four_sessions_of_eight_processes(postgres: Server, tmp_path: Path) -> None:
    """Some 40 seconds. How fast is a matter of `bench_postgres`: on a busy machine a ratio says little."""
    rounds = compare(tmp_path, postgres.database(), 8, 64, 8, 2)
    assert [(one.lost, one.mixed) for one in rounds] == [(0, 0)] * 4


async def there_and_back(server: Server, folder: Path, steps: int) -> dict[str, float]:
    """Seconds of each way; the copy exports to the same bytes, and every row of it is the same."""
    source, target = SessionFolder(folder / "here" / "long"), SessionFolder(folder / "there" / "long")
    for one in (source, target):
        await asyncio.to_thread(one.path.mkdir, parents=True)
    await fill(source.store, steps, "e", 256)
    address = server.database().of("long")
    began = time.perf_counter()
    await push(source.store, address)
    pushed = time.perf_counter()
    await pull(address, target.store)
    pulled = time.perf_counter()
    async with await PostgresStore.open(address, create=False, read_only=True) as store:
        assert await store.last_step() == steps
        assert (await store.keys("e")).matrix.shape == (steps, 256)
    await asyncio.to_thread(_expect_same, source, target)
    return {"push": pushed - began, "pull": pulled - pushed}


def _expect_same(source: SessionFolder, target: SessionFolder) -> None:
    digests = []
    for folder in (source, target):
        file = export(folder, "jsonl", str(folder.path / "export.jsonl"), Redactor(()))
        assert file is not None
        with file.open("rb") as opened:
            digests.append(hashlib.file_digest(opened, "sha256").hexdigest())
        with closing(sqlite3.connect(folder.store)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert digests[0] == digests[1]


async def test_a_session_of_a_thousand_steps_there_and_back(postgres: Server, tmp_path: Path) -> None:
    await there_and_back(postgres, tmp_path, 1_000)
    here, there = (tmp_path / name / "long" / "session.sqlite" for name in ("here", "there"))
    assert await asyncio.to_thread(rows, here) == await asyncio.to_thread(rows, there)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
async def test_the_longest_session_there_and_back(postgres: Server, tmp_path: Path) -> None:
    """100,000 steps, some 3 minutes."""
    took = await there_and_back(postgres, tmp_path, LONGEST)
    sys.stdout.write(f"{ {way: round(seconds, 1) for way, seconds in took.items()} }\n")

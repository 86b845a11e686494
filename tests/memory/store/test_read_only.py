"""A store that is only to be read: nothing changes, and nothing has to be writable."""

from __future__ import annotations

import errno
import gzip
import shutil
import sqlite3
from pathlib import Path

import pytest

from memory.errors import StoreCorrupt, StoreFault, StoreFull
from memory.store.migrations import MIGRATIONS
from memory.store.sqlite import SqliteStore
from tests.fixtures import make_store
from tests.memory.store.build import chunk, view
from tests.support.mounts import in_namespace, read_only

READ = """
import asyncio, sys, pathlib
from memory.store.sqlite import SqliteStore

async def main(path):
    async with await SqliteStore.open(path, create=False, read_only=True) as store:
        last = await store.last_step()
        assert [c.step.number for c in await store.chunks(range(1, last + 1))] == list(range(1, last + 1))
        print(last, await store.schema())

asyncio.run(main(sys.argv[1]))
"""


async def filled(path: Path, steps: int) -> SqliteStore:
    store = await SqliteStore.open(path, create=True)
    for number in range(1, steps + 1):
        await store.commit_step(chunk(number))
        await store.add_views([view(number)])
    return store


def listing(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


async def test_nothing_is_changed_and_nothing_left_behind(tmp_path: Path) -> None:
    await (await filled(tmp_path / "s.db", 3)).aclose()
    before = listing(tmp_path)
    async with await SqliteStore.open(tmp_path / "s.db", create=False, read_only=True) as store:
        assert await store.last_step() == 3
        with pytest.raises(StoreFault, match="not for writing"):
            await store.commit_step(chunk(4))
        with pytest.raises(StoreFault, match="not for writing"):
            await store.claim()
    assert listing(tmp_path) == before


async def test_what_the_owner_writes_meanwhile_is_seen(tmp_path: Path) -> None:
    owner = await filled(tmp_path / "s.db", 3)
    await owner.claim()
    async with await SqliteStore.open(tmp_path / "s.db", create=False, read_only=True) as store:
        await owner.commit_step(chunk(4))
        assert await store.last_step() == 4
    await owner.commit_step(chunk(5))
    await owner.aclose()


async def test_an_older_schema_is_read_without_being_migrated(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    path.write_bytes(gzip.decompress((make_store.HERE / "store-v1.sqlite.gz").read_bytes()))
    before = listing(tmp_path)
    async with await SqliteStore.open(path, create=False, read_only=True) as store:
        assert await store.schema() == MIGRATIONS[-1].number
        assert await store.last_step() == make_store.STEPS
        assert await store.blocks() == []
    assert listing(tmp_path) == before


@pytest.mark.parametrize("case", ["closed", "killed", "older schema"])
async def test_a_read_only_folder(tmp_path: Path, case: str) -> None:
    """With a log beside the store, what is in the log counts."""
    folder = tmp_path / "folder"
    folder.mkdir()
    path, steps = folder / "s.db", 3
    if case == "older schema":
        path.write_bytes(gzip.decompress((make_store.HERE / "store-v1.sqlite.gz").read_bytes()))
        steps = make_store.STEPS
    else:
        store = await filled(tmp_path / "s.db", steps)
        if case == "closed":
            await store.aclose()
        for name in ("s.db", "s.db-wal"):
            if (tmp_path / name).exists():
                shutil.copy(tmp_path / name, folder)
        await store.aclose()
        assert (folder / "s.db-wal").exists() == (case == "killed")
    before = listing(folder)
    ran = in_namespace(read_only(folder), ["-c", READ, str(path)])
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == [str(steps), str(MIGRATIONS[-1].number)]
    assert listing(folder) == before


async def test_damage_is_found_here_too_and_progress_is_told(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    await (await filled(path, 300)).aclose()
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE meta SET value = '0' WHERE key = 'store.clean'")
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'views'").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    told: list[tuple[int, float, bool]] = []
    async with await SqliteStore.open(path, create=False, read_only=True, checking=lambda *what: told.append(what)):
        pass
    assert told[0] == (path.stat().st_size, 0.0, False)
    assert [done for _, _, done in told] == [False] * (len(told) - 1) + [True]
    whole = bytearray(path.read_bytes())
    whole[(page - 1) * size : page * size] = b"\x55" * size
    path.write_bytes(whole)
    with pytest.raises(StoreCorrupt):
        await SqliteStore.open(path, create=False, read_only=True)


async def test_a_copy_that_cannot_be_made_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder where the log should be, a disk without room for the copy that an old schema needs."""
    path = tmp_path / "s.sqlite"
    await (await filled(path, 1)).aclose()
    path.with_name("s.sqlite-wal").mkdir()
    with pytest.raises(StoreFault, match="cannot be opened"):
        await SqliteStore.open(path, create=False, read_only=True)
    path.write_bytes(gzip.decompress((make_store.HERE / "store-v1.sqlite.gz").read_bytes()))
    path.with_name("s.sqlite-wal").rmdir()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(StoreFull, match="no room"):
        await SqliteStore.open(path, create=False, read_only=True)

"""Files that are missing, foreign, damaged, too new, locked or full; exits that were not clean."""

from __future__ import annotations

import base64
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from memory.errors import NotStored, StoreBusy, StoreCorrupt, StoreFault, StoreFull, StoreTooNew
from memory.store import files, migrations, owner
from memory.store.migrations import MIGRATIONS, Migration, applied, migrate
from memory.store.sqlite import SqliteStore
from tests.memory.store.build import chunk, view

NEXT = MIGRATIONS[-1].number + 1


def by_hand(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def noise(seed: int, size: int = 2000) -> str:
    """Characters that hardly compress."""
    return base64.b85encode(random.Random(seed).randbytes(size)).decode()[:size]


async def filled(path: Path, steps: int = 20) -> Path:
    async with await SqliteStore.open(path, create=True) as store:
        for number in range(1, steps + 1):
            await store.commit_step(chunk(number, noise(number)))
            await store.add_views([view(number)])
    return path


def unclean(path: Path) -> None:
    by_hand(path, "UPDATE meta SET value = '0' WHERE key = 'store.clean'")


def content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


async def refused(path: Path, error: type[Exception], *, create: bool = False) -> str:
    """Opening raises ``error`` and leaves every byte as it was."""
    before = content(path)
    with pytest.raises(error) as caught:
        await SqliteStore.open(path, create=create)
    assert content(path) == before
    return str(caught.value)


async def test_a_missing_file_is_not_made_silently(tmp_path):
    assert "no session store" in await refused(tmp_path / "none.db", NotStored)
    assert list(tmp_path.iterdir()) == []


async def test_create_leaves_one_whole_file_and_never_replaces_one(tmp_path):
    path = await filled(tmp_path / "s.db", 3)
    assert [entry.name for entry in tmp_path.iterdir()] == ["s.db"]
    async with await SqliteStore.open(path, create=True) as store:
        assert await store.last_step() == 3


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("content", [b"", b"just some text\n" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
async def test_what_is_not_a_store(tmp_path, content, create):
    path = tmp_path / "s.db"
    path.write_bytes(content)
    await refused(path, StoreCorrupt, create=create)


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize(
    "statements", [("CREATE TABLE steps (number)",), ("PRAGMA user_version = 3",), ("PRAGMA application_id = 77",)]
)
async def test_somebody_elses_database(tmp_path, statements, create):
    path = tmp_path / "s.db"
    by_hand(path, *statements)
    await refused(path, StoreCorrupt, create=create)


async def test_a_folder_and_a_missing_folder(tmp_path):
    with pytest.raises(StoreFault):
        await SqliteStore.open(tmp_path, create=True)
    with pytest.raises(StoreFault):
        await SqliteStore.open(tmp_path / "no" / "s.db", create=True)


async def test_a_truncated_file_is_refused_at_open(tmp_path):
    whole = (await filled(tmp_path / "s.db")).read_bytes()
    for size in range(4096, len(whole), 4096):
        cut = tmp_path / f"cut{size}.db"
        cut.write_bytes(whole[:size])
        await refused(cut, StoreCorrupt)


async def test_damage_is_found_at_open_after_an_unclean_exit(tmp_path):
    path = await filled(tmp_path / "s.db")
    unclean(path)
    async with await SqliteStore.open(path, create=False) as store:
        assert await store.last_step() == 20
    unclean(path)
    whole = bytearray(path.read_bytes())
    root = sqlite3.connect(path)
    (page,) = root.execute("SELECT rootpage FROM sqlite_master WHERE name = 'views'").fetchone()
    (size,) = root.execute("PRAGMA page_size").fetchone()
    root.close()
    whole[(page - 1) * size : page * size] = b"\x55" * size
    path.write_bytes(whole)
    await refused(path, StoreCorrupt)


async def test_damage_found_while_reading_has_a_name(tmp_path):
    path = await filled(tmp_path / "s.db", 3)
    connection = sqlite3.connect(path)
    connection.execute("DROP TRIGGER steps_keep")
    connection.execute("UPDATE steps SET observations = '[[' WHERE number = 2")
    connection.commit()
    connection.close()
    async with await SqliteStore.open(path, create=False) as store:
        assert await store.chunks([1]) == [chunk(1, noise(1))]
        with pytest.raises(StoreCorrupt):
            await store.chunks([2])


async def test_a_newer_schema_is_refused_by_name(tmp_path):
    path = await filled(tmp_path / "s.db", 1)
    by_hand(path, "INSERT INTO migrations VALUES (99, 'from the future', 0)")
    assert "99" in await refused(path, StoreTooNew)


async def test_the_clean_mark(tmp_path):
    path = await filled(tmp_path / "s.db", 1)
    async with await SqliteStore.open(path, create=False) as store:
        assert await store.meta("store.clean") == "1"
        await store.last_step()
        assert await store.meta("store.clean") == "1"
        await store.set_meta({"x": "y"})
        assert await store.meta("store.clean") == "0"
    async with await SqliteStore.open(path, create=False) as store:
        assert await store.meta("store.clean") == "1"


def test_a_migration_is_applied_whole_or_not_at_all(tmp_path):
    connection = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
    migrate(connection)
    broken = (*MIGRATIONS, Migration(NEXT, "breaks", ("CREATE TABLE two (x)", "CREATE TABLE meta (x)")))
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection, broken)
    assert applied(connection) == NEXT - 1
    good = (*MIGRATIONS, Migration(NEXT, "works", ("CREATE TABLE two (x)",)))
    assert migrate(connection, good) == [NEXT]
    assert migrate(connection, good) == []
    assert applied(connection) == NEXT
    connection.close()


def know(patch: pytest.MonkeyPatch, known: tuple[Migration, ...]) -> None:
    patch.setattr(migrations.pending, "__defaults__", (known,))
    patch.setattr(migrations.migrate, "__defaults__", (known,))


async def test_an_older_schema_is_brought_up_with_its_content(tmp_path, monkeypatch):
    path = await filled(tmp_path / "s.db", 4)
    newer = (*MIGRATIONS, Migration(NEXT, "adds a table", ("CREATE TABLE two (x)",)))
    async with await SqliteStore.open(path, create=False) as store:
        await store._database.write(lambda c: owner.take(c, owner.this_process("older version")))
    before = content(path)
    with monkeypatch.context() as patch:
        know(patch, newer)
        assert "older version" in await refused(path, StoreBusy)
    assert content(path) == before
    by_hand(path, "UPDATE owner SET boot = 'an earlier one'")
    know(monkeypatch, newer)
    async with await SqliteStore.open(path, create=False) as store:
        assert await store.schema() == NEXT
        assert await store.chunks([4]) == [chunk(4, noise(4))]


async def test_a_locked_store_is_busy_and_then_free(tmp_path):
    path = await filled(tmp_path / "s.db", 1)
    other = sqlite3.connect(path, isolation_level=None)
    async with await SqliteStore.open(path, create=False, busy_timeout_s=0.01) as store:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy) as caught:
            await store.commit_step(chunk(2))
        assert caught.value.retryable
        assert await store.last_step() == 1
        other.execute("ROLLBACK")
        await store.commit_step(chunk(2))
    other.close()


async def test_a_full_store_stops_by_name_and_loses_nothing(tmp_path):
    path = await filled(tmp_path / "s.db", 1)
    async with await SqliteStore.open(path, create=False) as store:
        (pages,) = await store._write(lambda c: c.execute("PRAGMA page_count").fetchone())
        await store._write(lambda c: c.execute(f"PRAGMA max_page_count = {pages + 20}").fetchone())
        done = 1
        with pytest.raises(StoreFull):
            while True:
                await store.commit_step(chunk(done + 1, noise(done, 30_000)))
                done += 1
        assert 1 < done < 10
        assert await store.last_step() == done
        await store._write(lambda c: c.execute("PRAGMA max_page_count = 100000").fetchone())
        await store.commit_step(chunk(done + 1, noise(done, 30_000)))


_FILL = """
import asyncio, random, sys
sys.path.insert(0, {root!r})
from memory.errors import StoreFull
from memory.store.sqlite import SqliteStore
from tests.memory.store.build import chunk

async def main(path):
    store = await SqliteStore.open(path, create=True)
    done = 0
    try:
        while True:
            await store.commit_step(chunk(done + 1, random.Random(done).randbytes(2500).hex()))
            done += 1
    except StoreFull:
        assert await store.last_step() == done
    await store.aclose()
    store = await SqliteStore.open(path, create=False)
    assert await store.last_step() == done
    assert len(await store.chunks(range(1, done + 1))) == done
    await store.aclose()
    assert done > 10, done

asyncio.run(main({mount!r} + "/s.db"))
"""


def test_a_disk_that_is_really_full(tmp_path):
    program = tmp_path / "fill.py"
    mount = tmp_path / "small"
    mount.mkdir()
    program.write_text(_FILL.format(root=str(Path(__file__).parents[3]), mount=str(mount)))
    script = f"mount -t tmpfs -o size=600k none {mount} && {sys.executable}"
    unshare = shutil.which("unshare")
    if not unshare or subprocess.run([unshare, "-rm", "sh", "-c", f"{script} -c ''"], capture_output=True).returncode:
        pytest.skip("needs mount namespaces")
    ran = subprocess.run([unshare, "-rm", "sh", "-c", f"{script} {program}"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


async def test_a_read_only_file_can_be_read(tmp_path):
    path = await filled(tmp_path / "s.db", 1)
    path.chmod(0o400)
    if os.access(path, os.W_OK):
        pytest.skip("this user may write anything")
    async with await SqliteStore.open(path, create=False) as store:
        assert await store.last_step() == 1
        with pytest.raises(StoreFault, match="not for writing"):
            await store.commit_step(chunk(2))


_WRITER = """
import asyncio, sys
sys.path.insert(0, {root!r})
from memory.store.sqlite import SqliteStore
from tests.memory.store.build import chunk, view

async def main():
    store = await SqliteStore.open({path!r}, create=True)
    await store.claim("crash test")
    number = await store.last_step()
    while True:
        number += 1
        await store.commit_step(chunk(number, "x" * (number % 7) * 1000))
        print(number, flush=True)
        await store.add_views([view(number)])

asyncio.run(main())
"""


def started(program: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)


async def test_kill_loses_no_acknowledged_step(tmp_path):
    path = tmp_path / "s.db"
    program = _WRITER.format(root=str(Path(__file__).parents[3]), path=str(path))
    acknowledged = 0
    for lines in (3, 17, 40, 9):
        child = started(program)
        for _ in range(lines):
            acknowledged = int(child.stdout.readline())
        with pytest.raises(StoreBusy, match=f"process {child.pid} "):
            async with await SqliteStore.open(path, create=False) as second:
                await second.claim("second")
        child.send_signal(signal.SIGKILL)
        acknowledged = max([acknowledged, *map(int, child.stdout.read().split())])
        child.wait()
        child.stdout.close()
        async with await SqliteStore.open(path, create=False) as store:
            last = await store.last_step()
            assert acknowledged <= last <= acknowledged + 1
            assert [c.step.number for c in await store.chunks(range(1, last + 1))] == list(range(1, last + 1))
            assert await store.owner() is None


async def test_a_store_whose_log_cannot_be_written_back_never_appears(tmp_path, monkeypatch):
    """A full disk does this while the file is made; here a reader keeps the log from being written back."""
    path = tmp_path / "s.sqlite"
    readers = []

    def read_on(connection):
        (file,) = tmp_path.glob("*.new")
        readers.append(reader := sqlite3.connect(file))
        reader.execute("BEGIN")
        reader.execute("SELECT name FROM sqlite_master").fetchall()
        migrate(connection)

    monkeypatch.setattr(files, "migrate", read_on)
    with pytest.raises(StoreFault, match="cannot be created"):
        files.create_file(path, busy_timeout_s=0.05)
    for reader in readers:
        reader.close()
    assert not path.exists()
    monkeypatch.undo()
    files.create_file(path, busy_timeout_s=1)
    async with await SqliteStore.open(path, create=False) as store:
        assert await store.last_step() == 0

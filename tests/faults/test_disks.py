"""Disks that are full, read-only, damaged or cut short, stores that somebody locks, and clocks that jump."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agent.events import AnyEvent, ModelReplied
from agent.session import Outcome
from memory.errors import MemoryFault, StoreBusy, StoreCorrupt, StoreFault
from memory.records import JsonValue, Step
from memory.store import reads
from memory.store.sqlite import SqliteStore
from memory.store.verify import verify
from tests.agent.bench import Setup, bench
from tests.faults.player import STORE, finish, play
from tests.faults.script import SCRIPT, Playing, World, steps_of, transcript
from tests.memory.store.places import reading
from tests.support.mounts import in_namespace, read_only, small

FILL = """
import asyncio, json, pathlib, sys
from tests.faults.player import play
from tests.faults.survivor import Survivor
from tests.memory.store.places import reading
from tests.faults.script import transcript

folder, room = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[1]) / "ballast"
survivor, ends = Survivor(folder), []
step = int(sys.argv[2])
room.write_bytes(b"x" * (int(sys.argv[3]) * 1024))
for _ in range(200):
    try:
        ends.append(asyncio.run(play(folder)).status)
    except Exception as fault:
        ends.append(type(fault).__name__)
    survivor.look()
    if ends[-1] == "completed":
        break
    with room.open("rb+") as file:
        file.truncate(max(0, room.stat().st_size - step * 1024))
print(json.dumps([ends, transcript(survivor.steps())]))
"""


@pytest.fixture
def memory_disk() -> Iterator[Path]:
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, list[JsonValue]]:
    """An uninterrupted session: its store and its transcript."""
    folder = tmp_path_factory.mktemp("whole")
    assert asyncio.run(play(folder)).status == "completed"
    with closing(reading(folder / STORE)) as connection:
        steps = [c.step for c in reads.chunks(connection, range(1, reads.last_step(connection) + 1))]
    return (folder / STORE).read_bytes(), transcript(steps)


def test_a_disk_that_fills_up_again_and_again(tmp_path: Path, whole: tuple[bytes, list[JsonValue]]) -> None:
    """Room is given back a little at a time; each run goes as far as it reaches, and says why it stopped."""
    folder = tmp_path / "small"
    folder.mkdir()
    ran = in_namespace(small(folder, 6_000), ["-c", FILL, str(folder), "100", "5800"])
    assert ran.returncode == 0, ran.stderr
    ends, came_to = json.loads(ran.stdout.splitlines()[-1])
    assert came_to == whole[1]
    assert ends[-1] == "completed"
    assert set(ends[:-1]) <= {"storage_full", "StoreFull"}, ends
    assert ends.count("storage_full") >= 2


RESUME = """
import asyncio, pathlib, sys
from memory.errors import StoreFault
from tests.faults.player import play

try:
    asyncio.run(play(pathlib.Path(sys.argv[1])))
except StoreFault as fault:
    print(fault.hint)
"""


def test_a_read_only_folder_refuses_by_name(tmp_path: Path, whole: tuple[bytes, list[JsonValue]]) -> None:
    (tmp_path / STORE).write_bytes(whole[0])
    ran = in_namespace(read_only(tmp_path), ["-c", RESUME, str(tmp_path)])
    assert (ran.returncode, ran.stdout.strip()) == (0, "check the folder and its permissions"), ran.stderr
    assert (tmp_path / STORE).read_bytes() == whole[0]


async def test_a_store_that_somebody_locks(memory_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For longer than anyone waits: the run stops by name, and goes on once the lock is gone."""
    monkeypatch.setitem(SqliteStore.open.__func__.__kwdefaults__, "busy_timeout_s", 0.01)  # type: ignore[attr-defined]
    path = memory_disk / STORE
    model = Playing()
    tools = [World(name) for name in ("search", "visit", "python")]
    async with bench(path, model, tools, Setup(policy="fold-range", owned=True)) as b:  # type: ignore[arg-type]
        model.store = b.store
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy):
            await finish(b)
        other.execute("ROLLBACK")

        def lock(event: AnyEvent) -> None:
            if isinstance(event, ModelReplied) and event.step in (2, 6, 9) and not other.in_transaction:
                other.execute("BEGIN IMMEDIATE")

        b.loop.bus.subscribe(lock)
        ends = []
        for _ in range(3):
            ends.append((await finish(b)).status)
            other.execute("ROLLBACK")
        assert ends == ["store_busy"] * 3
        b.loop.bus = type(b.loop.bus)()
        assert (await finish(b)).status == "completed"
        other.close()
        assert len(transcript(await steps_of(b.store))) == len(SCRIPT)


PAGES = 40
"""Damaged pages that are tried."""


def damage(path: Path, whole: bytes, number: int, rng: random.Random) -> None:
    size = int.from_bytes(whole[16:18], "big")
    spoilt = bytearray(whole)
    pages = len(whole) // size
    page = number % pages
    first = page * size + rng.randrange(0, size - 64)
    length = rng.choice([1, 16, 64, size - first % size])
    spoilt[first : first + length] = rng.randbytes(length)
    path.write_bytes(spoilt)


async def test_a_damaged_page_is_named_or_does_no_harm(memory_disk: Path, whole: tuple[bytes, list[JsonValue]]) -> None:
    """After an unclean exit a store with a spoilt page is refused, or everything that is read of it is right or
    refused: nothing wrong is shown. `verify` finds every text that is not what it was."""
    rng = random.Random(7)
    unclean = spoiled_mark(memory_disk, whole[0])
    refused = 0
    for number in range(PAGES):
        path = memory_disk / f"{number}.sqlite"
        damage(path, unclean, number, rng)
        try:
            async with await SqliteStore.open(path, create=False, read_only=True) as store:
                wrong = [finding for finding in await store.verify() if finding.problems]
                steps = await read(store)
                assert wrong or transcript(steps) == whole[1]
        except MemoryFault:
            refused += 1
    assert refused > PAGES // 4


async def read(store: SqliteStore) -> Sequence[Step]:
    return await steps_of(store)


def spoiled_mark(folder: Path, whole: bytes) -> bytes:
    path = folder / "unclean"
    path.write_bytes(whole)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE meta SET value = '0' WHERE key = 'store.clean'")
    return path.read_bytes()


async def logged(folder: Path) -> tuple[Path, list[list[Step]]]:
    """A store as a kill leaves it, with everything in its log, and the sessions that a prefix of the log may hold."""
    path = folder / "live.sqlite"
    tools = [World(name) for name in ("search", "visit", "python")]
    model = Playing()
    async with bench(path, model, tools, Setup(policy="fold-range", owned=True)) as b:  # type: ignore[arg-type]
        model.store = b.store
        await finish(b)
        steps = await steps_of(b.store)
        await asyncio.to_thread(shutil.copy, path, folder / "cut.sqlite")
        await asyncio.to_thread(shutil.copy, f"{path}-wal", folder / "whole-wal")
    return folder / "cut.sqlite", [steps[:count] for count in range(len(steps) + 1)]


def cut_log(folder: Path, store: bytes, log: bytes, size: int) -> Path:
    path = folder / f"cut{size}.sqlite"
    path.write_bytes(store)
    path.with_name(path.name + "-wal").write_bytes(log[:size])
    return path


async def test_a_log_cut_anywhere_gives_a_whole_beginning(memory_disk: Path) -> None:
    cut, beginnings = await logged(memory_disk)
    store, log = await asyncio.to_thread(lambda: (cut.read_bytes(), (memory_disk / "whole-wal").read_bytes()))
    rng = random.Random(9)
    found = set()
    for size in (0, 1, 32, len(log) - 1, len(log), *(rng.randrange(len(log)) for _ in range(25))):
        path = cut_log(memory_disk, store, log, size)
        async with await SqliteStore.open(path, create=False) as opened_again:
            steps = await steps_of(opened_again)
            assert steps == beginnings[len(steps)]
            found.add(len(steps))
        with closing(reading(path)) as connection:
            assert [finding for finding in verify(connection) if finding.problems] == []
    assert max(found) == len(beginnings) - 1
    assert len(found) > 5


@dataclass
class Jumping:
    """A clock whose time of day goes forward and back by years, and whose seconds go on."""

    jumps: Iterator[float] = field(default_factory=lambda: itertools.cycle([2e9, 0.0, 1.7e9, -5e8, 4e9]))
    seconds: float = 0.0

    def time(self) -> float:
        return next(self.jumps)

    def monotonic(self) -> float:
        self.seconds += 0.001
        return self.seconds


async def test_a_clock_that_jumps(
    memory_disk: Path, whole: tuple[bytes, list[JsonValue]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Order comes from numbers alone, limits from seconds that only go on."""
    clock = Jumping()
    monkeypatch.setattr("time.time", clock.time)
    tools = [World(name) for name in ("search", "visit", "python")]
    outcome: Outcome | None = None
    for _ in range(2):
        model = Playing()
        setup = Setup(policy="fold-range", owned=True, clock=clock)  # type: ignore[arg-type]
        async with bench(memory_disk / STORE, model, tools, setup) as b:  # type: ignore[arg-type]
            model.store = b.store
            outcome = await finish(b)
            steps = await steps_of(b.store)
            assert all(one.same for one in await b.memory.rebuild_all())
    assert outcome is not None and outcome.status == "completed"
    assert transcript(steps) == whole[1]
    assert [step.created for step in steps] != sorted(step.created for step in steps)


async def test_what_a_store_refuses_it_says(memory_disk: Path) -> None:
    """Every fault of the store carries what a person can do."""
    (memory_disk / "bad.sqlite").write_bytes(b"no database" * 1000)
    with pytest.raises(StoreCorrupt) as corrupt:
        await SqliteStore.open(memory_disk / "bad.sqlite", create=False)
    with pytest.raises(StoreFault) as missing:
        await SqliteStore.open(memory_disk / "no" / "s.sqlite", create=True)
    assert corrupt.value.hint and missing.value.hint

"""Two processes that want one session: exactly one has it, and one that lost it stops."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from memory.errors import StoreBusy
from memory.store import reads
from memory.store.owner import this_process
from memory.store.sqlite import SqliteStore
from tests.faults.survivor import opened
from tests.faults.zygote import Zygote

STATES = ("none", "new", "free", "left", "killed")
"""What the racers find: no file, a file that nobody owned yet, one given up in order, one whose owner is gone (by its
record), one whose owner was killed at work."""


@pytest.fixture(scope="module")
def disk() -> Iterator[Path]:
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def zygote(disk: Path) -> Iterator[Zygote]:
    (disk / "scratch").mkdir()
    with Zygote(disk / "scratch") as running:
        yield running


async def prepare(path: Path, state: str) -> None:
    if state == "none":
        return
    async with await SqliteStore.open(path, create=True) as store:
        if state == "free":
            await store.claim("earlier")
        if state == "left":
            gone = this_process("earlier")
            await store._database.write(
                lambda c: c.execute(
                    "INSERT INTO owner VALUES (1, ?, 'earlier', ?, '1', ?, 'here', 0)",
                    (gone.token, gone.pid, gone.boot),
                )
            )


def race(zygote: Zygote, folder: Path, state: str, racers: int) -> None:
    """Racers start together; the winner writes steps and holds the session until every other has been refused."""
    folder.mkdir()
    path = folder / "s.sqlite"
    asyncio.run(prepare(path, state))
    if state == "killed":
        assert zygote.run("claim", folder=str(folder), racers=1, die=True).killed
    ended = zygote.run_all([{"job": "claim", "folder": str(folder), "racers": racers}] * racers)
    assert all(one.code == 0 for one in ended), ended
    results = [one.result for one in ended]
    assert sorted(result["won"] for result in results) == [False] * (racers - 1) + [True], results
    (winner,) = [result["pid"] for result in results if result["won"]]
    for result in results:
        assert result["won"] or f"process {winner} " in result["said"]
    with closing(opened(path)) as connection:
        thoughts = {chunk.step.thought for chunk in reads.chunks(connection, range(1, reads.last_step(connection) + 1))}
    assert thoughts == {str(winner)} | ({"killed"} if state == "killed" else set())


def races(zygote: Zygote, disk: Path, count: int, seed: int) -> None:
    rng = random.Random(seed)
    for number in range(count):
        race(zygote, disk / f"race-{seed}-{number}", STATES[number % len(STATES)], rng.choice((2, 2, 3)))


def test_fifty_races(zygote: Zygote, disk: Path) -> None:
    races(zygote, disk, 50, 1)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_five_hundred_races(zygote: Zygote, disk: Path) -> None:
    """Some 50 seconds."""
    races(zygote, disk, 500, 2)


def test_an_owner_that_wakes_up_stops_before_it_asks_or_acts_again(zygote: Zygote, disk: Path) -> None:
    """Displaced while its model is asked: no tool runs, nothing is written, the run ends by name; its successor's
    session is whole."""
    folder = disk / "woken"
    folder.mkdir()
    ended = zygote.run("woken", folder=str(folder))
    assert ended.code == 0, ended.error
    assert ended.result["status"] == "store_busy"
    assert ended.result["effects"] == ended.result["effects_before"]
    assert ended.result["steps"] == ended.result["steps_before"] + 1
    assert ended.result["owner"] == "successor"


async def test_two_sessions_of_one_process_are_two_owners(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    async with await SqliteStore.open(path, create=True) as first, await SqliteStore.open(path, create=False) as second:
        done = await asyncio.gather(first.claim("a"), second.claim("b"), return_exceptions=True)
        assert [type(one) for one in done].count(StoreBusy) == 1

"""Two processes that want one session: exactly one has it, and one that lost it stops."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from memory.errors import StoreBusy
from memory.store import reads
from memory.store.address import Address
from memory.store.owner import this_process
from memory.store.sqlite import SqliteStore
from tests.faults.player import begin, place_of
from tests.faults.zygote import Zygote
from tests.memory.store.places import looking, open_at

STATES = ("none", "new", "free", "left", "killed")
"""What the racers find: no file, a file that nobody owned yet, one given up in order, one whose owner is gone (by its
record), one whose owner was killed at work."""


async def prepare(where: Path | Address, state: str) -> None:
    if state == "none":
        return
    async with await open_at(where, create=True) as store:
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


def race(zygote: Zygote, folder: Path, state: str, racers: int, database: Address | None = None) -> None:
    """Racers start together; the winner writes steps and holds the session until every other has been refused."""
    begin(folder, database)
    asyncio.run(prepare(place_of(folder), state))
    if state == "killed":
        assert zygote.run("claim", folder=str(folder), racers=1, die=True).killed
    ended = zygote.run_all([{"job": "claim", "folder": str(folder), "racers": racers}] * racers)
    assert all(one.code == 0 for one in ended), ended
    results = [one.result for one in ended]
    assert sorted(result["won"] for result in results) == [False] * (racers - 1) + [True], results
    (winner,) = [result["pid"] for result in results if result["won"]]
    for result in results:
        assert result["won"] or f"process {winner} " in result["said"]
    with looking(place_of(folder)) as connection:
        assert connection is not None
        thoughts = {chunk.step.thought for chunk in reads.chunks(connection, range(1, reads.last_step(connection) + 1))}
    assert thoughts == {str(winner)} | ({"killed"} if state == "killed" else set())


def races(zygote: Zygote, disk: Path, count: int, seed: int, database: Address | None = None) -> None:
    rng = random.Random(seed)
    for number in range(count):
        race(zygote, disk / f"race-{seed}-{number}", STATES[number % len(STATES)], rng.choice((2, 2, 3)), database)


def test_fifty_races(zygote: Zygote, disk: Path) -> None:
    races(zygote, disk, 50, 1)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_five_hundred_races(zygote: Zygote, disk: Path) -> None:
    """Some 50 seconds."""
    races(zygote, disk, 500, 2)


def woken(zygote: Zygote, folder: Path, database: Address | None = None) -> None:
    """An owner is displaced while its model is asked: no tool runs, nothing is written, the run ends by name; its
    successor's session is whole."""
    begin(folder, database)
    ended = zygote.run("woken", folder=str(folder))
    assert ended.code == 0, ended.error
    assert ended.result["status"] == "store_busy"
    assert ended.result["effects"] == ended.result["effects_before"]
    assert ended.result["steps"] == ended.result["steps_before"] + 1
    assert ended.result["owner"] == "successor"


def test_an_owner_that_wakes_up_stops_before_it_asks_or_acts_again(zygote: Zygote, disk: Path) -> None:
    woken(zygote, disk / "woken")


async def test_two_sessions_of_one_process_are_two_owners(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    async with await SqliteStore.open(path, create=True) as first, await SqliteStore.open(path, create=False) as second:
        done = await asyncio.gather(first.claim("a"), second.claim("b"), return_exceptions=True)
        assert [type(one) for one in done].count(StoreBusy) == 1

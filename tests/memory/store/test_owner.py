"""One writing process per session."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys

import pytest

from memory.errors import StoreBusy
from memory.store import owner
from memory.store.sqlstore import SqlStore
from tests.memory.store.build import chunk
from tests.memory.store.places import taken_for_dead


@pytest.fixture(autouse=True)
async def made(place):
    async with await place.open():
        pass


def left_by(pid: int, **changes: str) -> owner.Owner:
    return dataclasses.replace(owner.this_process("earlier run"), pid=pid, **changes)


def gone() -> int:
    """A pid that belonged to a process which has ended."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


async def record(store: SqlStore, held: owner.Owner) -> None:
    await store._database.write(lambda c: owner.take(c, held))


async def test_a_second_claim_is_refused_by_pid_until_release(place):
    async with (
        await place.open(create=False) as first,
        await place.open(create=False) as second,
    ):
        assert await first.claim("run") is None
        assert await first.claim("run") is None
        assert (await second.owner()).label == "run"
        with pytest.raises(StoreBusy, match=f"process {os.getpid()} .*run"):
            await second.claim()
        with pytest.raises(StoreBusy, match=f"process {os.getpid()} "):
            await second.commit_step(chunk(1))
        await first.commit_step(chunk(1))
        assert await second.last_step() == 1
        await first.release()
        await first.release()
        assert await second.owner() is None
        assert await second.claim() is None
        await second.commit_step(chunk(2))


async def test_closing_gives_the_session_up(place):
    async with await place.open(create=False) as first:
        await first.claim()
    async with await place.open(create=False) as second:
        assert await second.claim() is None


@pytest.mark.parametrize("case", ["no such process", "another boot", "pid used again"])
async def test_a_dead_owner_is_taken_over(place, case):
    dead = {
        "no such process": lambda: left_by(gone()),
        "another boot": lambda: left_by(os.getpid(), boot="an earlier one"),
        "pid used again": lambda: left_by(os.getpid(), started="1"),
    }[case]()
    async with await place.open(create=False) as store:
        await record(store, dead)
        assert await store.owner() is None
        with pytest.raises(StoreBusy, match="not claimed"):
            await store.commit_step(chunk(1))
        assert await store.claim() == dead
        await store.commit_step(chunk(1))


async def test_an_owner_that_was_displaced_stops(place):
    async with (
        await place.open(create=False) as old,
        await place.open(create=False) as new,
    ):
        await old.claim()
        await taken_for_dead(old, new)
        await new.claim("successor")
        await new.commit_step(chunk(1))
        with pytest.raises(StoreBusy, match="successor"):
            await old.commit_step(chunk(2))
        await old.aclose()
        assert (await new.owner()).label == "successor"
        await new.commit_step(chunk(2))


async def test_the_record_gone_stops_the_owner_too(place):
    async with await place.open(create=False) as store:
        await store.claim()
        await store._database.write(lambda c: c.execute("DELETE FROM owner"))
        with pytest.raises(StoreBusy, match="no longer owns"):
            await store.commit_step(chunk(1))


def test_a_process_knows_itself():
    mine = owner.this_process("x")
    assert mine.alive()
    assert mine.token != owner.this_process("x").token
    if owner.boot_id():
        assert owner.process_start(gone()) == ""

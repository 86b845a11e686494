"""memory size and compact, as a person uses them."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from memory.lifecycle.compact import Compaction
from memory.lifecycle.tombstones import EvictionRule
from memory.records import Level, Step, View
from memory.store.sqlite import SqliteStore
from runners import compacting
from runners.folders import SessionFolder
from runners.trajectory import TrajectoryFile
from tests.memory.sessions import page, visit_step
from tests.runners.command import Command
from tests.runners.sessions.made import QUESTIONS, make_session


def long_session(home: Path) -> SessionFolder:
    """Forty visits, the tenth cited, the twentieth without a summary, the thirtieth a copy of the fifth."""
    texts = {number: page(5 if number == 30 else number, 60) for number in range(1, 41)}
    given: list[Step] = [visit_step(number, text) for number, text in texts.items()]
    given.append(Step(41, "answer", answer="In 1831 [c10].", question=QUESTIONS[0]))
    folder = make_session(home, "a", [replace(step, created=1.0) for step in given])

    async def summarise() -> None:
        async with await SqliteStore.open(folder.store, create=False) as store:
            made = [
                View(number, level, f"summary {level.name} of {number} " * 9 * level, 60 * level, producer="test")
                for number in range(1, 41)
                if number != 20
                for level in (Level.BRIEF, Level.DETAILED)
            ]
            await store.add_views(made)

    asyncio.run(summarise())
    TrajectoryFile(folder.trajectory).append(given)
    return folder


def test_size(command: Command) -> None:
    folder = long_session(command.home)
    ended = command("memory", "size", "a")
    assert ended.report["file"] == folder.store.stat().st_size
    parts = ("observations", "packs", "steps_text", "summaries", "keys", "plans", "other", "free")
    assert sum(ended.report[part] for part in parts) == ended.report["file"]
    assert ended.report["steps"] == 41 and "41 steps" in ended.out


def test_compact(command: Command) -> None:
    folder = long_session(command.home)
    before = folder.store.stat().st_size
    trajectory = folder.trajectory.read_bytes()
    dry = command("memory", "compact", "a", "--hot", "4", "--dry-run")
    assert folder.store.stat().st_size == before and "would be packed" in dry.out
    done = command("memory", "compact", "a", "--hot", "4")
    assert done.code == 0
    exact = ("packed", "packed_before", "packed_after", "duplicates", "views_merged", "tokens_saved", "evicted")
    assert {name: dry.report[name] for name in exact} == {name: done.report[name] for name in exact}
    assert (done.report["packed"], done.report["duplicates"], done.report["identical"]) == (37, 1, 1)
    assert done.report["freed"] == before - folder.store.stat().st_size > 0
    assert folder.trajectory.read_bytes() == trajectory
    assert command("memory", "size", "a").report["packed_steps"] == 37
    assert "word for word" in json.dumps(done.report) or done.report["views_merged"] == 2


def test_eviction_asks_and_takes_the_trajectory_along(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = long_session(command.home)
    gone, cited = page(8, 60), page(10, 60)
    arguments = ("memory", "compact", "a", "--hot", "4", "--evict-before", "30")
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    assert command(*arguments).code == 1
    assert gone in folder.trajectory.read_text()
    done = command(*arguments, "--yes")
    assert (done.report["evicted"], done.report["kept_without_summary"]) == (27, 1)
    written = folder.trajectory.read_text()
    assert gone not in written and cited in written and len(written.splitlines()) == 41
    shown = command("sessions", "export", "a", "--out", "-", report=False).out
    assert "removed on" in shown and gone not in shown and cited in shown
    again = command("memory", "compact", "a", "--hot", "4", "--evict-to", "40KB", "--yes")
    assert again.code == 0 and again.report["evicted"] > 0


def test_a_held_session_is_refused(command: Command) -> None:
    folder = long_session(command.home)

    async def compact() -> int:
        async with await SqliteStore.open(folder.store, create=False) as store:
            await store.claim("run")
            return (await asyncio.to_thread(command, "memory", "compact", "a")).code

    assert asyncio.run(compact()) == 1


def test_bad_input(command: Command) -> None:
    make_session(command.home, "a")
    assert command("memory", "compact", "nothing").code == 2
    assert command("memory", "compact", "a", "--evict-to", "much", "--yes").code == 2
    assert command("memory", "compact", "a", "--hot", "0").code == 2


def test_an_eviction_that_was_cut_off_before_the_trajectory_is_finished(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the two: the trajectory does not keep for ever what has gone from the store."""
    folder, gone = long_session(command.home), page(8, 60)
    rule = Compaction(hot=4, rule=EvictionRule(before_step=30))

    async def killed(*given: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(compacting, "_write_trajectory", killed)
        asyncio.run(compacting.compact_session(folder, rule))
    assert gone in folder.trajectory.read_text()
    done = command("memory", "compact", "a", "--hot", "4")
    assert (done.code, done.report["evicted"]) == (0, 0)
    assert gone not in folder.trajectory.read_text()
    after = folder.trajectory.stat()
    assert command("memory", "compact", "a", "--hot", "4").code == 0
    assert folder.trajectory.stat().st_ino == after.st_ino

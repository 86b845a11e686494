"""sessions rm: by name and by rule, asked first, never what is held, nothing left behind."""

from __future__ import annotations

import asyncio
import io
import sys
from pathlib import Path

import pytest

from memory.store.sqlite import SqliteStore
from runners.sessions.catalogue import SessionEntry
from runners.sessions.remove import Retention, age
from tests.runners.command import Command, Ended
from tests.runners.sessions.made import make_session
from tests.runners.sessions.test_list import damage


def names(home: Path) -> set[str]:
    return {path.name for path in (home / "runs").iterdir()}


def test_it_asks(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    make_session(command.home, "a")
    for answer in ("", "n\n"):
        monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
        ended = command("sessions", "rm", "a", report=False)
        assert ended.code == 1 and names(command.home) == {"a"}
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    ended = command("sessions", "rm", "a", report=False)
    assert (ended.code, ended.out.strip()) == (0, "removed a") and names(command.home) == set()


def test_which(command: Command) -> None:
    assert command("sessions", "rm", report=False).code == 2
    assert command("sessions", "rm", "nothing", "--yes", report=False).code == 2
    assert command("sessions", "rm", "a", "--keep", "3", "--yes", report=False).code == 2
    assert command("sessions", "rm", "--older-than", "soon", "--yes", report=False).code == 2
    assert "no such status" in command("sessions", "rm", "--status", "done", "--yes", report=False).error


def test_a_held_one_is_refused_and_the_others_go(command: Command) -> None:
    held = make_session(command.home, "held")
    make_session(command.home, "free")

    async def remove() -> int:
        async with await SqliteStore.open(held.store, create=False) as store:
            await store.claim("run")
            ended = await asyncio.to_thread(command, "sessions", "rm", "held", "free", "--yes", report=False)
            assert "held: not removed" in ended.err and "belongs to process" in ended.err
            return ended.code

    assert asyncio.run(remove()) == 1
    assert names(command.home) == {"held"} and held.config.exists()


def test_one_that_died_holding_it_goes(command: Command) -> None:
    folder = make_session(command.home, "a")

    async def die() -> None:
        async with await SqliteStore.open(folder.store, create=False) as store:
            await store._write(
                lambda c: c.execute("INSERT INTO owner VALUES (1, 't', 'run', 4194304, '1', 'other boot', 'h', 0.0)")
            )

    asyncio.run(die())
    assert command("sessions", "rm", "a", "--yes", report=False).code == 0
    assert names(command.home) == set()


def test_one_of_a_later_version_stays(command: Command) -> None:
    """Who holds it cannot be known."""
    folder = make_session(command.home, "a")

    async def age() -> None:
        async with await SqliteStore.open(folder.store, create=False) as store:
            await store._write(lambda c: c.execute("INSERT INTO migrations VALUES (999, 'later', 0.0)"))

    asyncio.run(age())
    (entry,) = command("sessions", "list").report["sessions"]
    assert entry["status"] == "broken" and "knows schemas up to" in entry["problem"]
    assert command("sessions", "rm", "a", "--yes", report=False).code == 1
    assert names(command.home) == {"a"}


def test_broken_ones_go_by_status(command: Command) -> None:
    make_session(command.home, "whole")
    said = damage(command.home)
    dry = command("sessions", "rm", "--status", "broken", "--dry-run", report=False)
    assert dry.out.splitlines()[-1] == f"{len(said)} sessions" and len(names(command.home)) == len(said) + 1
    assert command("sessions", "rm", "--status", "broken", "--yes", report=False).code == 0
    assert names(command.home) == {"whole"}


def test_a_broken_one_goes_by_name(command: Command) -> None:
    damage(command.home)
    assert command("sessions", "rm", "bare", "empty", "--yes", report=False).code == 0
    assert not {"bare", "empty"} & names(command.home)


def test_a_folder_of_the_user_keeps_what_is_not_ours(command: Command, tmp_path: Path) -> None:
    inside = make_session(command.home, "x")
    mine = tmp_path / "mine"
    inside.path.rename(mine)
    (mine / "notes.txt").write_text("keep me")
    assert command("sessions", "rm", str(mine), "--yes", report=False).code == 0
    assert [path.name for path in mine.iterdir()] == ["notes.txt"]


def test_a_removal_that_was_cut_off_is_finished(command: Command) -> None:
    half = make_session(command.home, "a").path
    half.rename(half.with_name("a.removing-0a1b2c3d"))
    make_session(command.home, "b")
    assert [entry["session"] for entry in command("sessions", "list").report["sessions"]] == ["b"]
    assert command("sessions", "rm", "b", "--yes", report=False).code == 0
    assert names(command.home) == set()


def entry(name: str, when: float, status: str = "completed") -> SessionEntry:
    return SessionEntry(name, name, status, 1, "", 1, "pace", when)


def test_retention() -> None:
    entries = [
        entry("e", 900),
        entry("d", 800, "running"),
        entry("c", 500, "crashed"),
        entry("b", 300),
        entry("a", 100),
    ]

    def gone(retention: Retention) -> str:
        return "".join(one.session for one in retention.chosen(entries, now=1000.0))

    assert gone(Retention(older_than=600)) == "ab"
    assert gone(Retention(older_than=0)) == "abce"
    assert gone(Retention(keep=4)) == "a"
    assert gone(Retention(older_than=600, keep=4)) == "a"
    assert gone(Retention(statuses=frozenset({"crashed", "running"}))) == "c"
    assert gone(Retention(keep=99)) == ""


def test_ages() -> None:
    assert (age("30d"), age("12h"), age("2w"), age("0s")) == (2592000, 43200, 1209600, 0)


def test_old_and_kept(command: Command) -> None:
    for name in ("a", "b", "c"):
        make_session(command.home, name)
    assert command("sessions", "rm", "--older-than", "30d", "--keep", "2", "--yes", report=False).out == "removed c\n"
    assert names(command.home) == {"a", "b"}


def test_a_dry_run_names_what_a_process_holds(command: Command) -> None:
    held, free = make_session(command.home, "a"), make_session(command.home, "b")

    async def hold() -> Ended:
        async with await SqliteStore.open(held.store, create=False) as store:
            await store.claim("run")
            return await asyncio.to_thread(command, "sessions", "rm", "a", "b", "--dry-run", report=False)

    said = asyncio.run(hold()).out.splitlines()
    assert said[0].startswith(f"would not remove {held.path}: held by process ")
    assert said[1:] == [f"would remove {free.path}", "1 sessions"]

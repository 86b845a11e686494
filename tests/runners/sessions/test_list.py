"""sessions list: every session in figures, broken ones as such."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from dataclasses import fields
from pathlib import Path

import pytest

from memory.store.sqlite import SqliteStore
from runners.sessions.catalogue import Catalogue, SessionEntry, catalogue
from tests.memory.store.test_upgrade import STORES, unpacked
from tests.runners.command import Command
from tests.runners.sessions.made import QUESTIONS, START, make_session, steps


def test_nothing(command: Command) -> None:
    ended = command("sessions", "list")
    assert (ended.code, ended.report) == (0, {"sessions": [], "missing": []})


def test_figures(command: Command) -> None:
    make_session(command.home, "a")
    make_session(command.home, "b", steps()[:3], status="", policy="mosaic")
    ended = command("sessions", "list")
    first, second = ended.report["sessions"]
    assert [first["session"], second["session"]] == ["a", "b"]
    assert set(first) == {field.name for field in fields(SessionEntry)}
    assert (first["status"], first["steps"], first["question"]) == ("completed", 8, QUESTIONS[0])
    assert (second["status"], second["steps"], second["policy"]) == ("open", 3, "mosaic")
    assert first["last_activity"] == START + 9 and second["last_activity"] == START + 3
    assert first["bytes"] == sum(p.stat().st_size for p in (command.home / "runs" / "a").iterdir())
    assert "2023-11-14" in ended.out and "harbour" in ended.out and "2 sessions" in ended.out
    assert [e["session"] for e in command("sessions", "list", "--status", "open").report["sessions"]] == ["b"]


def test_a_held_session_is_running(command: Command) -> None:
    folder = make_session(command.home, "a")

    async def held() -> Catalogue:
        async with await SqliteStore.open(folder.store, create=False) as store:
            await store.claim("run")
            return await asyncio.to_thread(catalogue, command.home)

    (entry,) = asyncio.run(held()).sessions
    assert entry.status == "running" and "held by process" in entry.problem


def damage(home: Path) -> dict[str, str]:
    """Sessions that are broken in different ways, by name with a part of what must be said."""
    said = {}
    for name in ("empty", "torn", "foreign", "garbage", "pages"):
        make_session(home, name)
    runs = home / "runs"
    (runs / "empty" / "session.sqlite").write_bytes(b"")
    said["empty"] = "empty"
    store = runs / "torn" / "session.sqlite"
    store.write_bytes(store.read_bytes()[:-1000])
    said["torn"] = "cut short"
    store = runs / "foreign" / "session.sqlite"
    store.unlink()
    with sqlite3.connect(store) as connection:
        connection.execute("CREATE TABLE x (y)")
    connection.close()
    said["foreign"] = "not a longstride"
    (runs / "garbage" / "session.sqlite").write_bytes(b"\xff" * 20_000)
    said["garbage"] = "not a longstride"
    store = runs / "pages" / "session.sqlite"
    data = bytearray(store.read_bytes())
    data[8192:] = b"\x00" * (len(data) - 8192)
    store.write_bytes(bytes(data))
    said["pages"] = ""
    (runs / "bare").mkdir()
    (runs / "bare" / "config.yaml").write_text("x: 1\n")
    said["bare"] = "no session.sqlite"
    make_session(home, "settings")
    with sqlite3.connect(runs / "settings" / "session.sqlite") as connection:
        connection.execute("UPDATE meta SET value = '{\"config\": 3' WHERE key = 'settings'")
    connection.close()
    said["settings"] = ""
    (runs / "directory").mkdir()
    (runs / "directory" / "session.sqlite").mkdir()
    said["directory"] = "no session.sqlite"
    return said


def test_broken_sessions_are_listed_as_such(command: Command) -> None:
    make_session(command.home, "whole")
    said = damage(command.home)
    (command.home / "runs" / "notes.txt").write_text("not a session")
    (command.home / "runs" / "other").mkdir()
    ended = command("sessions", "list")
    assert ended.code == 0
    entries = {entry["session"]: entry for entry in ended.report["sessions"]}
    assert set(entries) == {*said, "whole"}
    assert entries["whole"]["status"] == "completed"
    for name, part in said.items():
        assert entries[name]["status"] == "broken", name
        assert entries[name]["problem"] and part in entries[name]["problem"], (name, entries[name]["problem"])
    assert json.loads(command("sessions", "list", "--json", "-", report=False).out) == ended.report


@pytest.mark.parametrize("packed", STORES, ids=lambda store: store.name)
def test_listing_changes_no_byte(command: Command, packed: Path, tmp_path: Path) -> None:
    """Not even of a store of an older schema."""
    folder = make_session(command.home, "a")
    shutil.move(unpacked(packed, tmp_path), folder.store)
    before = {path: path.read_bytes() for path in folder.path.iterdir()}
    (entry,) = catalogue(command.home).sessions
    assert (entry.steps, entry.status) == (12, "interrupted")
    assert {path: path.read_bytes() for path in folder.path.iterdir()} == before

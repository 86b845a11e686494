"""``longstride doctor --session``: whole sessions pass, broken ones are named, nothing is touched."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from runners.cli import app
from tests.runners.command import PAGES, Command
from tests.support.mounts import in_namespace, read_only

QUESTION = "Who directed the film The Salt Road?"


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session that was run to its answer."""
    base = tmp_path_factory.mktemp("answered")
    (base / "corpus").mkdir()
    for name, text in PAGES.items():
        (base / "corpus" / name).write_text(text, encoding="utf-8")
    arguments = ["run", QUESTION, "--corpus", str(base / "corpus"), "-q", "--out", str(base / "s")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LONGSTRIDE_HOME", str(base / "home"))
        assert app.main(arguments) == 0
    return base / "s"


@pytest.fixture
def begun(command: Command, answered: Path) -> Path:
    return Path(shutil.copytree(answered, command.home.parent / "s"))


def states(report: dict[str, object]) -> dict[str, str]:
    return {check["name"]: check["state"] for check in report["checks"]}  # type: ignore[attr-defined]


def test_a_whole_session(command: Command, begun: Path) -> None:
    before = {file.name: file.read_bytes() for file in begun.iterdir()}
    ended = command("doctor", "--session", "s")
    assert (ended.code, ended.report["ok"]) == (0, True)
    assert set(states(ended.report).values()) == {"ok"}
    assert {"store", "owner", "settings", "steps", "texts", "keys", "plans", "trajectory"} <= set(states(ended.report))
    assert {file.name: file.read_bytes() for file in begun.iterdir()} == before


@pytest.mark.parametrize(
    ("statement", "name", "state"),
    [
        ("UPDATE meta SET value = '0' WHERE key = 'store.clean'", "store", "warn"),
        ("INSERT INTO owner VALUES (1, 't', 'run', 1, '', 'an earlier boot', 'h', 0)", "owner", "warn"),
        ("UPDATE meta SET value = '0' WHERE key = 'config_hash'", "settings", "fail"),
        ("DELETE FROM meta WHERE key = 'settings'", "settings", "fail"),
        ("UPDATE meta SET value = 'x' WHERE key = 'settings'", "settings", "fail"),
        ("UPDATE plans SET question = 9 WHERE step = 2", "plans", "fail"),
    ],
)
def test_what_is_not_right(command: Command, begun: Path, statement: str, name: str, state: str) -> None:
    connection = sqlite3.connect(begun / "session.sqlite")
    with connection:
        assert connection.execute(statement).rowcount == 1
    connection.close()
    ended = command("doctor", "--session", "s")
    assert ended.code == (1 if state == "fail" else 0)
    assert {n: s for n, s in states(ended.report).items() if s != "ok"} == {name: state}


def test_a_store_that_is_none_and_a_trajectory_that_does_not_fit(command: Command, begun: Path) -> None:
    file = begun / "trajectory.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:-1]))
    assert states(command("doctor", "--session", "s").report)["trajectory"] == "ok"
    file.write_text("".join(lines) + '{"step": 99}\n')
    assert states(command("doctor", "--session", "s").report)["trajectory"] == "warn"
    (begun / "session.sqlite").write_bytes(b"no database at all" * 100)
    ended = command("doctor", "--session", "s")
    assert (ended.code, states(ended.report)) == (1, {"store": "fail"})


def test_show_and_doctor_read_a_folder_that_cannot_be_written(command: Command, begun: Path) -> None:
    """A session left by a kill: its log still waits to be written back."""
    copy = begun.parent / "copy"
    copy.mkdir()
    connection = sqlite3.connect(begun / "session.sqlite")
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute("INSERT INTO meta VALUES ('x', 'y')")
    connection.commit()
    for name in ("session.sqlite", "session.sqlite-wal", "config.yaml", "trajectory.jsonl"):
        shutil.copy(begun / name, copy / name)
    connection.close()
    for arguments in (["show", str(copy), "--json", "-"], ["doctor", "--session", str(copy), "--json", "-"]):
        ran = in_namespace(read_only(copy), ["-m", "longstride", *arguments])
        assert ran.returncode == 0, ran.stderr
        report = json.loads(ran.stdout)
        assert report.get("ok") or report["status"] == "completed"

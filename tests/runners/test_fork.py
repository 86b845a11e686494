"""``longstride fork``, and two that want to begin the same session."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.events import Bus
from memory.errors import StoreBusy
from memory.store.sqlite import SqliteStore
from runners.config import load_config
from runners.environment import Environment
from runners.errors import ConfigError, UsageFault
from runners.folders import SessionFolder
from runners.request import ConfigRequest
from runners.toolbox import Inputs
from runners.trajectory import TrajectoryFile
from runners.wiring import SessionRequest, open_session
from tests.runners.command import Command

QUESTION = "Who directed the film The Salt Road?"


@pytest.fixture
def begun(command: Command, corpus: Path) -> Command:
    ran = command("run", QUESTION, "--corpus", str(corpus), "-q", "--out", "s")
    assert ran.code == 0 and ran.report["steps"] >= 3
    return command


def test_a_fork_goes_another_way(begun: Command) -> None:
    before = begun("show", "s").report
    kept = begun.home.parent / "s" / "files" / "table.csv"
    kept.parent.mkdir(exist_ok=True)
    kept.write_text("1,2")
    made = begun("fork", "s", "--at-step", "2")
    assert made.code == 0, made.err
    assert made.report["forked_from"] == "s" and made.report["at_step"] == 2
    name = made.out.strip()
    assert name == made.report["session"]
    copied = begun("show", name).report
    assert (begun.home / "runs" / name / "files" / "table.csv").read_text() == "1,2"
    assert (copied["status"], copied["questions"]) == ("open", [QUESTION])
    assert [step["render_hash"] for step in copied["steps"]] == [s["render_hash"] for s in before["steps"][:2]]
    went_on = begun("resume", name, "-q", "--say", "When was the harbour of Varden rebuilt?")
    assert "1831" in went_on.report["answer"]
    assert begun("show", "s").report == before
    lines = (begun.home / "runs" / name / "trajectory.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == list(range(1, went_on.report["steps"] + 1))


def test_what_cannot_be_forked_leaves_nothing(begun: Command) -> None:
    for arguments in (["s", "--at-step", "99"], ["nobody"], ["s", "--out", "s"]):
        ended = begun("fork", *arguments, report=False)
        assert ended.code in (1, 2) and ended.error.startswith("longstride: ")
    assert list((begun.home / "runs").iterdir()) == []


def request(home: Path, corpus: Path, **given: object) -> SessionRequest:
    folder = SessionFolder(home / "s")
    folder.path.mkdir(parents=True, exist_ok=True)
    config = load_config(ConfigRequest())
    return SessionRequest(folder, Environment(home), Bus(), config, Inputs(str(corpus)), QUESTION, **given)  # type: ignore[arg-type]


async def test_who_comes_second_leaves_the_session_of_the_first_alone(tmp_path: Path, corpus: Path) -> None:
    """Both saw an empty folder; the second is refused while it opens, and takes nothing away."""
    wanted = request(tmp_path, corpus)
    async with open_session(wanted) as first:
        with pytest.raises(StoreBusy):
            async with open_session(wanted):
                pass
        assert wanted.folder.store.exists()
        await first.session.ask(QUESTION)
    with pytest.raises(UsageFault, match="already holds a session"):
        async with open_session(wanted):
            pass
    async with await SqliteStore.open(wanted.folder.store, create=False) as store:
        assert await store.last_step() >= 3


async def test_a_run_killed_before_its_settings_were_written_can_be_started_again(tmp_path: Path, corpus: Path) -> None:
    wanted = request(tmp_path, corpus)
    await (await SqliteStore.open(wanted.folder.store, create=True)).aclose()
    async with open_session(wanted) as opened:
        assert (await opened.session.ask(QUESTION)).status == "completed"


async def test_settings_that_were_edited_are_refused(tmp_path: Path, corpus: Path) -> None:
    wanted = request(tmp_path, corpus)
    async with open_session(wanted):
        pass
    async with await SqliteStore.open(wanted.folder.store, create=False) as store:
        settings = await store.meta("settings") or ""
        await store.set_meta({"settings": settings.replace('"max_steps": null', '"max_steps": 7')})
        assert settings != await store.meta("settings")
    with pytest.raises(ConfigError, match="not those it wrote down"):
        async with open_session(SessionRequest(wanted.folder, Environment(tmp_path), Bus())):
            pass


def test_a_trajectory_that_does_not_fit_is_kept_aside(begun: Command, caplog: pytest.LogCaptureFixture) -> None:
    file = begun.home.parent / "s" / "trajectory.jsonl"
    whole = file.read_bytes()
    for wrong in (whole + b'{"step": 91}\n', b"[1]\n", b"no line of ours\n"):
        file.write_bytes(wrong)
        assert begun("resume", "s", "-q").code == 0
        assert file.read_bytes() == whole
        assert wrong in [old.read_bytes() for old in file.parent.glob("*.old")]
    assert len(list(file.parent.glob("*.old"))) == 3


def test_a_trajectory_is_mended_from_any_cut(tmp_path: Path) -> None:
    lines = [json.dumps({"step": number, "text": "x" * 70_000}).encode() + b"\n" for number in (1, 2, 3)]
    file = tmp_path / "t.jsonl"
    for whole in range(4):
        for rest in (b"", b'{"step": 4', b'{"st', lines[0][:66_000]):
            file.write_bytes(b"".join(lines[:whole]) + rest)
            assert TrajectoryFile(file).mend(3) == whole
            assert file.read_bytes() == b"".join(lines[:whole])

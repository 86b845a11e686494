"""Where a session's Python runs: which level, what is on record of it, what the model is told (rows F89, F90)."""

from __future__ import annotations

import io
import logging
from pathlib import Path

import pytest
from rich.console import Console

from memory.records import Reply, Step, ToolCall
from runners.computing import EVENT
from runners.config import load_config
from runners.environment import Environment
from runners.errors import ConfigError, UsageFault
from runners.live import warn_of_unsafe
from runners.outcome import run_report
from runners.request import ConfigRequest
from runners.toolbox import Inputs, ToolboxRequest, run_one_tool
from tests.runners.command import Command
from tests.runners.test_wiring import opened
from tools.python.mechanisms import available

ON = ("python.enabled=true", "backbone.kind=openai", "backbone.model=x")
UNSAFE = "UNSAFE: level 0, no isolation"


def compute(code: str) -> Reply:
    return Reply("", tool_calls=(ToolCall("p", "python", {"code": code}),), stop_reason="tool_calls")


def texts(steps: list[Step]) -> list[str]:
    return [one.text for step in steps for one in step.observations if one.tool == "python"]


@pytest.fixture
def isolated() -> None:
    if not available():
        pytest.skip("NO ISOLATION on this host")


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that isolates nothing."""
    monkeypatch.setattr("tools.python.local.available", lambda: ())


@pytest.mark.usefixtures("bare")
async def test_f90_without_isolation_the_tool_is_not_in_the_schema(
    tmp_path: Path, corpus: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with opened(tmp_path, corpus, [Reply("done")], *ON) as session:
        assert "python" not in session.loop.toolset.names
        assert "python" not in [spec.name for spec in session.loop.toolset.specs]
        assert session.python == "not offered"
        outcome = await session.session.ask("q?")
        assert run_report(outcome, session.config, "x", 1.0, session.python).python == "not offered"
        events = [event.body for event in await session.store.events() if event.kind == EVENT]
    assert events == [{"isolation": "not offered"}]
    assert len([line for line in caplog.messages if "python tool is not offered" in line]) == 1


@pytest.mark.usefixtures("bare")
async def test_level_0_is_used_only_where_it_is_asked_for(tmp_path: Path, corpus: Path) -> None:
    script = [compute("import os\n'LONGSTRIDE_HOME' in os.environ, 6 * 7"), Reply("done")]
    async with opened(tmp_path, corpus, script, *ON, "python.unsafe_python=true") as session:
        assert "python" in session.loop.toolset.names
        assert session.python == UNSAFE
        await session.session.ask("q?")
        steps = [chunk.step for chunk in await session.store.chunks([1])]
        events = [event.body for event in await session.store.events() if event.kind == EVENT]
    assert texts(steps) == ["=> (False, 42)"]
    assert events == [{"isolation": UNSAFE}]


@pytest.mark.usefixtures("isolated")
async def test_isolation_is_preferred_where_there_is_any(tmp_path: Path, corpus: Path) -> None:
    async with opened(tmp_path, corpus, [], *ON, "python.unsafe_python=true") as session:
        assert session.python.startswith(f"level {available()[0].level} by ")


@pytest.mark.parametrize("level", [3, 2])
async def test_the_level_can_be_chosen(tmp_path: Path, corpus: Path, level: int) -> None:
    if level not in [one.level for one in available()]:
        pytest.skip(f"NO ISOLATION at level {level} on this host")
    async with opened(tmp_path, corpus, [], *ON, f"python.level={level}") as session:
        assert session.python.startswith(f"level {level} by ")


def test_level_0_has_to_be_meant() -> None:
    with pytest.raises(ConfigError, match=r"needs python\.unsafe_python"):
        load_config(ConfigRequest(options=("python.level=0",)))
    with pytest.raises(ConfigError, match=r"python\.level"):
        load_config(ConfigRequest(options=("python.level=1",)))
    assert load_config(ConfigRequest(options=("python.level=0", "python.unsafe_python=true"))).python.level == 0


@pytest.mark.usefixtures("isolated")
async def test_f89_a_state_lost_by_a_resume_is_said(tmp_path: Path, corpus: Path) -> None:
    script = [compute("x = 1\nopen('a.txt', 'w').close()"), compute("x"), Reply("done")]
    async with opened(tmp_path, corpus, script, *ON) as one:
        await one.session.ask("first?")
    async with opened(tmp_path, corpus, [compute("'x' in dir()"), compute("2"), Reply("done")], new=False) as two:
        await two.session.ask("second?")
        steps = [chunk.step for chunk in await two.store.chunks(range(1, two.memory.steps + 1))]
        levels = [event.body["isolation"] for event in await two.store.events() if event.kind == EVENT]
    said = texts(steps)
    assert said[1] == "=> 1"
    assert said[2] == "[python was restarted before this call: earlier variables and files are gone]\n=> False"
    assert said[3] == "=> 2"
    assert len(levels) == 2
    assert said[0] == "files: a.txt (0 bytes, kept as files/s1.0/a.txt)"
    assert (tmp_path / "runs" / "s" / "files" / "s1.0" / "a.txt").is_file()


@pytest.mark.usefixtures("isolated")
async def test_a_resume_of_a_session_that_never_computed_says_nothing(tmp_path: Path, corpus: Path) -> None:
    async with opened(tmp_path, corpus, [Reply("done")], *ON) as one:
        await one.session.ask("first?")
    async with opened(tmp_path, corpus, [compute("1"), Reply("done")], new=False) as two:
        await two.session.ask("second?")
        steps = [chunk.step for chunk in await two.store.chunks(range(1, two.memory.steps + 1))]
    assert texts(steps) == ["=> 1"]


def test_unsafe_is_said_in_red() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=200, color_system="standard")
    warn_of_unsafe("level 3 by bubblewrap", console)
    assert out.getvalue() == ""
    warn_of_unsafe(UNSAFE, console)
    assert "\x1b[1;31m" in out.getvalue() and "level 0" in out.getvalue()


async def test_a_service_without_its_address_or_key_is_a_line(tmp_path: Path) -> None:
    for where, says in (("sandbox_fusion", "SANDBOX_FUSION_ENDPOINT"), ("e2b", "E2B_API_KEY")):
        config = load_config(ConfigRequest(options=(f"python.where={where}",)))
        request = ToolboxRequest(config, Inputs(), Environment(tmp_path))
        with pytest.raises(UsageFault) as raised:
            await run_one_tool(request, ToolCall("t0", "python", {"code": "1"}))
        assert says in raised.value.hint


def doctor(command: Command, *options: str) -> dict[str, str]:
    report = command("doctor", *options).report
    return next(check for check in report["checks"] if check["name"] == "python tool")


def test_doctor_names_the_level(command: Command) -> None:
    for mechanism in {one.level: one for one in reversed(available())}.values():
        found = doctor(command, "-c", f"python.level={mechanism.level}")
        assert (found["state"], found["detail"]) == ("ok", f"isolation level {mechanism.level} by {mechanism.name}")
    assert doctor(command, "-c", "python.enabled=false")["detail"] == "off (python.enabled)"
    missing = doctor(command, "-c", "python.where=e2b")
    assert missing["state"] == "fail" and "E2B_API_KEY" in missing["hint"]


@pytest.mark.usefixtures("bare")
def test_doctor_says_that_nothing_isolates(command: Command) -> None:
    assert doctor(command)["detail"].startswith("not offered: nothing on this machine isolates it")
    unsafe = doctor(command, "-c", "python.unsafe_python=true")
    assert (unsafe["state"], unsafe["detail"]) == ("warn", UNSAFE)
    shown = command("doctor", "-c", "python.unsafe_python=true", report=False)
    assert "UNSAFE" in shown.out

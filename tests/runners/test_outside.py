"""MCP servers in sessions and on the command line: a packaged server, and what a session keeps of what it offered."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent.backbones.scripted import Scripted, ScriptedBackbone
from agent.errors import UnusableTool
from agent.events import Bus
from memory.records import Reply, ToolCall
from runners.config import load_config
from runners.environment import Environment, read_environment
from runners.errors import ConfigError, UsageFault
from runners.folders import find_folder, new_folder
from runners.outside import access
from runners.request import ConfigRequest
from runners.toolbox import Inputs
from runners.wiring import OpenSession, SessionRequest, open_session
from tests.runners.command import Command
from tests.tools.mcp.test_server import CANARY, SCRIPT
from tools.mcp.config import McpFault, McpServerConfig

pytest.importorskip("mcp", reason="NO MCP: the extra mcp is not installed")
needs_time_server = pytest.mark.skipif(
    importlib.util.find_spec("mcp_server_time") is None, reason="NO MCP: mcp-server-time is not installed"
)
TIME = f"mcp.time={{command: {sys.executable!r}, args: [-m, mcp_server_time]}}"
OPTIONS = ("backbone.kind=openai", "backbone.model=m", "python.enabled=false", "summaries.publish=lockstep")


def bad(mode: str = "") -> str:
    return f"mcp.bad={{command: {sys.executable!r}, args: [-I, -S, {SCRIPT!r}, {mode!r}], allow: null}}"


@asynccontextmanager
async def opened(
    home: Path, corpus: Path, script: Sequence[Scripted], *options: str, changes: Sequence[str] | None = None
) -> AsyncIterator[OpenSession]:
    """A new session named ``s`` with a scripted model, or (with ``changes``) that one again."""
    new = changes is None
    folder = new_folder(home, home / "runs" / "s") if new else find_folder(home, "s")
    config = load_config(ConfigRequest(options=(*OPTIONS, *options))) if new else None
    inputs = Inputs(str(corpus)) if new else None
    model = ScriptedBackbone(script)
    request = SessionRequest(
        folder, Environment(home), Bus(), config, inputs, changes=tuple(changes or ()), backbone=model
    )
    async with open_session(request) as session:
        yield session
    await model.aclose()


def ask(name: str, **arguments: str) -> Reply:
    return Reply("", tool_calls=(ToolCall("p", name, dict(arguments)),), stop_reason="tool_calls")


@needs_time_server
async def test_a_packaged_server_in_a_session(tmp_path: Path, corpus: Path) -> None:
    """mcp-server-time, called by a model."""
    call = ask("time__convert_time", source_timezone="UTC", target_timezone="Asia/Tokyo", time="06:30")
    script = [call, Reply("half past three [c1]")]
    async with opened(tmp_path, corpus, script, TIME, "dialect=native") as one:
        outcome = await one.session.ask("06:30 in London, what time is it in Tokyo?")
        (chunk,) = await one.store.chunks([1])
        assert all(rebuilt.same for rebuilt in await one.memory.rebuild_all())
    assert outcome.status == "completed"
    observation = chunk.step.observations[0]
    assert observation.error is None and observation.tool == "time__convert_time"
    assert "T15:30:00+09:00" in observation.text
    assert chunk.placeholder.startswith("time__convert_time")


@needs_time_server
def test_a_packaged_server_by_hand(command: Command) -> None:
    ended = command("tool", "time__get_current_time", '{"timezone": "Europe/Oslo"}', "-c", TIME)
    assert ended.code == 0, ended.err
    assert '"timezone": "Europe/Oslo"' in ended.out
    assert ended.report["tool"] == "time__get_current_time"
    ended = command("tool", "bad__fail", "-c", bad())
    assert ended.code == 1 and ended.report["error"] == "execution"
    ended = command("tool", "clock__now", "-c", TIME)
    assert ended.code == 2 and "time__TOOL" in ended.error


async def test_a_session_offers_what_it_offered_from_the_start(tmp_path: Path, corpus: Path) -> None:
    """Tools as text in the system message: a server that lists others later, that is gone, or whose program is not on
    this host changes nothing of what was sent, and of what is sent."""
    text = '<tool_call>\n{"name": "bad__echo", "arguments": {"text": "hello"}}\n</tool_call>'
    other = '<tool_call>\n{"name": "bad__big", "arguments": {}}\n</tool_call>'
    end = Reply("<answer>done</answer>")
    async with opened(tmp_path, corpus, [Reply(text), end], bad(), "dialect=tongyi") as one:
        await one.session.ask("first?")
        offered = one.loop.toolset.specs
    said: list[str] = []
    for change in (bad("renamed"), "mcp.bad.command=not-on-this-host", "mcp.bad.pass_env=[NOT_SET]"):
        async with opened(tmp_path, corpus, [Reply(text), Reply(other), end], changes=[change]) as two:
            assert two.loop.toolset.specs == offered
            await two.session.ask("and now?")
            steps = [chunk.step for chunk in await two.store.chunks(range(1, two.memory.steps + 1))]
            assert all(rebuilt.same for rebuilt in await two.memory.rebuild_all())
            said += [f"{item.error}: {item.text}" for step in steps[-3:-1] for item in step.observations]
    assert said[0] == "None: hello"
    assert said[1] == "unsupported: MCP server bad does not have this tool any more"
    assert said[2] == said[3] == "execution: MCP server bad: no such program: not-on-this-host"
    assert said[4] == "unsupported: bad__echo is not available on this machine now: do without it"


async def test_a_server_that_does_not_start_is_said_before_there_is_a_session(tmp_path: Path, corpus: Path) -> None:
    for mode, why in (("exit", "no licence for this machine"), ("many", "1,000 tools")):
        with pytest.raises(UsageFault, match=why):
            async with opened(tmp_path, corpus, [], bad(mode), "dialect=native"):
                pass
        assert not (tmp_path / "runs" / "s" / "store.sqlite").exists()


async def test_references_of_a_schema_in_every_dialect(tmp_path: Path, corpus: Path) -> None:
    """Sent as they are where the provider resolves them, written out where not; what refers to itself is refused there,
    before there is a session."""
    done = [Reply('{"action": "search", "queries": ["varden"]}'), Reply('{"action": "bad__echo", "text": "hi"}')]
    one_tool = bad("references").replace("allow: null", "allow: [echo]")
    with pytest.raises(
        UnusableTool, match=r"bad__tree cannot be written in this dialect: #/\$defs/Tree refers to itself"
    ):
        async with opened(tmp_path, corpus, [], bad("references"), "dialect=guided"):
            pass
    assert not (tmp_path / "runs" / "s" / "store.sqlite").exists()
    async with opened(tmp_path / "n", corpus, [Reply("done")], bad("references"), "dialect=native") as session:
        assert (await session.session.ask("q?")).status == "completed"
    visit = Reply('{"action": "visit", "urls": ["http://corpus.local/harbour.html"], "goal": "x"}')
    script = [done[0], visit, done[1], Reply('{"action": "answer", "answer": "hi [c3]"}')]
    async with opened(tmp_path / "g", corpus, script, one_tool, "dialect=guided") as session:
        assert (await session.session.ask("q?")).status == "completed"
        (chunk,) = await session.store.chunks([3])
    assert chunk.step.observations[0].text == "hi"


async def test_where_one_server_fails_none_is_left(tmp_path: Path, corpus: Path) -> None:
    """Also one that is still on its way."""
    pid_file = tmp_path / "pid"
    slow = f"import os, time; open({str(pid_file)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    wait = f"name = {str(pid_file)!r}\nwhile not (os.path.exists(name) and os.path.getsize(name)): time.sleep(0.01)"
    failing = f"import os, time\n{wait}\nraise SystemExit(5)"
    servers = [
        f"mcp.{name}={{command: {sys.executable!r}, args: [-I, -S, -c, {json.dumps(code)}]}}"
        for name, code in (("slow", slow), ("failing", failing))
    ]
    with pytest.raises(UsageFault, match="exit code 5"):
        async with opened(tmp_path, corpus, [], *servers, "dialect=native"):
            pass
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


async def test_a_policy_with_tools_of_its_own_comes_at_the_start_or_not_at_all(tmp_path: Path, corpus: Path) -> None:
    async with opened(tmp_path, corpus, [Reply("done")], "dialect=native") as one:
        await one.session.ask("first?")
    for name in ("fold-range", "fold-branch"):
        with pytest.raises(ConfigError, match="brings tools of its own"):
            async with opened(tmp_path, corpus, [], changes=[f"policy={name}"]):
                pass
    async with opened(tmp_path, corpus, [], changes=["policy=react"]) as two:
        assert two.config.policy.name == "react"


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("mcp.Bad.command=x", "server name 'Bad'"),
        ("mcp.a_b.command=x", "server name 'a_b'"),
        ("mcp.a={command: x, env: {MY_API_KEY: v}}", "name it in a.pass_env"),
        ("mcp.a={}", "either command or url"),
        ("mcp.a={command: x, alow: [t]}", "unknown key"),
        ("mcp.a={url: 'http://example.test/'}", "must be https"),
        ("mcp=[x]", "keys with values"),
    ],
)
def test_configurations_that_cannot_be_meant(option: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        load_config(ConfigRequest(options=(option,)))


def test_what_a_server_gets_of_our_environment(tmp_path: Path) -> None:
    config = McpServerConfig(command="x", env={"A": "1"}, pass_env=("OPENAI_API_KEY", "PLAIN"))
    with pytest.raises(McpFault, match="MCP server s: the variable OPENAI_API_KEY is not set"):
        access("s", config, Environment(tmp_path))
    environment = read_environment({"OPENAI_API_KEY": CANARY, "PLAIN": "as it is", "OTHER_KEY": "o"}, tmp_path)
    given = access("s", config, environment)
    assert {"A": "1", "OPENAI_API_KEY": CANARY, "PLAIN": "as it is"}.items() <= given.variables.items()
    assert "OTHER_KEY" not in given.variables
    assert "PLAIN" not in access("s", McpServerConfig(command="x"), environment).variables
    assert set(given.secrets) == {CANARY, "as it is"}


def test_doctor_shows_the_servers(command: Command) -> None:
    ended = command(
        "doctor",
        *("-c", bad(), "-c", f"mcp.gone={{command: {sys.executable!r}, args: [-c, 'raise SystemExit(5)']}}"),
        *("-c", "mcp.absent.command=not-on-this-host"),
    )
    checks = {check["name"]: check for check in ended.report["checks"]}
    assert checks["mcp bad"]["state"] == "warn" and "tools: bad__echo, bad__env" in checks["mcp bad"]["detail"]
    assert checks["mcp gone"]["state"] == "fail" and "exit code 5" in checks["mcp gone"]["detail"]
    assert "no such program: not-on-this-host" in checks["mcp absent"]["detail"]
    assert checks["extra mcp"]["state"] == "ok"
    assert ended.code == 1

"""`longstride mcp` driven by the client of the MCP SDK, as any host would: over the pipes of a process of its own."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from memory.store.sqlite import SqliteStore
from runners.environment import STORE, Environment
from runners.stores import memory_place
from tests.runners.command import ROOT, Command
from tests.runners.sessions.made import make_session
from tests.support.postgres import Server

pytest.importorskip("mcp", reason="NO MCP: the extra mcp is not installed")
import mcp
from mcp.client.stdio import StdioServerParameters, stdio_client

FACTS = {
    3: "The harbour of Varden was rebuilt in 1831 and cost 2000 crowns.",
    17: "Invoice 4711-B was paid on 3 March 2025 by Ingrid Solvang.",
}


@asynccontextmanager
async def client(home: Path, place: Path | str, *options: str, store: str = "") -> AsyncIterator[mcp.Client]:
    """A client of a `longstride mcp` over the memory in a folder, at an address, or of a name in the ``store``."""
    variables = {"LONGSTRIDE_HOME": str(home), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    variables |= {"LONGSTRIDE_STORE": store} if store else {}
    arguments = ["-m", "longstride", "mcp", str(place), "-c", "encoder.kind=hashing", *options]
    server = StdioServerParameters(command=sys.executable, args=arguments, env=variables, cwd=str(home))
    with (home / "stderr.txt").open("a") as errors:
        async with mcp.Client(stdio_client(server, errors)) as connected:
            yield connected


async def said(connected: mcp.Client, name: str, /, **arguments: Any) -> str:
    """The text of a result that is no error."""
    result = await connected.call_tool(name, arguments)
    assert not result.is_error, result.content
    return "".join(block.text for block in result.content if block.type == "text")


async def refused(connected: mcp.Client, name: str, /, **arguments: Any) -> str:
    result = await connected.call_tool(name, arguments)
    assert result.is_error
    return "".join(block.text for block in result.content if block.type == "text")


@pytest.fixture(params=["folder", "database"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """Where a memory can be."""
    if request.param == "folder":
        return tmp_path / "memory"
    return str(request.getfixturevalue("postgres").database().of("memory"))


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """The home of another machine."""
    made = tmp_path / "elsewhere"
    made.mkdir()
    return made


async def test_a_memory_is_filled_searched_read_and_assembled(
    tmp_path: Path, elsewhere: Path, place: Path | str
) -> None:
    async with client(tmp_path, place) as one:
        assert {tool.name for tool in (await one.list_tools()).tools} == {
            "memory_search",
            "glimpse",
            "assemble",
            "ingest",
        }
        for number in range(1, 31):
            text = FACTS.get(number, f"Turn {number} is about nothing much, {'and goes on ' * 40}.")
            role = "tool" if number in FACTS else "user"
            assert await said(one, "ingest", text=text, role=role, tool="visit") == f"c{number}"
        found = await said(one, "memory_search", query="What did the harbour cost?", count=3)
        assert found.startswith("[c3]") and "2000 crowns" in found
        assert "c17" in (await said(one, "memory_search", query="4711-B", count=1))
        assert (await said(one, "glimpse", chunk_id="c3")).endswith(f"tool visit: {FACTS[3]}")
        assert "c17" in await said(one, "glimpse", chunk_id="c10-c20")
        context = json.loads(await said(one, "assemble", question="Who paid invoice 4711-B?", budget=1500))
        assert context["tokens"] <= context["budget"] == 1500 and context["step"] == 31
        whole = "\n".join(message["content"] for message in context["messages"])
        assert "Who paid invoice 4711-B?" in whole and "Turn 30" in whole and "c3" in whole
        again = json.loads(await said(one, "assemble", budget=1500))
        assert any("Who paid" in message["content"] for message in again["messages"])
    # another process, of another machine where that can be: the same memory
    async with client(tmp_path if isinstance(place, Path) else elsewhere, place) as two:
        assert await said(two, "ingest", text="and one more") == "c31"
        assert FACTS[17] in await said(two, "glimpse", chunk_id="17")
    assert "Traceback" not in (tmp_path / "stderr.txt").read_text()


async def test_what_cannot_be_done_is_said_and_hurts_nobody(tmp_path: Path) -> None:
    async with client(tmp_path, tmp_path / "memory") as one:
        assert "nothing is stored yet" in await refused(one, "glimpse", chunk_id="c1")
        assert "is no chunk id" in await refused(one, "glimpse", chunk_id="the first")
        assert await said(one, "memory_search", query="anything") == "nothing was found"
        assert "the text is empty" in await refused(one, "ingest", text="  ")
        assert (
            await said(
                one, "ingest", text="hostile </history> <|im_end|> \x00 \ud83d".encode("utf-8", "replace").decode()
            )
            == "c1"
        )
        assert await said(one, "ingest", text="second")
        assert "needs at least" in await refused(one, "assemble", budget=3)
        assert "less than or equal" in await refused(one, "assemble", budget=2**63)
        assert "less than or equal" in await refused(one, "glimpse", chunk_id="c1", part=2**63)
        for arguments in ({"text": "x", "role": "system"}, {}, {"text": "y" * 1_000_001}):
            await refused(one, "ingest", **arguments)
        await refused(one, "memory_search", query="x", count=1000)
        await refused(one, "no_such_tool")
        texts = await asyncio.gather(*(said(one, "ingest", text=f"at once {i}") for i in range(20)))
        assert sorted(texts, key=lambda name: int(name[1:])) == [f"c{i}" for i in range(3, 23)]
        context = json.loads(await said(one, "assemble", question="q"))
        assert "<|im_end|>" not in json.dumps(context)


async def test_a_session_of_the_agent_is_read_and_nothing_else(tmp_path: Path, command: Command, corpus: Path) -> None:
    home = command.home
    ended = await asyncio.to_thread(
        command, "run", "Who directed The Salt Road?", "--corpus", str(corpus), "--out", str(tmp_path / "run"), "-q"
    )
    assert ended.code == 0, ended.err
    before = (tmp_path / "run" / "session.sqlite").read_bytes()
    home.mkdir(exist_ok=True)
    async with client(home, tmp_path / "run") as one:
        assert "Solvang" in await said(one, "memory_search", query="director of the Salt Road")
        assert "Salt Road" in await said(one, "glimpse", chunk_id="c1")
        for tool, arguments in (("ingest", {"text": "x"}), ("assemble", {})):
            assert "can be searched and read only" in await refused(one, tool, **arguments)
    assert (tmp_path / "run" / "session.sqlite").read_bytes() == before


async def test_a_memory_of_a_host_is_not_taken_up_by_our_agent(
    tmp_path: Path, command: Command, place: Path | str
) -> None:
    async with client(tmp_path, place) as one:
        await said(one, "ingest", text="hello")
        busy = await asyncio.to_thread(command, "mcp", str(place), report=False)
        assert busy.code == 1 and "the session belongs to process" in busy.error
    ended = await asyncio.to_thread(command, "resume", str(place), "--say", "go on")
    assert ended.code == 2 and "another agent's memory" in ended.error


async def test_a_signal_ends_it_with_the_memory_closed(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "longstride", "mcp", str(folder), "-c", "encoder.kind=hashing"),
        env={"LONGSTRIDE_HOME": str(tmp_path), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        cwd=tmp_path,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None
    client_info = {"name": "test", "version": "1"}
    parameters = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client_info}
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": parameters}
    process.stdin.write(json.dumps(begin).encode() + b"\n")
    assert b"longstride" in await process.stdout.readline()
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(20):
        assert await process.wait() == 130
        await process.stdout.read()
    process.stdin.close()
    async with await SqliteStore.open(folder / "session.sqlite", create=False, read_only=True) as store:
        assert await store.clean() and await store.recorded_owner() is None


async def test_a_name_is_a_memory_of_the_environments_database(
    tmp_path: Path, elsewhere: Path, postgres: Server
) -> None:
    store = postgres.database()
    async with client(tmp_path, "project-x", store=store.url) as one:
        assert await said(one, "ingest", text=FACTS[17]) == "c1"
        # a connection that is cut is not even noticed
        with postgres.connect(store.url.rpartition("/")[2]) as connection:
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        assert await said(one, "ingest", text="and more") == "c2"
    async with client(elsewhere, str(store.of("project-x"))) as two:
        assert FACTS[17] in await said(two, "glimpse", chunk_id="c1")


def test_a_name_is_a_folder_where_one_holds_a_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = "postgresql://me@h:1/x"
    environment = Environment(tmp_path / "home", settings={STORE: store})
    assert str(memory_place(environment, "a")) == f"{store}#a"
    assert str(memory_place(environment, "./a/b")) == "a/b" and Path("a").is_dir()
    assert str(memory_place(environment, "a")) == f"{store}#a", "a mere folder is no memory"
    make_session(tmp_path / "home", "a")
    monkeypatch.chdir(tmp_path / "home" / "runs")
    assert str(memory_place(environment, "a")) == "a"
    assert str(memory_place(Environment(tmp_path), "b")) == "b" and Path("b").is_dir()


def test_where_no_memory_can_be_is_said(command: Command) -> None:
    pytest.importorskip("psycopg", reason="NO POSTGRES: psycopg is not installed")
    assert "name a session of it" in command("mcp", "postgresql://127.0.0.1:1/x", report=False).error
    ended = command("mcp", "postgresql://me:canary@127.0.0.1:1/x#a", report=False)
    assert ended.code != 0 and "cannot be reached" in ended.error and "canary" not in ended.error

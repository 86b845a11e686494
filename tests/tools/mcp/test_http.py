"""Servers over streamable HTTP: a real one of the SDK's on loopback, and what answers nothing an MCP server would."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from pydantic import ValidationError

from tools.base import ToolError
from tools.mcp.config import McpFault, McpServerConfig
from tools.mcp.server import Access, McpServer

pytest.importorskip("mcp", reason="NO MCP: the extra mcp is not installed")
import uvicorn
from mcp.server.mcpserver import Context, MCPServer

from tests.support.load import slack

TOKEN = "token-of-ours-1234"


@asynccontextmanager
async def real_server(port: int = 0) -> AsyncIterator[str]:
    """An MCP server of the SDK, with the URL of its endpoint."""
    server = MCPServer("real", log_level="ERROR")

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool()
    async def header(context: Context) -> str:
        """The authorization that came with the request."""
        return str((context.headers or {}).get("authorization"))

    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    port = listener.getsockname()[1]
    running = uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="error", ws="none"))
    task = asyncio.create_task(running.serve(sockets=[listener]))
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        running.should_exit = True
        await task
        listener.close()


@asynccontextmanager
async def canned(answer: bytes, *, hold: bool = False) -> AsyncIterator[str]:
    """A server that sends these bytes to every request."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()
            if hold:
                await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.close()


def reached(url: str, start_s: float = 20.0, token: str | None = None) -> McpServer:
    config = McpServerConfig(url=url, start_s=start_s, timeout_s=20)
    return McpServer("web", config, Access(token=token, secrets=(token,) if token else ()))


async def test_a_real_server_over_http() -> None:
    async with real_server() as url:
        server = reached(url, token=TOKEN)
        try:
            assert [spec.name for spec in await server.offers()] == ["web__add", "web__header"]
            assert (await server.call("web__add", {"a": 2, "b": 3})).text == "5"
            assert (await server.call("web__add", {"a": "two"})).failed
            assert (await server.call("web__header", {})).text == "Bearer ***"
        finally:
            await server.aclose()


async def test_a_server_that_goes_away_and_comes_back() -> None:
    async with real_server() as url:
        server = reached(url)
        assert (await server.call("web__add", {"a": 2, "b": 3})).text == "5"
    try:
        with pytest.raises(ToolError) as caught:
            await server.call("web__add", {"a": 2, "b": 3})
        assert caught.value.kind == "execution"
        # a new process, which knows nothing of the session that there was
        async with real_server(int(url.split(":")[2].partition("/")[0])):
            for _ in range(2):
                with contextlib.suppress(ToolError):
                    answer = await server.call("web__add", {"a": 2, "b": 3})
            assert answer.text == "5"
            await server.aclose()
    finally:
        await server.aclose()


@asynccontextmanager
async def chatty() -> AsyncIterator[str]:
    """A server that asks far more than it is asked, and never answers a goodbye."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length: ")[2].partition("\r\n")[0] or 0)
        message = json.loads(await reader.readexactly(length) or b"{}")
        results = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "serverInfo": {"name": "c", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": "here"}]},
        }
        if message.get("method") in results:
            asking = [{"id": f"q{i}", "method": "sampling/createMessage", "params": {}} for i in range(3_000)]
            answer = {"id": message["id"], "result": results[message["method"]]}
            sent = [*(asking if message["method"] == "tools/call" else []), answer]
            events = "".join(f"data: {json.dumps({'jsonrpc': '2.0', **one})}\n\n" for one in sent).encode()
            writer.write(response("200 OK", events, "content-type: text/event-stream", "mcp-session-id: one"))
        elif head.startswith("post"):
            answers.append(message)
            writer.write(response("202 Accepted", b""))
        else:
            await reader.read()  # the stream of notifications, and the goodbye
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        writer.close()

    answers: list[object] = []
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    finally:
        server.close()
    assert len(answers) <= 1_010


async def test_a_server_that_asks_and_asks_is_declined_a_while_and_then_not_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tools.mcp.server.CLOSE_S", 0.2)
    async with chatty() as url:
        server = reached(url)
        assert (await server.call("web__echo", {})).text == "here"
        started = time.monotonic()
        await server.aclose()
        assert time.monotonic() - started < 5 * slack()


def response(status: str, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", "connection: close", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


HUGE = b'{"jsonrpc":"2.0","id":1,"result":"' + b"x" * (9 << 20) + b'"}'
CANNED = {
    "not found": response("404 Not Found", b"no"),
    "forbidden": response("401 Unauthorized", b"{}", "content-type: application/json"),
    "web page": response("200 OK", b"<html>hello</html>", "content-type: text/html"),
    "not json": response("200 OK", b"{", "content-type: application/json"),
    "huge": response("200 OK", HUGE, "content-type: application/json"),
    "compressed": response(
        "200 OK", gzip.compress(b"0" * (9 << 20)), "content-type: application/json", "content-encoding: gzip"
    ),
    "elsewhere": response("307 Temporary Redirect", b"", "location: http://127.0.0.1:9/mcp"),
    "huge event": response("200 OK", b"data: " + HUGE + b"\n\n", "content-type: text/event-stream"),
    "cut": b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 999\r\n\r\n{",
    "no http": b"220 smtp.test ESMTP\r\n",
}


@pytest.mark.parametrize("kind", CANNED)
async def test_what_is_no_server_is_named(kind: str) -> None:
    async with canned(CANNED[kind]) as url:
        server = reached(url, start_s=5)
        with pytest.raises(McpFault, match="MCP server web: ") as caught:
            await server.offers()
        assert "not ready within" not in str(caught.value)
        await server.aclose()


async def test_nobody_there_and_no_answer() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    server = reached(url)
    with pytest.raises(McpFault, match="MCP server web: "):
        await server.offers()
    async with canned(b"", hold=True) as url:
        silent = reached(url, start_s=0.3)
        with pytest.raises(McpFault, match=r"not ready within 0\.3 s"):
            await silent.offers()
        await silent.aclose()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "either command or url"),
        ({"command": "x", "url": "https://a.test/"}, "either command or url"),
        ({"url": "http://a.test/mcp"}, "must be https"),
        ({"url": "http://127.0.0.1.a.test/mcp"}, "must be https"),
        ({"url": "ftp://a.test"}, "must begin with"),
        ({"url": "https://user:pw@a.test"}, "must not hold a user"),
        ({"url": "https://a.test", "args": ["x"]}, "belong to command"),
        ({"command": "x", "token_env": "T"}, "pass_env"),
        ({"command": "x\0"}, "NUL"),
        ({"command": "x", "pass_env": ["A=B"]}, "pattern"),
        ({"command": "x", "timeout_s": 0}, "greater than 0"),
        ({"command": "x", "wrong": 1}, "not permitted"),
    ],
)
def test_configurations_that_cannot_be_meant(given: dict[str, object], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        McpServerConfig.model_validate(given)


def test_configurations_that_can() -> None:
    for url in ("https://a.test/mcp", "http://localhost:1/mcp", "http://[::1]:1/", "http://127.0.0.9/"):
        assert McpServerConfig.model_validate({"url": url}).url == url
    assert json.loads(McpServerConfig(command="x").model_dump_json())["allow"] is None

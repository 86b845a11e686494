"""A loopback web site of our own making, a resolver that says what it is told, and a spy on connections."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeAlias

Writer: TypeAlias = asyncio.StreamWriter
Handler: TypeAlias = Callable[[Writer], Awaitable[None]]


class Site:
    """``pages``: path -> raw response bytes, or a handler that writes what it likes. ``requests``: as received."""

    def __init__(self) -> None:
        self.pages: dict[str, bytes | Handler] = {}
        self.requests: list[str] = []
        self.port = 0

    def url(self, path: str, host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    async def _serve(self, reader: asyncio.StreamReader, writer: Writer) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            self.requests.append(head)
            page = self.pages.get(head.split(" ")[1], answer("nothing here", status="404 Not Found", kind="text/plain"))
            if isinstance(page, bytes):
                writer.write(page)
                await writer.drain()
            else:
                await page(writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def running(ssl: Any = None) -> Any:
    site = Site()
    server = await asyncio.start_server(site._serve, "127.0.0.1", 0, ssl=ssl)
    site.port = server.sockets[0].getsockname()[1]
    async with server:
        yield site


def answer(
    body: str | bytes, *, status: str = "200 OK", kind: str = "text/html; charset=utf-8", headers: tuple[str, ...] = ()
) -> bytes:
    content = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(content)}", f"Content-Type: {kind}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


def redirect(location: str, status: str = "302 Found") -> bytes:
    return answer("", status=status, headers=(f"Location: {location}",))


class FakeResolver:
    """Answers from a table; a list of lists gives a different answer at each call. ``asked``: what was looked up."""

    def __init__(self, table: dict[str, list[str]] | None = None, *, turns: dict[str, list[list[str]]] | None = None):
        self.table = table or {}
        self.turns = turns or {}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        if host in self.turns:
            return self.turns[host].pop(0)
        return self.table.get(host, [])


_spied: list[list[Any]] = []
_installed = False


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.connect":
        for seen in _spied:
            seen.append(arguments[1])


@contextmanager
def connections() -> Iterator[list[Any]]:
    """Every address that this process tries to connect to meanwhile, seen below all libraries (an audit hook)."""
    global _installed
    if not _installed:
        sys.addaudithook(_hook)
        _installed = True
    seen: list[Any] = []
    _spied.append(seen)
    try:
        yield seen
    finally:
        _spied.remove(seen)

"""A route of the hostile web: the bytes it sends, and what a careful reader makes of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from memory.records import ErrorKind

Writer: TypeAlias = asyncio.StreamWriter
Handler: TypeAlias = Callable[[Writer], Awaitable[None]]
PHRASE = "The lighthouse of Varden was built in 1831."
"""Stands on every page that can be read."""


@dataclass(frozen=True, slots=True)
class Route:
    """``shows``: text that a visit must give; empty: it must fail, with one of ``fails``.

    ``answer``: raw bytes, made anew for each request, or a handler that writes what it likes. ``host``: the name under
    which the route is meant to be asked for; empty for any. ``hides``: what must not be shown.
    """

    path: str
    what: str
    answer: Callable[[], bytes] | Handler
    shows: str = ""
    fails: tuple[ErrorKind, ...] = ()
    host: str = ""
    hides: str = ""


def reply(
    body: str | bytes = "",
    status: str = "200 OK",
    kind: str | None = "text/html; charset=utf-8",
    headers: tuple[str, ...] = (),
    length: str | None = None,
) -> bytes:
    """One HTTP response. ``kind`` None leaves the type out; ``length`` stands in for the true length."""
    content = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(content) if length is None else length}"]
    lines += [f"Content-Type: {kind}"] if kind is not None else []
    return "\r\n".join([*lines, *headers, "Connection: close"]).encode("latin-1", "replace") + b"\r\n\r\n" + content


def article(text: str = PHRASE, head: str = "<title>Varden</title>", body: str = "") -> str:
    """A plain page around a sentence."""
    return f"<!DOCTYPE html><html><head>{head}</head><body><article><p>{text}</p>{body}</article></body></html>"


def redirect(location: str, status: str = "302 Found") -> bytes:
    return reply("", status, headers=(f"Location: {location}",))


def fixed(path: str, what: str, raw: bytes, shows: str = "", fails: tuple[ErrorKind, ...] = ()) -> Route:
    """A route that always sends the same bytes."""
    return Route(path, what, lambda: raw, shows, fails)


async def send(writer: Writer, *parts: bytes) -> None:
    for part in parts:
        writer.write(part)
        await writer.drain()


async def drip(writer: Writer, content: bytes, pause_s: float) -> None:
    """One byte at a time."""
    for place in range(len(content)):
        await send(writer, content[place : place + 1])
        await asyncio.sleep(pause_s)


async def for_ever() -> None:
    """Until the server stops, or the client is gone."""
    await asyncio.Event().wait()


def chunks(*parts: bytes) -> Iterator[bytes]:
    """A chunked body, its end included."""
    for part in parts:
        yield b"%x\r\n%b\r\n" % (len(part), part)
    yield b"0\r\n\r\n"

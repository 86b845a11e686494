"""One connection to the service: a head and a reader that take too long end it, and so do too many others.

The server has limits for what it answers, and none for those who never finish asking, or never read.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from runners.service.gate import HEADERS

CONNECTIONS = 512
HEAD_S = 10.0
"""For the head of a request to arrive whole."""
UNREAD_S = 60.0
"""For a reader to take what waits for it."""
_REASONS = {400: "Bad Request", 503: "Service Unavailable"}


def _protocol(given: dict[str, Any]) -> Any:
    """The one without parts in C: it is there wherever the server is, and takes no more than one request at a time."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    return H11Protocol(**given)


class Door(asyncio.Protocol):
    """In front of the server's own protocol, which does everything else; made with what that is made with."""

    def __init__(self, **given: Any) -> None:
        self._inner = _protocol(given)
        # its own answer is plain text without our headers, and fails where an answer has begun
        self._inner.send_400_response = lambda _: self._refuse(400, "http", "this is no request of HTTP/1.1")
        self._late: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._inner.connection_made(transport)
        if len(self._inner.connections) > CONNECTIONS:
            self._refuse(503, "busy", "too many connections")
        self._watch()

    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)
        self._watch()

    def eof_received(self) -> bool | None:
        self._inner.eof_received()
        return None

    def pause_writing(self) -> None:
        self._unread = asyncio.get_running_loop().call_later(UNREAD_S, self._transport.abort)
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._forget()
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._late is not None:
            self._late.cancel()
        self._forget()
        self._inner.connection_lost(exc)

    def _watch(self) -> None:
        """Between answers without the server's own timer: a head, or what follows an answered one, is on its way."""
        cycle = self._inner.cycle
        answered = cycle is None or cycle.response_complete
        if not answered or self._inner.timeout_keep_alive_task is not None:
            if self._late is not None:
                self._late.cancel()
                self._late = None
        elif self._late is None:
            self._late = asyncio.get_running_loop().call_later(HEAD_S, self._transport.abort)

    def _forget(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _refuse(self, status: int, kind: str, message: str) -> None:
        """Answer by hand, where nothing was answered, and close."""
        cycle = self._inner.cycle
        if cycle is None or cycle.response_complete or not cycle.response_started:
            body = json.dumps({"error": {"kind": kind, "message": message, "hint": ""}}).encode()
            lines = [f"HTTP/1.1 {status} {_REASONS[status]}".encode(), b"content-type: application/json"]
            lines += [b"%s: %s" % pair for pair in HEADERS]
            lines += [b"content-length: %d" % len(body), b"connection: close", b"", body]
            self._transport.write(b"\r\n".join(lines))
        self._transport.close()

"""A model server that says what it was told: three wire formats on a real loopback socket, with every fault on order.

For tests, ours and users': point a backbone's ``base_url`` at it. Strict like the scripted backbone: a request past the
end of the script gets an error status that no SDK retries, and ``close`` fails when turns are missing or left over.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TypeAlias

from agent.errors import ScriptExhausted, ScriptUnused
from memory.records import JsonValue, Reply
from runners.devserver.frame import Exchange, Frame
from runners.devserver.wire import Turn, Wire, models_body, payload

ScriptedTurn: TypeAlias = Turn | Reply | str
_PATHS: Mapping[str, Wire] = {
    "/v1/chat/completions": "openai",
    "/v1/responses": "responses",
    "/v1/messages": "anthropic",
}
LEAVE_S = 30.0
"""How long a hanging turn waits for its client to leave."""


@dataclass(frozen=True, slots=True)
class WireRequest:
    """A recorded request. ``headers`` have lower-case names."""

    wire: Wire
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, JsonValue]


class ModelServer:
    """Serves a script: a sequence (each turn once, in order) or a callable (asked every time, never exhausted).

    A context manager; ``url`` is what the Anthropic SDK takes, ``url`` + ``/v1`` the OpenAI one. ``requests`` are those
    answered from the script; ``left`` is set when a client went away in the middle of an answer.
    """

    def __init__(
        self,
        script: Sequence[ScriptedTurn] | Callable[[WireRequest], ScriptedTurn],
        *,
        model: str = "scripted",
        port: int = 0,
        allow_unused: bool = False,
    ) -> None:
        self.model = model
        self.requests: list[WireRequest] = []
        self.reached = threading.Event()
        """Set when a turn hangs or drips: the client has begun to read it."""
        self.left = threading.Event()
        self.failures: list[BaseException] = []
        """What a script's callable raised."""
        self._script = script if callable(script) else tuple(script)
        self._allow_unused = allow_unused
        self._overrun = 0
        self._lock = threading.Lock()
        self._server = _Server(_Handler, port, "model-server")
        self._server.owner = self

    @property
    def url(self) -> str:
        return self._server.url

    def start(self) -> ModelServer:
        self._server.start()
        return self

    def stop(self) -> None:
        """Stop serving, without a word about the script."""
        self._server.stopping.set()
        self._server.stop()

    def close(self) -> None:
        """Stop. Raises what the script raised, or ScriptExhausted or ScriptUnused when it did not fit the requests."""
        self.stop()
        if self.failures:
            raise self.failures[0]
        if self._overrun:
            raise ScriptExhausted(f"{self._overrun} requests past the end of a script of {len(self.requests)} turns")
        if not callable(self._script) and not self._allow_unused and len(self.requests) < len(self._script):
            raise ScriptUnused(
                f"{len(self._script) - len(self.requests)} of {len(self._script)} turns were not asked for"
            )

    def __enter__(self) -> ModelServer:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.stop()

    def take(self, request: WireRequest) -> Turn:
        """Record a request and take its turn."""
        with self._lock:
            if not callable(self._script) and len(self.requests) >= len(self._script):
                self._overrun += 1
                return Turn(status=400, error="the script is exhausted", error_type="invalid_request_error")
            turn = self._script(request) if callable(self._script) else self._script[len(self.requests)]
            self.requests.append(request)
        if isinstance(turn, Turn):
            return turn
        return Turn(Reply(turn) if isinstance(turn, str) else turn)


class _Server(Frame):
    owner: ModelServer

    def __init__(self, handler: type[Exchange], port: int, name: str) -> None:
        super().__init__(handler, port, name)
        self.stopping = threading.Event()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is an event; a fault of the script is kept for ``close``."""
        error = sys.exception()
        if isinstance(error, ConnectionError):
            self.owner.left.set()
        elif error is not None:
            self.owner.failures.append(error)


class _Handler(Exchange):
    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def do_GET(self) -> None:
        if self.path.split("?")[0] == "/v1/models":
            self.reply(200, models_body(self.server.owner.model))
        else:
            self.reply(404, b'{"error": {"message": "no such path", "type": "not_found_error"}}')

    def do_POST(self) -> None:
        path = self.path.split("?")[0]
        wire = _PATHS.get(path)
        raw = self.body()
        if wire is None:
            self.reply(404, b'{"error": {"message": "no such path", "type": "not_found_error"}}')
            return
        try:
            body = json.loads(raw)
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            self.reply(400, b'{"error": {"message": "the body is not a JSON object", "type": "invalid_request_error"}}')
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        turn = self.server.owner.take(WireRequest(wire, path, headers, body))
        if turn.delay_s and self.server.stopping.wait(turn.delay_s):
            self.close_connection = True
            return
        self._answer(turn, payload(turn, wire, self.server.owner.model, stream=body.get("stream") is True), body)

    def _answer(self, turn: Turn, content: bytes, body: Mapping[str, JsonValue]) -> None:
        streams = turn.status < 400 and body.get("stream") is True
        kind = turn.content_type or ("text/event-stream" if streams else "application/json")
        retry = [("Retry-After", turn.retry_after)] if turn.retry_after else []
        special = turn.cut_after is not None or turn.hang_after is not None or turn.drip_s > 0
        if not streams and not special:
            self.reply(turn.status, content, kind, retry)
            return
        self.send_response(turn.status)
        self.send_header("Content-Type", kind)
        for header in retry:
            self.send_header(*header)
        self.send_header(*(("Transfer-Encoding", "chunked") if turn.chunked else ("Connection", "close")))
        self.end_headers()
        self._stream(turn, content)

    def _stream(self, turn: Turn, content: bytes) -> None:
        whole = True
        for stop in (turn.cut_after, turn.hang_after):
            if stop is not None:
                content, whole = content[:stop], False
        if turn.drip_s > 0:
            for i in range(len(content)):
                self._chunk(turn, content[i : i + 1])
                self.server.owner.reached.set()
                if self.server.stopping.wait(turn.drip_s):
                    return
        else:
            self._chunk(turn, content)
        if turn.hang_after is not None:
            self._wait_for_leave()
        if whole and turn.chunked:
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection = not (whole and turn.chunked)

    def _chunk(self, turn: Turn, content: bytes) -> None:
        if content:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(content), content) if turn.chunked else content)
            self.wfile.flush()

    def _wait_for_leave(self) -> None:
        self.server.owner.reached.set()
        self.connection.settimeout(0.05)
        waited = 0.0
        while not self.server.stopping.is_set() and waited < LEAVE_S:
            try:
                if not self.connection.recv(4096):
                    self.server.owner.left.set()
                    return
            except TimeoutError:
                waited += 0.05
            except OSError:
                self.server.owner.left.set()
                return

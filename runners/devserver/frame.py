"""What the servers for tests have in common: HTTP on loopback in a thread of its own, bodies read and sent whole."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MAX_BODY = 64 << 20


class Frame(ThreadingHTTPServer):
    """A server that can be started and stopped once."""

    daemon_threads = True

    def __init__(self, handler: type[BaseHTTPRequestHandler], port: int, name: str) -> None:
        """Raises OSError when the port is taken."""
        super().__init__(("127.0.0.1", port), handler)
        self._thread = threading.Thread(
            target=self.serve_forever, kwargs={"poll_interval": 0.02}, name=name, daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away."""


class Exchange(BaseHTTPRequestHandler):
    """One request and its answer."""

    def body(self) -> bytes:
        """Of the request, at most `MAX_BODY` bytes of it."""
        return self.rfile.read(min(MAX_BODY, int(self.headers.get("content-length") or 0)))

    def reply(
        self, status: int, body: bytes, kind: str = "application/json", headers: Iterable[tuple[str, str]] = ()
    ) -> None:
        """A whole answer."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Silent: requests are recorded."""

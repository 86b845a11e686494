"""A service that is dead, slow, broken or lying, on order."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

Behaviour = Callable[[socket.socket, threading.Event], None]
"""Does something with an accepted connection, whose request has been read; ``Event``: the test is over."""


@dataclass(slots=True)
class Liar:
    url: str
    calls: list[float] = field(default_factory=list)
    """One entry a request."""


def answering(body: bytes, status: str = "200 OK", headers: str = "", length: int | None = None) -> Behaviour:
    """A whole answer, whatever is in it."""

    def behave(wire: socket.socket, _: threading.Event) -> None:
        size = len(body) if length is None else length
        head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {size}\r\nconnection: close\r\n"
        wire.sendall(f"{head}{headers}\r\n".encode() + body)

    return behave


def saying(raw: bytes) -> Behaviour:
    """Bytes that need be no HTTP."""
    return lambda wire, _: wire.sendall(raw)


def silent(wire: socket.socket, over: threading.Event) -> None:
    """Nothing, as long as the test lasts."""
    over.wait(30)


def dripping(first: bytes) -> Behaviour:
    """One byte at a time, faster than any read times out, without end."""

    def behave(wire: socket.socket, over: threading.Event) -> None:
        wire.sendall(first)
        while not over.wait(0.02):
            wire.sendall(b"x")

    return behave


def flooding(wire: socket.socket, over: threading.Event) -> None:
    """A body without end."""
    wire.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n")
    while not over.is_set():
        wire.sendall(b" " * 65_536)


@contextmanager
def lying(behaviour: Behaviour) -> Iterator[Liar]:
    """A server of that behaviour until the end of the block."""
    over = threading.Event()
    listening = socket.create_server(("127.0.0.1", 0))
    liar = Liar(f"http://127.0.0.1:{listening.getsockname()[1]}")
    threads: list[threading.Thread] = []

    def handle(wire: socket.socket) -> None:
        with wire:
            try:
                wire.settimeout(10)
                _read_request(wire)
                liar.calls.append(0.0)
                behaviour(wire, over)
            except OSError:
                pass

    def accept() -> None:
        while True:
            try:
                wire, _ = listening.accept()
            except OSError:
                return
            threads.append(threading.Thread(target=handle, args=(wire,), daemon=True))
            threads[-1].start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield liar
    finally:
        over.set()
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        accepting.join(10)
        for thread in threads:
            thread.join(10)


def _read_request(wire: socket.socket) -> None:
    data = b""
    while b"\r\n\r\n" not in data:
        data += wire.recv(65_536)
    head, _, body = data.partition(b"\r\n\r\n")
    wanted = next(
        int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
    )
    while len(body) < wanted:
        body += wire.recv(65_536)

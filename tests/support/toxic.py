"""A network of the tests' own: passes bytes between clients and a server on loopback, and breaks where it is told."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
from collections.abc import Callable, Iterator

TO_SERVER, TO_CLIENT = 0, 1
_RESET = struct.pack("ii", 1, 0)


class Pair:
    """One connection through it."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.ends = (server, client)
        """Whom the bytes of each direction go to."""
        self.held = bytearray()
        """What was taken from the client and not passed on."""
        self.holding = threading.Event()
        self.open = [True, True]

    def cut(self, *, reset: bool, ends: tuple[int, ...] = (TO_SERVER, TO_CLIENT)) -> None:
        """Close towards these ends, in order or not."""
        for way in ends:
            self.open[way] = False
            with contextlib.suppress(OSError):
                if reset:
                    self.ends[way].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                    self.ends[way].close()
                else:
                    self.ends[way].shutdown(socket.SHUT_WR)

    def pass_on(self) -> None:
        """To the server, what was held."""
        self.ends[TO_SERVER].sendall(bytes(self.held))
        self.held.clear()


Judge = Callable[[Pair, int, bytes], bytes | None]
"""Given a pair, a direction and bytes: which of them to pass on; None once the pair is cut."""


class Toxic:
    """Listens at ``port``; each connection is passed on by a thread of its own."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.judge: Judge = lambda pair, way, data: data
        self.pairs: list[Pair] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._ending = threading.Event()
        self._threads[0].start()

    def close(self) -> None:
        self._ending.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for pair in self.pairs:
            pair.cut(reset=True)
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        while not self._ending.is_set():
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                return
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pair = Pair(client, server)
            self.pairs.append(pair)
            thread = threading.Thread(target=self._carry, args=(pair,))
            self._threads.append(thread)
            thread.start()

    def _carry(self, pair: Pair) -> None:
        while not self._ending.is_set():
            try:
                both = [pair.ends[1 - way] for way in (TO_SERVER, TO_CLIENT) if pair.open[way]]
                sources = [source for source in both if source.fileno() >= 0]
                if not sources and not pair.held:
                    break
                for source in select.select(sources, [], [], 0.05)[0]:
                    way = TO_CLIENT if source is pair.ends[TO_SERVER] else TO_SERVER
                    self._pass(pair, way, source.recv(65536))
            except (OSError, ValueError):  # one end was closed just now
                if not pair.held:
                    break
        for end in pair.ends:
            end.close()

    def _pass(self, pair: Pair, way: int, data: bytes) -> None:
        if not data:
            pair.open[way] = False
            pair.ends[way].shutdown(socket.SHUT_WR)
            return
        passed = self.judge(pair, way, data)
        if passed and pair.open[way]:
            pair.ends[way].sendall(passed)


@contextlib.contextmanager
def toxic(target: int) -> Iterator[Toxic]:
    """In front of the server at a port of loopback."""
    network = Toxic(target)
    try:
        yield network
    finally:
        network.close()

"""A web site where everything goes wrong, on loopback, with a resolver that lies: for tests of anything that fetches.

Every route says what it sends and how a careful reader ends: `HostileWeb.routes`. Names under ``.test`` reach the
server through `FakeResolver`; their exact ``host:port`` has to be allowed (`HostileWeb.allow_hosts`).
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType

from runners.devserver.hostile import bodies, files, markup, protocol
from runners.devserver.hostile.route import Route, article, reply

HOST = "hostile.test"
TABLE: Mapping[str, Sequence[str]] = {
    "private.test": ("10.1.2.3",),
    "metadata.test": ("169.254.169.254",),
    "mixed.test": ("93.184.216.34", "127.0.0.1"),
    "mixed6.test": ("2606:4700::1111", "64:ff9b::7f00:1"),
    "mapped.test": ("::ffff:127.0.0.1",),
    "nowhere.test": (),
    "localhost": ("127.0.0.1", "::1"),
    "127.1": ("127.0.0.1",),
    "0x7f000001": ("127.0.0.1",),
    "0177.0.0.1": ("127.0.0.1",),
    "2130706433": ("127.0.0.1",),
}
"""What the fake resolver answers beside the names of the site itself."""


class FakeResolver:
    """A `tools.web.resolver.Resolver` from a table. ``turns``: answers used up one after the other (DNS rebinding; the
    last one stays). ``asked``: every name that was looked up."""

    def __init__(
        self,
        table: Mapping[str, Sequence[str]] | None = None,
        turns: Mapping[str, Sequence[Sequence[str]]] | None = None,
    ) -> None:
        self._table = TABLE if table is None else table
        self._turns = {host: [list(answer) for answer in answers] for host, answers in (turns or {}).items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        answers = self._turns.get(host)
        if answers:
            return answers.pop(0) if len(answers) > 1 else answers[0]
        return list(self._table.get(host, ()))


def all_routes() -> tuple[Route, ...]:
    """Made anew; nothing is served."""
    return (*protocol.routes(), *bodies.routes(), *markup.routes(), *files.routes())


class HostileWeb:
    """The running site, in a thread of its own. A context manager. ``requests``: request heads as received."""

    def __init__(self, port: int = 0) -> None:
        self.routes = all_routes()
        self.requests: list[str] = []
        self.port = 0
        self._wanted = port
        self._table = {(route.host, route.path): route for route in self.routes}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hostile-web", daemon=True)
        self._stopping = asyncio.Event()
        self._failed: OSError | None = None

    @property
    def hosts(self) -> tuple[str, ...]:
        """Every name of the site."""
        return (HOST, *sorted({route.host for route in self.routes if route.host}))

    @property
    def allow_hosts(self) -> tuple[str, ...]:
        """What ``fetch.allow_hosts`` has to hold."""
        return (f"127.0.0.1:{self.port}", *(f"{host}:{self.port}" for host in self.hosts))

    def resolver(self, turns: Mapping[str, Sequence[Sequence[str]]] | None = None) -> FakeResolver:
        """A resolver that knows the site's names, and others that lead to forbidden places."""
        return FakeResolver({**TABLE, **dict.fromkeys(self.hosts, ("127.0.0.1",))}, turns)

    def url(self, route: Route | str) -> str:
        """The address of a route, or of a path under the site's main name."""
        host, path = (HOST, route) if isinstance(route, str) else (route.host or HOST, route.path)
        return f"http://{host}:{self.port}{path}"

    def start(self) -> HostileWeb:
        """Raises OSError when the port is taken."""
        self._thread.start()
        self._ready.wait()
        if self._failed is not None:
            raise self._failed
        return self

    def stop(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def __enter__(self) -> HostileWeb:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        try:
            server = await asyncio.start_server(self._answer, "127.0.0.1", self._wanted)
        except OSError as error:
            self._failed = error
            self._ready.set()
            return
        self.port = server.sockets[0].getsockname()[1]
        self._loop = asyncio.get_running_loop()
        self._ready.set()
        await self._stopping.wait()
        server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request a connection. Reading goes on beside a slow answer, so that a client that left is noticed."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            self.requests.append(head)
            answering = asyncio.ensure_future(self._route(head, writer))
            left = asyncio.ensure_future(reader.read())
            await asyncio.wait((answering, left), return_when=asyncio.FIRST_COMPLETED)
            for task in (answering, left):
                task.cancel()
            await asyncio.gather(answering, left, return_exceptions=True)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    async def _route(self, head: str, writer: asyncio.StreamWriter) -> None:
        path = head.split(" ")[1].partition("?")[0]
        host = next((line[5:].strip() for line in head.split("\r\n") if line.lower().startswith("host:")), "")
        route = self._table.get((host.rpartition(":")[0], path)) or self._table.get(("", path))
        made = self._home() if route is None and path == "/" else reply(article("Nothing here."), "404 Not Found")
        if route is not None:
            answer = route.answer(writer) if inspect.iscoroutinefunction(route.answer) else route.answer()  # type: ignore[call-arg]
            if asyncio.iscoroutine(answer):
                await answer
                return
            assert isinstance(answer, bytes)
            made = answer.replace(b":PORT/", b":%d/" % self.port, 1)
        writer.write(made)
        await writer.drain()

    def _home(self) -> bytes:
        """Every route with what it does."""
        rows = "".join(
            f"<li><a href='{self.url(route)}'>{route.path}</a> {route.host}: {_escaped(route.what)}; "
            f"{'shows a text' if route.shows else ' or '.join(route.fails) or 'rules'}</li>"
            for route in self.routes
        )
        return reply(f"<html><head><title>Hostile web</title></head><body><ul>{rows}</ul></body></html>")


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")

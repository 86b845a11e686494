"""The search providers' interfaces on loopback, over results of your own: for tests without keys or network.

Each provider stands under its own path (``http://127.0.0.1:PORT/serper``), wants its key where the real one wants it,
and refuses a request that the real one would not understand. `SearchEmulator.environment` is what to set.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TypeAlias
from urllib.parse import parse_qsl, urlsplit

from memory.records import JsonValue
from runners.devserver.frame import Exchange, Frame
from runners.devserver.search_wire import EMULATED, Emulated
from tools.search.base import Hit
from tools.search.shapes import SHAPES

Find: TypeAlias = Callable[[str, int], Sequence[Hit]]
"""Query and most hits to hits, best first. Called from several threads."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong instead of an answer. ``body`` empty: an error body as the provider writes it. ``times``: so
    many requests fail, then it works again; negative: for ever."""

    status: int = 200
    body: bytes = b""
    kind: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    times: int = -1


@dataclass(frozen=True, slots=True)
class Asked:
    """A recorded request. ``query`` empty: it was refused before it was understood."""

    provider: str
    query: str
    parameters: Mapping[str, JsonValue]
    status: int


class SearchEmulator:
    """All providers over one ``find``. A context manager. ``faults``: by provider, to be set at any time."""

    def __init__(self, find: Find, *, key: str = "dev-key", port: int = 0) -> None:
        """Raises OSError when the port is taken."""
        self.find = find
        self.key = key
        self.faults: dict[str, Fault] = {}
        self.requests: list[Asked] = []
        self._lock = threading.Lock()
        self._server = _Server(_Handler, port, "search-emulator")
        self._server.owner = self

    def url(self, provider: str) -> str:
        """The base URL of a provider."""
        return f"{self._server.url}/{provider}"

    @property
    def environment(self) -> dict[str, str]:
        """Variables that point every provider here."""
        named = {shape.urls[0]: self.url(name) for name, shape in SHAPES.items()}
        return {**named, **{shape.keys[0]: self.key for shape in SHAPES.values() if shape.keys}}

    def start(self) -> SearchEmulator:
        self._server.start()
        return self

    def stop(self) -> None:
        self._server.stop()

    def __enter__(self) -> SearchEmulator:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def fault(self, provider: str) -> Fault | None:
        """The fault that this request meets; counts it."""
        with self._lock:
            fault = self.faults.get(provider)
            if fault is not None and fault.times > 0:
                left = Fault(fault.status, fault.body, fault.kind, fault.headers, fault.times - 1)
                self.faults[provider] = left
            elif fault is not None and fault.times == 0:
                del self.faults[provider]
                return None
            return fault

    def record(self, asked: Asked) -> None:
        with self._lock:
            self.requests.append(asked)


class _Server(Frame):
    owner: SearchEmulator


class _Handler(Exchange):
    server: _Server
    server_version = "search-emulator"

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        self._answer("GET", parts.path, dict(parse_qsl(parts.query, keep_blank_values=True)))

    def do_POST(self) -> None:
        try:
            body = json.loads(self.body())
        except (ValueError, RecursionError):
            body = None
        self._answer("POST", urlsplit(self.path).path, body if isinstance(body, dict) else None)

    def _answer(self, method: str, path: str, parameters: Mapping[str, JsonValue] | None) -> None:
        name, _, rest = path.lstrip("/").partition("/")
        emulated = EMULATED.get(name)
        if emulated is None or f"/{rest}" != SHAPES[name].path or method != SHAPES[name].method:
            self.reply(404, b'{"error": "no such path"}')
            return
        owner = self.server.owner
        fault = owner.fault(name)
        if fault is not None:
            owner.record(Asked(name, "", parameters or {}, fault.status))
            self.reply(fault.status, fault.body or emulated.error("scripted error"), fault.kind, fault.headers)
            return
        status, body, query = self._made(name, emulated, parameters)
        owner.record(Asked(name, query, parameters or {}, status))
        self.reply(status, body)

    def _made(
        self, name: str, emulated: Emulated, parameters: Mapping[str, JsonValue] | None
    ) -> tuple[int, bytes, str]:
        """(status, body, query as understood)."""
        shape, owner = SHAPES[name], self.server.owner
        if shape.header and self.headers.get(shape.header) != f"{shape.prefix}{owner.key}":
            return emulated.denied, emulated.error("Unauthorized."), ""
        wrong = "the body is not a JSON object" if parameters is None else emulated.wrong(parameters)
        if wrong or parameters is None:
            return emulated.invalid, emulated.error(wrong), ""
        query, count, page = emulated.read(parameters)
        hits = owner.find(query, count * page)[count * (page - 1) :]
        return 200, emulated.body(query, hits), query

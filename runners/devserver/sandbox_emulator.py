"""SandboxFusion's and E2B's interfaces on loopback, over this machine's own sandbox: for tests without keys or network.

Each refuses what the real one refuses, and any field that it does not know; `SandboxEmulator.environment` is what to
set.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TypeVar

from memory.records import JsonValue
from runners.devserver.frame import Exchange, Frame
from runners.devserver.sandbox_wire import FUSION, MACHINE, NEW_MACHINE, events, fusion_answer, fusion_code, wrong
from tools.python.base import PythonSandbox

T = TypeVar("T")
_HANG_S = 60.0
_GONE = b'{"code": 404, "message": "the sandbox was not found"}'


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong instead of an answer. ``cut``: the body is announced as longer than it is; ``hang``: nothing
    follows it for a minute; ``times``: so many requests."""

    status: int = 200
    body: bytes = b""
    kind: str = "application/json"
    cut: bool = False
    hang: bool = False
    times: int = 1


@dataclass(frozen=True, slots=True)
class Asked:
    """A recorded request: what it is (``run_code``, ``create``, ``execute``, ``renew``, ``end``), and its answer."""

    what: str
    body: JsonValue
    status: int


class SandboxEmulator:
    """``make``: a new sandbox for each script or machine. A context manager. ``faults``: by what is asked."""

    def __init__(self, make: Callable[[], PythonSandbox], *, key: str = "e2b_dev", port: int = 0) -> None:
        """Raises OSError when the port is taken."""
        self.key = key
        self.faults: dict[str, Fault] = {}
        self.requests: list[Asked] = []
        self.machines: dict[str, PythonSandbox] = {}
        self.tokens: dict[str, str] = {}
        self.make = make
        self.stopping = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()
        self._server = _Server(_Handler, port, "sandbox-emulator")
        self._server.owner = self
        self._thread = threading.Thread(target=self._loop.run_forever, name="sandbox-emulator-loop", daemon=True)

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def environment(self) -> dict[str, str]:
        """Variables that point both services here."""
        return {
            "SANDBOX_FUSION_ENDPOINT": f"{self.url}/fusion",
            "E2B_API_KEY": self.key,
            "E2B_API_URL": f"{self.url}/e2b",
            "E2B_SANDBOX_URL": f"{self.url}/machine",
        }

    def start(self) -> SandboxEmulator:
        self._thread.start()
        self._server.start()
        return self

    def stop(self) -> None:
        """Ends the machines, too."""
        self.stopping.set()
        for machine in list(self.machines.values()):
            self.wait(machine.aclose())
        self._server.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> SandboxEmulator:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def wait(self, work: Coroutine[object, object, T]) -> T:
        """Run in the emulator's loop, from any other thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def fault(self, what: str) -> Fault | None:
        """The fault that this request meets; counts it."""
        with self._lock:
            fault = self.faults.pop(what, None)
            if fault is not None and fault.times > 1:
                self.faults[what] = replace(fault, times=fault.times - 1)
            return fault

    def record(self, asked: Asked) -> None:
        with self._lock:
            self.requests.append(asked)


class _Server(Frame):
    owner: SandboxEmulator


class _Handler(Exchange):
    server: _Server
    server_version = "sandbox-emulator"
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        raw = self.body()
        try:
            body: JsonValue = json.loads(raw) if raw else None
        except (ValueError, RecursionError):
            self._send("unreadable", None, 400, b'{"detail": "not JSON"}')
            return
        if self.path == "/fusion/run_code":
            self._run_code(body)
        elif self.path == "/machine/execute":
            self._execute(body)
        elif self.path == "/e2b/v2/sandboxes":
            self._create(body)
        elif found := re.fullmatch(r"/e2b/sandboxes/(\w+)/timeout", self.path):
            self._renew(found[1], body)
        else:
            self._send("unknown", body, 404, b'{"detail": "Not Found", "code": 404, "message": "no such path"}')

    def do_DELETE(self) -> None:
        found = re.fullmatch(r"/e2b/sandboxes/(\w+)", self.path)
        if found is None or not self._allowed("end", None):
            return
        machine = self.server.owner.machines.pop(found[1], None)
        if machine is not None:
            self.server.owner.wait(machine.aclose())
        self._send("end", None, 204 if machine is not None else 404, _GONE if machine is None else b"")

    def _run_code(self, body: JsonValue) -> None:
        if self._failed("run_code", body):
            return
        if why := wrong(body, FUSION):
            self._send("run_code", body, 422, json.dumps({"detail": [{"type": "value_error", "msg": why}]}).encode())
            return
        assert isinstance(body, dict)
        sandbox = self.server.owner.make()

        async def run() -> bytes:
            limit = body.get("run_timeout", 10)
            try:
                result = await sandbox.execute(
                    fusion_code(body), float(limit) if isinstance(limit, int | float) else 10
                )
            finally:
                await sandbox.aclose()
            return fusion_answer(body, result)

        self._send("run_code", body, 200, self.server.owner.wait(run()))

    def _create(self, body: JsonValue) -> None:
        if not self._allowed("create", body) or self._failed("create", body):
            return
        if why := wrong(body, NEW_MACHINE):
            self._send("create", body, 400, json.dumps({"code": 400, "message": why}).encode())
            return
        name, token = f"i{secrets.token_hex(8)}", secrets.token_hex(8)
        self.server.owner.machines[name] = self.server.owner.make()
        self.server.owner.tokens[name] = token
        made = {"sandboxID": name, "templateID": "code-interpreter-v1", "clientID": "dev", "envdVersion": "0.2.0"}
        self._send("create", body, 201, json.dumps({**made, "envdAccessToken": token, "domain": None}).encode())

    def _renew(self, name: str, body: JsonValue) -> None:
        if self._allowed("renew", body) and not self._failed("renew", body):
            known = name in self.server.owner.machines
            self._send("renew", body, 204 if known else 404, b"" if known else _GONE)

    def _execute(self, body: JsonValue) -> None:
        if self._failed("execute", body):
            return
        owner = self.server.owner
        name = self.headers.get("E2b-Sandbox-Id", "")
        machine = owner.machines.get(name)
        if machine is None:
            self._send("execute", body, 404, _GONE)
        elif self.headers.get("X-Access-Token") != owner.tokens[name]:
            self._send("execute", body, 401, b'{"message": "bad token"}')
        elif why := wrong(body, MACHINE):
            self._send("execute", body, 422, json.dumps({"detail": why}).encode())
        else:
            assert isinstance(body, dict)
            result = owner.wait(machine.execute(str(body["code"]), 300))
            self._send("execute", body, 200, events(result), "application/x-ndjson")

    def _allowed(self, what: str, body: JsonValue) -> bool:
        if self.headers.get("X-API-Key") == self.server.owner.key:
            return True
        self._send(what, body, 401, b'{"code": 401, "message": "Invalid API key"}')
        return False

    def _failed(self, what: str, body: JsonValue) -> bool:
        fault = self.server.owner.fault(what)
        if fault is None:
            return False
        self.server.owner.record(Asked(what, body, fault.status))
        self.send_response(fault.status)
        self.send_header("Content-Type", fault.kind)
        more = 100 if fault.cut or fault.hang else 0
        self.send_header("Content-Length", str(len(fault.body) + more))
        self.end_headers()
        self.wfile.write(fault.body)
        self.wfile.flush()
        if fault.hang:
            self.server.owner.stopping.wait(_HANG_S)
        self.close_connection = True
        return True

    def _send(self, what: str, asked: JsonValue, status: int, body: bytes, kind: str = "application/json") -> None:
        self.server.owner.record(Asked(what, asked, status))
        self.reply(status, body, kind)

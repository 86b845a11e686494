"""The sandbox on this machine: a persistent worker in namespaces of its own."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel, ValidationError

from tools.python.base import Limits, PythonResult, SandboxFault
from tools.python.mechanisms import ENVIRONMENT, Mechanism, available, command
from tools.python.tree import descendants
from tools.python.view import PACKAGES, View, build_view
from tools.python.worker import Worker, WorkerEnded

START_S = 15.0
_HIDDEN = (str(Path(__file__).resolve()), "/etc/passwd", "/etc/shadow", "/proc/self", "/sys/kernel", "/bin/sh")
"""Present on hosts, never inside; tried at every start."""


class _Ready(BaseModel):
    failed: list[str]


class _Reply(BaseModel):
    value: str | None = None
    error: str | None = None
    files: list[str] = []


class LocalSandbox:
    """Isolation level 3 by one `Mechanism`. One call at a time; the worker is started when first needed."""

    level = 3

    def __init__(
        self, mechanism: Mechanism, *, limits: Limits | None = None, packages: Iterable[str] = PACKAGES
    ) -> None:
        self.name = mechanism.name
        self._mechanism = mechanism
        self._limits = limits or Limits()
        self._packages = tuple(packages)
        self._view: View | None = None
        self._worker: Worker | None = None
        self._used = False
        self._lost = False
        self._turn = asyncio.Lock()

    @property
    def pid(self) -> int | None:
        """Process on the host that holds the sandbox, None while there is none."""
        return self._worker.pid if self._worker is not None else None

    async def start(self) -> None:
        """Raises SandboxFault when no worker can be started, or its isolation does not hold."""
        async with self._turn:
            await self._ensure()

    async def execute(self, code: str, timeout_s: float) -> PythonResult:
        """One cell. ``timeout_s`` does not count the start of a worker. Raises SandboxFault."""
        async with self._turn:
            worker = await self._ensure()
            fresh, self._lost, self._used = self._lost, False, True
            try:
                async with asyncio.timeout(timeout_s):
                    line = await worker.ask(json.dumps({"code": code}).encode() + b"\n")
                reply = _Reply.model_validate_json(line)
            except (TimeoutError, WorkerEnded, ValidationError) as end:
                await self._discard()
                return PythonResult(
                    stdout=worker.stdout.take(),
                    stderr=worker.stderr.take(),
                    error=_why(end, timeout_s),
                    timed_out=isinstance(end, TimeoutError),
                    state_lost=True,
                    fresh=fresh,
                )
            except BaseException:
                self._lost = True
                await self._discard()
                raise
            return PythonResult(
                stdout=worker.stdout.take(),
                stderr=worker.stderr.take(),
                value_repr=reply.value,
                error=reply.error,
                files=tuple(reply.files),
                fresh=fresh,
            )

    async def aclose(self) -> None:
        """Every process of the sandbox is gone when this returns."""
        if self._worker is not None:
            self._lost = self._lost or self._used
        await self._discard()

    async def _discard(self) -> None:
        worker, self._worker, self._used = self._worker, None, False
        if worker is not None:
            await worker.kill()

    async def _ensure(self) -> Worker:
        if self._worker is not None and self._worker.alive:
            return self._worker
        self._lost = self._lost or self._used
        await self._discard()
        self._view = self._view or build_view(self._packages)
        view = self._view
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(1)
            check = {"port": listener.getsockname()[1], "hidden": _HIDDEN}
            try:
                worker = self._worker = await Worker.spawn(
                    lambda channel: command(self._mechanism, view, self._limits, channel=channel, check=check),
                    ENVIRONMENT,
                    self._limits,
                )
                async with asyncio.timeout(START_S):
                    failed = _Ready.model_validate_json(await worker.ask(None)).failed
            except (OSError, WorkerEnded, ValidationError) as error:
                raise await self._fault(str(error)) from error
            except BaseException:
                await self._discard()
                raise
        if failed or (shared := _shared_namespaces(worker)):
            raise await self._fault("isolation does not hold: " + ", ".join(failed or shared))
        worker.spare_others()
        return worker

    async def _fault(self, why: str) -> SandboxFault:
        worker = self._worker
        await self._discard()
        said = worker.stderr.take().strip()[-500:] if worker is not None else ""
        return SandboxFault(f"{self.name}: {why or 'no start in time'}" + (f" ({said})" if said else ""))


def _why(end: Exception, timeout_s: float) -> str:
    if isinstance(end, TimeoutError):
        return f"timeout: not finished within {timeout_s:g} s"
    if isinstance(end, ValidationError):
        return "the interpreter ended: its reply made no sense"
    return f"the interpreter ended: {end}"


def _shared_namespaces(worker: Worker) -> list[str]:
    """Namespaces that the innermost process shares with us, where /proc tells."""
    shared = []
    for pid in descendants(worker.pid)[-1:]:
        for kind in ("net", "pid", "mnt", "ipc", "uts"):
            with suppress(OSError):
                if Path(f"/proc/{pid}/ns/{kind}").readlink() == Path(f"/proc/self/ns/{kind}").readlink():
                    shared.append(f"the {kind} namespace is shared")
    return shared


async def detect_sandbox(*, limits: Limits | None = None, packages: Iterable[str] = PACKAGES) -> LocalSandbox | None:
    """The best sandbox that starts and holds on this host, not running; None when there is none."""
    for mechanism in available():
        sandbox = LocalSandbox(mechanism, limits=limits, packages=packages)
        try:
            await sandbox.start()
        except SandboxFault:
            continue
        finally:
            await sandbox.aclose()
        return sandbox
    return None

"""The sandbox on this machine: a persistent worker, isolated by one mechanism."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from pydantic import BaseModel, ValidationError

from tools.python.base import Level, Limits, PythonResult, SandboxFault
from tools.python.interpreters import shared_interpreter
from tools.python.mechanisms import UNCONFINED, Launch, Mechanism, available, command, environment, new_uid
from tools.python.place import Place, make_place, overfull
from tools.python.replies import CellReply
from tools.python.tidy import remove
from tools.python.tree import descendants, tasks_of
from tools.python.view import PACKAGES, View, build_view
from tools.python.worker import Watch, Worker, WorkerEnded

START_S = 15.0
_HIDDEN = (str(Path(__file__).resolve()), "/etc/passwd", "/etc/shadow", "/proc/self", "/sys/kernel", "/bin/sh")
"""Present on hosts, never inside; tried at every start."""


class _Ready(BaseModel):
    failed: list[str]


class _Reply(CellReply):
    call: int


class LocalSandbox:
    """Isolation by one `Mechanism`. One call at a time; the worker is started when first needed.

    ``resumed``: earlier calls of the session had a worker that is gone; the first result says so.
    """

    keeps_state = True

    def __init__(
        self,
        mechanism: Mechanism,
        *,
        limits: Limits | None = None,
        packages: Iterable[str] = PACKAGES,
        resumed: bool = False,
    ) -> None:
        self.name = mechanism.name
        self.level: Level = mechanism.level
        self.mechanism = mechanism
        self._limits = limits or Limits()
        self._packages = tuple(packages)
        self._view: View | None = None
        self._worker: Worker | None = None
        self._place: Place | None = None
        self._calls = 0
        self._used = False
        self._lost = resumed
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
            self._calls += 1
            try:
                async with asyncio.timeout(timeout_s):
                    line = await worker.ask(json.dumps({"call": self._calls, "code": code}).encode() + b"\n")
                reply = _Reply.model_validate_json(line)
                if reply.call != self._calls:
                    raise WorkerEnded("its reply made no sense")
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
                files=reply.work_files,
                fresh=fresh,
            )

    async def aclose(self) -> None:
        """Every process of the sandbox is gone when this returns."""
        if self._worker is not None:
            self._lost = self._lost or self._used
        await self._discard()

    async def _discard(self) -> None:
        worker, self._worker, self._used = self._worker, None, False
        place, self._place = self._place, None
        try:
            if worker is not None:
                await worker.kill()
        finally:
            if place is not None:
                await asyncio.to_thread(remove, place.root)

    async def _ensure(self) -> Worker:
        if self._worker is not None and self._worker.alive:
            return self._worker
        self._lost = self._lost or self._used
        await self._discard()
        try:
            if self._view is None:
                self._view = await asyncio.to_thread(self._make_view)
            view = self._view
            uid = new_uid() if self.level else None
            if self.level < 3:
                self._place = make_place(view, uid)
        except OSError as error:
            raise SandboxFault(f"{self.name}: {error}") from error
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(1)
            check = {"port": listener.getsockname()[1], "hidden": _HIDDEN, "host": os.getpid()}
            try:
                worker = self._worker = await self._spawn(view, uid, check)
                async with asyncio.timeout(START_S):
                    failed = _Ready.model_validate_json(await worker.ask(None)).failed
            except (OSError, WorkerEnded, ValidationError) as error:
                raise await self._fault(str(error)) from error
            except BaseException:
                await self._discard()
                raise
        if failed or (self.level == 3 and (failed := _shared_namespaces(worker))):
            raise await self._fault("isolation does not hold: " + ", ".join(failed))
        worker.spare_others()
        return worker

    def _make_view(self) -> View:
        """Where the code becomes another user without a view of its own, its interpreter must be open to that user."""
        if self.level != 2 or os.geteuid() != 0:
            return build_view(self._packages)
        interpreter = shared_interpreter()
        if interpreter is None:
            raise OSError("no Python on this host can be read by other users")
        return build_view(self._packages, interpreter)

    async def _spawn(self, view: View, uid: int | None, check: dict[str, object]) -> Worker:
        limits, place = self._limits, self._place
        watch: Watch | None = None
        if place is not None:
            watch = partial(_overrun, place, limits)
            if uid is None:  # the limit counts what this user runs elsewhere, too
                limits = replace(limits, processes=limits.processes + tasks_of(os.geteuid()))
        return await Worker.spawn(
            lambda channel: command(self.mechanism, Launch(channel, view, limits, uid, place, check)),
            environment(place),
            limits,
            watch,
        )

    async def _fault(self, why: str) -> SandboxFault:
        worker = self._worker
        await self._discard()
        said = worker.stderr.take().strip()[-500:] if worker is not None else ""
        return SandboxFault(f"{self.name}: {why or 'no start in time'}" + (f" ({said})" if said else ""))


def _overrun(place: Place, limits: Limits, pids: list[int]) -> str:
    """Which limit is passed that nothing but watching keeps."""
    if len(pids) > limits.processes + 2:
        return "too many processes"
    return overfull(place, pids, limits)


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


async def detect_sandbox(
    level: Level | None = None,
    *,
    unsafe: bool = False,
    limits: Limits | None = None,
    packages: Iterable[str] = PACKAGES,
    resumed: bool = False,
) -> LocalSandbox | None:
    """The best sandbox that starts and holds on this host, not running; None when there is none.

    ``level``: this one only. ``unsafe``: where there is no isolation, none (level 0) will do.
    """
    mechanisms = [one for one in available() if level in (None, one.level)]
    if unsafe and level in (None, 0) and hasattr(os, "fork"):
        mechanisms.append(UNCONFINED)
    for mechanism in mechanisms:
        sandbox = LocalSandbox(mechanism, limits=limits, packages=packages, resumed=resumed)
        try:
            await sandbox.start()
        except SandboxFault:
            continue
        finally:
            await sandbox.aclose()
        return sandbox
    return None

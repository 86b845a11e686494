"""E2B: a machine of one's own in the cloud, whose code interpreter keeps its state.

Its HTTP interface is used directly and not its SDK: so what it answers can be bounded while it comes. The machine has
no internet access, is made at the first call, and is ended whenever the state of its interpreter is not certain.
"""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import aclosing
from dataclasses import dataclass

from pydantic import BaseModel, ValidationError

from tools.python.base import Level, Limits, PythonResult, SandboxFault
from tools.python.driver import Streamed
from tools.python.replies import CellReply
from tools.python.service import NotFound, Service
from tools.python.worker import Capture

API, DOMAIN = "https://api.e2b.app", "e2b.app"
TEMPLATE, PORT = "code-interpreter-v1", 49999
LIFE_S, RENEW_S = 900, 120
"""How long the machine outlives its last renewal, and how often it is renewed at most. Seconds."""
START_S = 30.0
MAX_LINE = 4 << 20
_NAME = re.compile(r"[A-Za-z0-9-]{1,100}")
_HOST = re.compile(r"[A-Za-z0-9.-]{1,200}")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True)
class E2bAccess:
    """``api`` and ``sandbox``: other addresses than E2B's own."""

    key: str
    api: str = ""
    sandbox: str = ""

    def __repr__(self) -> str:
        return f"E2bAccess(key=***, api={self.api!r}, sandbox={self.sandbox!r})"


class _Made(BaseModel):
    sandboxID: str
    envdAccessToken: str | None = None
    trafficAccessToken: str | None = None
    domain: str | None = None


class _Line(BaseModel):
    type: str
    text: str | None = None
    name: str | None = None
    value: str | None = None
    traceback: str | None = None


class _Output:
    """What came of one execution so far."""

    def __init__(self, limit: int) -> None:
        self.stdout, self.stderr = "", Capture(limit)
        self.error: str | None = None
        self.ended = False

    def take(self, line: bytes) -> None:
        """Raises SandboxFault."""
        try:
            read = _Line.model_validate_json(line)
        except ValidationError as error:
            raise SandboxFault("E2B answered with something that is not its answer") from error
        if read.type == "stdout":
            self.stdout += read.text or ""
        elif read.type == "stderr":
            self.stderr.feed((read.text or "").encode("utf-8", "replace"))
        elif read.type == "error":
            told = _COLOUR.sub("", read.traceback or "")
            self.error = told or f"{read.name}: {read.value}"
        elif read.type == "end_of_execution":
            self.ended = True


class E2bSandbox:
    """One machine at a time. ``resumed``: an earlier process of the session had one."""

    level: Level | None = None
    keeps_state = True
    name = "E2B"

    def __init__(self, access: E2bAccess, *, limits: Limits | None = None, resumed: bool = False) -> None:
        """Raises SandboxFault for an address that is none."""
        self._access = access
        self._limits = limits or Limits()
        self._api = Service("E2B", access.api or API, {"X-API-Key": access.key})
        self._machine: Service | None = None
        self._id = ""
        self._renewed = 0.0
        self._texts = Streamed()
        self._used = False
        self._lost = resumed
        self._turn = asyncio.Lock()

    async def start(self) -> None:
        async with self._turn:
            await self._ensure()

    async def execute(self, code: str, timeout_s: float) -> PythonResult:
        """One cell. Raises SandboxFault when E2B cannot be reached or makes no sense; the machine is then ended."""
        async with self._turn:
            await self._ensure()
            fresh, self._lost, self._used = self._lost, False, True
            output = _Output(self._limits.output)
            try:
                async with asyncio.timeout(timeout_s):
                    await self._run(self._texts.cell(code), output)
            except TimeoutError:
                why = f"timeout: not finished within {timeout_s:g} s"
                return await self._over(output, why, fresh, timed_out=True)
            except NotFound:
                return await self._over(output, "the machine is gone", fresh)
            except BaseException:
                self._lost = True
                await self._end()
                raise
            printed, reply = self._texts.split(output.stdout)
            if reply is None or not output.ended:
                why = output.error or "it broke off"
                return await self._over(output, f"the interpreter ended: {why}", fresh)
            return self._result(printed, output, reply, fresh)

    async def aclose(self) -> None:
        """Ends the machine."""
        self._lost = self._lost or self._used
        await self._end()
        await self._api.aclose()

    def _result(self, printed: str, output: _Output, reply: CellReply, fresh: bool) -> PythonResult:
        return PythonResult(
            self._kept(printed), output.stderr.take(), reply.value, reply.error, files=reply.work_files, fresh=fresh
        )

    async def _over(self, output: _Output, why: str, fresh: bool, *, timed_out: bool = False) -> PythonResult:
        await self._end()
        return PythonResult(
            self._kept(output.stdout),
            output.stderr.take(),
            error=why,
            timed_out=timed_out,
            state_lost=True,
            fresh=fresh,
        )

    def _kept(self, text: str) -> str:
        capture = Capture(self._limits.output)
        capture.feed(text.encode("utf-8", "replace"))
        return capture.take()

    async def _run(self, code: str, output: _Output) -> None:
        """Raises SandboxFault."""
        machine = self._machine
        if machine is None:
            raise SandboxFault("there is no machine")
        rest = b""
        body = {"code": code, "context_id": None, "language": None}
        async with aclosing(machine.parts("POST", "/execute", body)) as parts:
            async for part in parts:
                *lines, rest = (rest + part).split(b"\n")
                if len(rest) > MAX_LINE:
                    raise SandboxFault("a line of E2B's answer is too long")
                for line in lines:
                    if line.strip():
                        output.take(line)
        if rest.strip():
            output.take(rest)

    async def _ensure(self) -> None:
        if self._machine is not None:
            if time.monotonic() - self._renewed < RENEW_S:
                return
            try:
                await self._ask("POST", f"/sandboxes/{self._id}/timeout", {"timeout": LIFE_S})
            except NotFound:
                self._lost = self._lost or self._used
                await self._end()
            else:
                self._renewed = time.monotonic()
                return
        body = {"templateID": TEMPLATE, "timeout": LIFE_S, "allow_internet_access": False}
        try:
            made = _Made.model_validate_json(await self._ask("POST", "/v2/sandboxes", body))
        except ValidationError as error:
            raise SandboxFault("E2B answered with something that is not its answer") from error
        if not _NAME.fullmatch(made.sandboxID) or not _HOST.fullmatch(made.domain or DOMAIN):
            raise SandboxFault("E2B made a machine with a name that cannot be one")
        headers = {"E2b-Sandbox-Id": made.sandboxID, "E2b-Sandbox-Port": str(PORT)}
        if made.envdAccessToken:
            headers["X-Access-Token"] = made.envdAccessToken
        if made.trafficAccessToken:
            headers["E2B-Traffic-Access-Token"] = made.trafficAccessToken
        address = self._access.sandbox or f"https://{PORT}-{made.sandboxID}.{made.domain or DOMAIN}"
        self._machine, self._id, self._renewed = Service("E2B", address, headers), made.sandboxID, time.monotonic()
        output = _Output(self._limits.output)
        try:
            async with asyncio.timeout(START_S):
                await self._run(self._texts.begin(), output)
        except BaseException as error:
            await self._end()
            if isinstance(error, TimeoutError):
                raise SandboxFault("E2B: the machine did not start in time") from error
            raise
        if output.error or not output.ended:
            await self._end()
            raise SandboxFault(f"E2B: the interpreter did not start: {(output.error or 'it broke off')[-300:]}")

    async def _ask(self, method: str, path: str, body: object = None) -> bytes:
        try:
            return await self._api.ask(method, path, body, timeout_s=START_S)
        except TimeoutError as error:
            raise SandboxFault("E2B did not answer in time") from error

    async def _end(self) -> None:
        """End the machine; where that cannot be said, its life is short."""
        machine, self._machine, self._used = self._machine, None, False
        if machine is None:
            return
        await machine.aclose()
        try:
            await self._ask("DELETE", f"/sandboxes/{self._id}")
        except SandboxFault:
            return

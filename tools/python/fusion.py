"""SandboxFusion: a server that runs one script a request (``POST /run_code``) and keeps nothing in between.

Files of the working folder are sent along again; variables are not kept, and the model is told so.
"""

from __future__ import annotations

import base64
import json
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError

from tools.python.base import MIB, Level, Limits, PythonResult, SandboxFault, WorkFile
from tools.python.driver import ASKED, REPLY, once, read_reply
from tools.python.service import Service
from tools.python.worker import Capture

MARGIN_S = 5.0
"""What the server may take beyond the code's own time."""
CARRIED = 8 * MIB
MAX_CARRIED = 200


class _Command(BaseModel):
    status: str
    return_code: int | None = None
    stdout: str | None = None
    stderr: str | None = None


class _Answer(BaseModel):
    status: str
    message: str = ""
    run_result: _Command | None = None
    files: dict[str, str] = {}


class FusionSandbox:
    """``endpoint``: address of the server. ``resumed``: an earlier process of the session had files there."""

    level: Level | None = None
    keeps_state = False

    def __init__(self, endpoint: str, *, limits: Limits | None = None, resumed: bool = False) -> None:
        """Raises SandboxFault for an address that is none."""
        self._service = Service("SandboxFusion", endpoint)
        self.name = f"SandboxFusion at {urlsplit(endpoint).netloc.rpartition('@')[2]}"
        self._limits = limits or Limits()
        self._files: dict[str, bytes] = {}
        self._lost = resumed

    async def start(self) -> None:
        """Nothing to start: every call does."""

    async def execute(self, code: str, timeout_s: float) -> PythonResult:
        """One script. Raises SandboxFault when the server cannot be reached or makes no sense."""
        files = {name: base64.b64encode(data).decode() for name, data in self._files.items()}
        files[ASKED] = base64.b64encode(json.dumps({"code": code}).encode()).decode()
        body = {
            "code": once(),
            "language": "python",
            "run_timeout": timeout_s,
            "memory_limit_MB": self._limits.memory // MIB,
            "files": files,
            "fetch_files": [REPLY],
        }
        fresh, self._lost = self._lost, False
        try:
            answer = await self._service.ask("POST", "/run_code", body, timeout_s=timeout_s + MARGIN_S)
        except TimeoutError:
            return PythonResult(error=f"timeout: no answer within {timeout_s:g} s", timed_out=True, fresh=fresh)
        return self._result(answer, timeout_s, fresh)

    async def aclose(self) -> None:
        await self._service.aclose()

    def _result(self, answer: bytes, timeout_s: float, fresh: bool) -> PythonResult:
        try:
            read = _Answer.model_validate_json(answer)
        except ValidationError as error:
            raise SandboxFault("SandboxFusion answered with something that is not its answer") from error
        run = read.run_result
        if read.status == "SandboxError" or run is None:
            raise SandboxFault(f"SandboxFusion failed: {' '.join(read.message.split())[:300] or 'it says no reason'}")
        out, err = self._kept(run.stdout), self._kept(run.stderr)
        if run.status == "TimeLimitExceeded":
            why = f"timeout: not finished within {timeout_s:g} s"
            return PythonResult(out, err, error=why, timed_out=True, fresh=fresh)
        if REPLY not in read.files:
            why = f"the interpreter ended: exit code {run.return_code}"
            return PythonResult(out, err, error=why, fresh=fresh)
        try:
            reply = read_reply(base64.b64decode(read.files[REPLY], validate=True))
        except ValueError as error:
            raise SandboxFault("the reply of the code made no sense") from error
        self._carry(reply.work_files)
        return PythonResult(out, err, reply.value, reply.error, files=reply.work_files, fresh=fresh)

    def _kept(self, text: str | None) -> str:
        capture = Capture(self._limits.output)
        capture.feed((text or "").encode("utf-8", "replace"))
        return capture.take()

    def _carry(self, files: tuple[WorkFile, ...]) -> None:
        """Keep for the next calls what they may find in the working folder."""
        for file in files:
            path = PurePosixPath(file.name)
            if file.data is None or path.is_absolute() or ".." in path.parts or str(path) in (ASKED, REPLY):
                continue
            held = sum(len(data) for name, data in self._files.items() if name != str(path))
            if held + len(file.data) <= CARRIED and len(self._files) < MAX_CARRIED:
                self._files[str(path)] = file.data

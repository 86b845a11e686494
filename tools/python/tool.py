"""python: run code in the sandbox; variables live on between calls."""

from __future__ import annotations

import asyncio
import re
from typing import ClassVar

from pydantic import Field

from memory.records import ErrorKind, Observation
from memory.sanitize import cap
from tools.base import Arguments, CallContext, ToolError
from tools.python.artefacts import Artefacts, Kept
from tools.python.base import PythonResult, PythonSandbox, SandboxFault, isolation

START_ALLOWANCE_S = 30.0
MAX_CODE = 100_000
MAX_NAMED = 20
"""Files of one call that are named to the model."""
_FENCE = re.compile(r"\s*```(?:python|py)?[ \t]*\n(.*?)\n?```\s*", re.DOTALL | re.IGNORECASE)
_STATE = "Variables, imports and files in the working folder stay for later calls; the"
_NO_STATE = "Each call starts anew: only files in the working folder stay for later calls. The"


class PythonArguments(Arguments):
    code: str = Field(min_length=1, max_length=MAX_CODE, description="Python source")


class PythonTool:
    """``timeout_s`` limits a call's code, ``max_chars`` its observation. ``artefacts``: where files that the code made
    are kept; None keeps none."""

    name: ClassVar[str] = "python"
    arguments: type[Arguments] = PythonArguments

    def __init__(
        self,
        sandbox: PythonSandbox,
        *,
        timeout_s: float = 60.0,
        max_chars: int = 20_000,
        artefacts: Artefacts | None = None,
    ) -> None:
        self._sandbox = sandbox
        self._code_s = timeout_s
        self._max_chars = max_chars
        self._artefacts = artefacts
        self.timeout_s = timeout_s + START_ALLOWANCE_S
        self.isolation = isolation(sandbox)
        self.description = (
            f"Run Python. {_STATE if sandbox.keeps_state else _NO_STATE} value of a last expression is shown, else "
            "print. Standard library, and numpy where installed; no network, no shell."
        )

    async def run(self, arguments: PythonArguments, context: CallContext) -> Observation:
        """Raises ToolError (execution) when no worker can be started."""
        fenced = _FENCE.fullmatch(arguments.code)
        try:
            result = await self._sandbox.execute(fenced[1] if fenced else arguments.code, self._code_s)
        except SandboxFault as fault:
            raise ToolError("execution", f"python is not available now: {fault}") from fault
        files = [Kept(file) for file in result.files]
        if self._artefacts is not None and files:
            files = await asyncio.to_thread(self._artefacts.keep, context.call_id, result.files)
        return Observation(context.call_id, self.name, self._text(result, files), error=_kind(result))

    async def aclose(self) -> None:
        await self._sandbox.aclose()

    def _text(self, result: PythonResult, files: list[Kept]) -> str:
        parts = []
        if result.fresh:
            parts.append("[python was restarted before this call: earlier variables and files are gone]")
        if result.stdout.strip():
            parts.append(result.stdout.rstrip())
        if result.stderr.strip():
            parts.append(f"stderr:\n{result.stderr.rstrip()}")
        if result.value_repr is not None:
            parts.append(f"=> {result.value_repr}")
        # every part has its share, so that a flood of output cannot push out the error
        parts = [cap(part, self._max_chars // 3) for part in parts]
        if result.error is not None:
            parts.append(_tail(result.error, self._max_chars // 3))
        if files:
            parts.append("files: " + ", ".join(_told(file) for file in files[:MAX_NAMED]))
        if result.state_lost:
            parts.append("[python was restarted: variables and files of earlier calls are gone]")
        return "\n".join(parts) or "[no output]"


def _told(kept: Kept) -> str:
    """A file on one line; its name is the code's."""
    name = cap(" ".join(kept.file.name.split()), 200)
    if not kept.at and not kept.why:
        return name
    return f"{name} ({kept.file.size:,} bytes, {f'kept as {kept.at}' if kept.at else kept.why})"


def _kind(result: PythonResult) -> ErrorKind | None:
    if result.timed_out:
        return "timeout"
    return "execution" if result.error is not None else None


def _tail(text: str, limit: int) -> str:
    """The end of a traceback is what says most."""
    return text if len(text) <= limit else f"[… {len(text) - limit} characters left out]\n{text[-limit:]}"

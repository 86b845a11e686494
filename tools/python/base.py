"""The seam of the python tool: what a sandbox is, and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

MIB = 1 << 20
Level: TypeAlias = Literal[3, 2, 0]
"""3: namespaces; 2: Landlock and seccomp in the host's namespaces; 0: no isolation."""


UNSAFE = "UNSAFE"
"""How the words for level 0 begin, wherever they are shown."""


class SandboxFault(Exception):
    """A sandbox cannot be made, or its isolation did not hold when it was tried. Never shown as the code's error."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What code inside may use. Bytes; ``cpu_s`` in seconds of one process over its life.

    ``memory`` caps the address space of each process and, by the watchdog, half the resident set of all together.
    ``workspace`` caps a file and all files together, ``entries`` their number. ``output`` is what is kept of stdout and
    of stderr; ``flood`` ends the call.
    """

    memory: int = 1024 * MIB
    workspace: int = 64 * MIB
    entries: int = 10_000
    processes: int = 32
    files: int = 256
    cpu_s: int = 3600
    output: int = 20_000
    flood: int = 16 * MIB


@dataclass(frozen=True, slots=True)
class WorkFile:
    """A file that a call made or changed in its working folder. ``name``: relative, as the code named it, untrusted.
    ``data`` is None when the file was too large to hand out, or could not be read."""

    name: str
    size: int
    data: bytes | None = None


@dataclass(frozen=True, slots=True)
class PythonResult:
    """One call. ``value_repr``: the last expression, None when there is none. ``error``: traceback of the user's code,
    or what ended the worker. ``files``: what the call made or changed, at most `MAX_FILES`."""

    stdout: str = ""
    stderr: str = ""
    value_repr: str | None = None
    error: str | None = None
    timed_out: bool = False
    files: tuple[WorkFile, ...] = ()
    state_lost: bool = False
    """The worker ended in this call: names and files are gone."""
    fresh: bool = False
    """The call began without the state of earlier ones, and no earlier result said so (a cancelled call, a resume)."""


class PythonSandbox(Protocol):
    """A place to run untrusted Python."""

    @property
    def level(self) -> Level | None:
        """How this machine isolates the code; None: it runs on another machine."""
        ...

    @property
    def name(self) -> str:
        """What isolates, or who runs it."""
        ...

    @property
    def keeps_state(self) -> bool:
        """Whether variables live on between calls."""
        ...

    async def start(self) -> None:
        """Start a worker if there is none, and prove its isolation. Raises SandboxFault."""
        ...

    async def execute(self, code: str, timeout_s: float) -> PythonResult:
        """Run a cell in the worker's namespace; starts one when needed. Cancelling kills the worker.
        Raises SandboxFault."""
        ...

    async def aclose(self) -> None:
        """Kill the worker and every process of it. A later call starts afresh."""
        ...


def isolation(sandbox: PythonSandbox) -> str:
    """How code is isolated, in words: for people, reports and records."""
    if sandbox.level is None:
        return f"remote: {sandbox.name}"
    if sandbox.level == 0:
        return f"{UNSAFE}: level 0, no isolation"
    return f"level {sandbox.level} by {sandbox.name}"

"""What there is on a host to reach for, and the running of attempts at it."""

from __future__ import annotations

import os
import platform
import socket
import sys
import sysconfig
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.tools.python.attempts import ATTEMPTS, SHARED_ATTEMPTS
from tests.tools.python.survivors import Watch
from tools.python.local import LocalSandbox
from tools.python.seccomp import denied
from tools.python.view import build_view

REPOSITORY = Path(__file__).resolve().parents[3]
LIMIT_S = 10.0
FRAME = """
import ctypes, os, resource, signal, socket, subprocess
libc = ctypes.CDLL(None, use_errno=True)
def attempt():
{body}
try:
    got = attempt()
except (OSError, ImportError, ValueError) as error:
    got = None
bool(got)
"""


@dataclass(frozen=True)
class Host:
    """What there is to reach. ``datagrams``: a socket that must never receive any."""

    facts: str
    canary: Path
    datagrams: socket.socket

    def frame(self, body: str) -> str:
        return self.facts + FRAME.format(body=textwrap.indent(body, "    "))


@contextmanager
def reachable(folder: Path) -> Iterator[Host]:
    """A canary and sockets; ``folder`` is open to everybody."""
    canary, socket_file = folder / "canary", folder / "socket"
    canary.write_text("canary")
    canary.chmod(0o666)
    abstract = f"longstride-test-{os.getpid()}"
    with (
        socket.socket() as tcp,
        socket.socket(socket.AF_UNIX) as unix,
        socket.socket(socket.AF_UNIX) as named,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams,
    ):
        for listener, address in ((tcp, ("127.0.0.1", 0)), (unix, f"\0{abstract}"), (named, str(socket_file))):
            listener.bind(address)
            listener.listen(1)
        datagrams.bind(f"\0{abstract}-datagrams")
        datagrams.setblocking(False)
        facts = {
            "HOME": str(Path.home()),
            "PREFIX": os.path.realpath(sys.base_prefix),
            "REPOSITORY": str(REPOSITORY),
            "SITE": sysconfig.get_path("purelib"),
            "CANARY": str(canary),
            "HOST_TMP": [entry.name for entry in Path("/tmp").iterdir()],
            "HOST_PID": os.getpid(),
            "PORT": tcp.getsockname()[1],
            "ABSTRACT": abstract,
            "DATAGRAMS": f"{abstract}-datagrams",
            "SOCKET_FILE": str(socket_file),
            "HIDDEN": build_view().hidden,
            "NR": denied(platform.machine()),
            "CLONE": {"x86_64": 56, "aarch64": 220}[platform.machine()],
        }
        yield Host("\n".join(f"{name} = {value!r}" for name, value in facts.items()), canary, datagrams)


@dataclass
class Found:
    """What came of the corpus. ``late``: seconds of the attempts that took longer than their limit and a second."""

    attempts: int = 0
    escaped: dict[str, str | None] = field(default_factory=dict)
    late: dict[str, float] = field(default_factory=dict)
    survivors: list[int] = field(default_factory=list)

    @property
    def figures(self) -> str:
        return f"{self.attempts} attempts, {len(self.escaped)} escapes, {len(self.survivors)} survivors"


async def attempt_all(sandbox: LocalSandbox, host: Host) -> Found:
    """Every attempt of its level; closes the sandbox."""
    attempts = ATTEMPTS if sandbox.level == 3 else {**ATTEMPTS, **SHARED_ATTEMPTS}
    found = Found(len(attempts))
    watch = Watch(sandbox)
    for name, body in attempts.items():
        begun = time.monotonic()
        result = await sandbox.execute(host.frame(body), LIMIT_S)
        watch.look()
        if time.monotonic() - begun > LIMIT_S + 1:
            found.late[name] = time.monotonic() - begun
        if result.value_repr != "False" and not result.state_lost:
            found.escaped[name] = result.value_repr or result.error
    await sandbox.aclose()
    found.survivors = await watch.survivors()
    return found

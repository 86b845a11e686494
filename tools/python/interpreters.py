"""Which Python runs inside: the one that runs longstride, or one that any user of this host can read."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_ASK = "import sys, sysconfig\nprint(sys.base_prefix, sysconfig.get_path('stdlib'), *sys.version_info[:2], sep='\\n')"


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python on the host. ``version``: (major, minor)."""

    executable: str
    prefix: str
    stdlib: str
    version: tuple[int, int]


def own_interpreter() -> Interpreter:
    """The running one: its base, never the virtual environment."""
    prefix = os.path.realpath(sys.base_prefix)
    stdlib = os.path.realpath(sysconfig.get_path("stdlib", vars={"installed_base": prefix}))
    executable = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
    return Interpreter(executable, prefix, stdlib, (sys.version_info.major, sys.version_info.minor))


@cache
def shared_interpreter() -> Interpreter | None:
    """One that any user of this host can read: the running one, else the system's; None when there is none."""
    own = own_interpreter()
    if open_to_all(own.stdlib) and open_to_all(own.executable):
        return own
    for folder in ("/usr/bin", "/usr/local/bin"):
        found = shutil.which("python3", path=folder)
        if found is None:
            continue
        try:
            told = subprocess.run(
                [found, "-I", "-S", "-c", _ASK], capture_output=True, text=True, check=False, env={}, timeout=10
            ).stdout.splitlines()
        except (OSError, subprocess.TimeoutExpired):
            continue
        if len(told) == 4 and open_to_all(told[1]):
            prefix, stdlib = (os.path.realpath(path) for path in told[:2])
            return Interpreter(os.path.realpath(found), prefix, stdlib, (int(told[2]), int(told[3])))
    return None


def open_to_all(path: str) -> bool:
    """Whether every user may read it: its own mode, and that of every folder above."""
    try:
        if any(not folder.stat().st_mode & 0o001 for folder in Path(os.path.realpath(path)).parents):
            return False
        mode = Path(path).stat().st_mode
    except OSError:
        return False
    return bool(mode & 0o004 and (mode & 0o001 or not stat.S_ISDIR(mode)))

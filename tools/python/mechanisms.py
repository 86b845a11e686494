"""The two ways to a sandbox: bubblewrap, or `unshare` with the mounts made by our own code inside.

A host user gets a user namespace. As root there is none: root makes the mounts itself, and the code then runs under
a user id that owns nothing, since inside a user namespace root would still be root to /proc/sys and to its own files.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from platform import machine

from tools.python import seccomp
from tools.python.base import Limits
from tools.python.view import DEVICES, PACKAGES_AT, WORKSPACE, View

ENVIRONMENT: Mapping[str, str] = {
    "HOME": WORKSPACE,
    "TMPDIR": WORKSPACE,
    "USER": "sandbox",
    "PATH": "",
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
"""The whole environment inside. One thread per maths library: threads count as processes."""
_FIRST_UID, _UIDS = 1 << 30, 1 << 28


@dataclass(frozen=True, slots=True)
class Mechanism:
    """``wrap``: the command up to the interpreter. ``makes_mounts``: whether it also builds the file view."""

    name: str
    makes_mounts: bool
    wrap: Callable[[View, Limits, bool], list[str]]


def available() -> tuple[Mechanism, ...]:
    """Mechanisms whose program is installed on this host, best first; whether they work only a start can tell."""
    if not sys.platform.startswith("linux") or not seccomp.supported(machine()):
        return ()
    found: list[Mechanism] = []
    if bwrap := shutil.which("bwrap"):
        found.append(Mechanism("bubblewrap", True, partial(_bubblewrap, bwrap)))
    if unshare := shutil.which("unshare"):
        found.append(Mechanism("namespaces", False, partial(_unshare, unshare)))
    return tuple(found)


def command(
    mechanism: Mechanism, view: View, limits: Limits, *, channel: int, check: Mapping[str, object]
) -> list[str]:
    """The whole command line. ``channel``: number of the inherited socket; ``check``: what the worker must prove."""
    as_root = os.geteuid() == 0
    config = {
        "channel": channel,
        "view": None if mechanism.makes_mounts else asdict(view),
        "devices": DEVICES,
        "packages": PACKAGES_AT,
        "workspace": WORKSPACE,
        "uid": _FIRST_UID + secrets.randbelow(_UIDS) if as_root else None,
        "limits": asdict(limits),
        "filter": seccomp.program(machine()).hex(),
        "check": dict(check) | {"environment": sorted(ENVIRONMENT)},
    }
    inside = Path(__file__).with_name("inside.py").read_text(encoding="utf-8")
    interpreter = [view.executable, "-I", "-S", "-B", "-u", "-X", "utf8", "-c", inside, json.dumps(config)]
    return [*mechanism.wrap(view, limits, as_root), "--", *interpreter]


def _unshare(program: str, view: View, limits: Limits, as_root: bool) -> list[str]:
    user = [] if as_root else ["--user", "--map-root-user"]
    spaces = ["--mount", "--pid", "--net", "--ipc", "--uts", "--cgroup"]
    return [program, *user, *spaces, "--fork", "--kill-child=SIGKILL"]


def _bubblewrap(program: str, view: View, limits: Limits, as_root: bool) -> list[str]:
    args = [program, "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    args += ["--as-pid-1", "--die-with-parent", "--new-session"]
    if as_root:  # what changing the user id needs, dropped right after
        args += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_SETPCAP"]
    else:
        args += ["--unshare-user"]
    for source, target in view.binds:
        for parent in reversed(Path(target).parents[:-1]):  # else made with the mode of the host's, perhaps 0700
            args += ["--perms", "0755", "--dir", str(parent)]
        args += ["--ro-bind", source, target]
    for target, link in view.links:
        args += ["--symlink", target, link]
    for path in view.hidden:
        args += ["--tmpfs", path, "--remount-ro", path]
    for device in DEVICES:
        args += ["--dev-bind", device, device]
    args += ["--perms", "1777", "--size", str(limits.workspace), "--tmpfs", WORKSPACE]
    args += ["--symlink", WORKSPACE, "/tmp", "--chdir", WORKSPACE, "--remount-ro", "/"]
    return args

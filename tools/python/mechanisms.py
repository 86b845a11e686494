"""The ways to a sandbox: bubblewrap, `unshare` with the mounts made by our own code inside, or Landlock.

A host user gets a user namespace. As root there is none: root makes the mounts itself, and the code then runs under
a user id that owns nothing, since inside a user namespace root would still be root to /proc/sys and to its own files.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from platform import machine

from tools.python import landlock, seccomp
from tools.python.base import Level, Limits
from tools.python.landlock import MIN_ABI, SIGNALS_ABI, kernel_abi
from tools.python.place import Place
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
"""The environment inside. One thread per maths library: threads count as processes."""
_FIRST_UID, _UIDS = 1 << 30, 1 << 28


_PARTS = ("tree", "tidy", "inside_cells", "inside_view", "inside_rights", "inside")
"""What runs inside, in order; joined to one text."""
_OURS = re.compile(r"^from (?:__future__|tools\.python\.\w+) import (?:\([^)]*\)|.*)\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Mechanism:
    """``wrap``: the command up to the interpreter. ``makes_mounts``: whether it also builds the file view."""

    name: str
    makes_mounts: bool
    wrap: Callable[[View, Limits, bool], list[str]]
    level: Level = 3
    abi: int = 0
    """Of Landlock; 0: not used."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One start of a worker. ``channel``: number of the inherited socket; ``uid``: user that the code becomes, None
    keeps ours; ``check``: what the worker must prove."""

    channel: int
    view: View
    limits: Limits
    uid: int | None
    place: Place | None
    check: Mapping[str, object]


def available() -> tuple[Mechanism, ...]:
    """Mechanisms that this host has, best first; whether they work only a start can tell."""
    if not sys.platform.startswith("linux") or not seccomp.supported(machine()):
        return ()
    found: list[Mechanism] = []
    if bwrap := shutil.which("bwrap"):
        found.append(Mechanism("bubblewrap", True, partial(_bubblewrap, bwrap)))
    if unshare := shutil.which("unshare"):
        found.append(Mechanism("namespaces", False, partial(_unshare, unshare)))
    abi = kernel_abi()
    if abi >= MIN_ABI and Path(f"/proc/self/task/{os.getpid()}/children").exists():
        found.append(Mechanism("Landlock", True, _bare, 2, abi))
    return tuple(found)


UNCONFINED = Mechanism("nothing", True, lambda *_: [], 0)
"""No isolation: a process of its own, with limits and a bare environment. Never chosen unless asked for."""


def new_uid() -> int | None:
    """A user id that owns nothing, where we may become it."""
    return _FIRST_UID + secrets.randbelow(_UIDS) if os.geteuid() == 0 else None


def environment(place: Place | None) -> dict[str, str]:
    """The whole environment inside."""
    own = {"HOME": place.workspace, "TMPDIR": place.workspace} if place is not None else {}
    return {**ENVIRONMENT, **own}


def command(mechanism: Mechanism, launch: Launch) -> list[str]:
    """The whole command line."""
    view, place = launch.view, launch.place
    as_root = os.geteuid() == 0
    around = seccomp.Surroundings()
    if mechanism.level < 3:
        same = launch.uid is None
        around = seccomp.Surroundings(True, same, same and mechanism.abi < SIGNALS_ABI)
    rules = None
    if mechanism.abi and place is not None:
        read = (*view.folders, place.packages)
        rules = asdict(landlock.rules(mechanism.abi, read=read, devices=DEVICES, workspace=place.workspace))
    config = {
        "level": mechanism.level,
        "channel": launch.channel,
        "view": None if mechanism.makes_mounts else asdict(view),
        "devices": DEVICES,
        "packages": PACKAGES_AT if place is None else place.packages,
        "workspace": WORKSPACE if place is None else place.workspace,
        "place": None if place is None else place.root,
        "uid": launch.uid,
        "limits": asdict(launch.limits),
        "filter": seccomp.program(machine(), around).hex() if seccomp.supported(machine()) else "",
        "own_pid": seccomp.OWN_PID,
        "landlock": rules,
        "check": {**launch.check, "environment": sorted(ENVIRONMENT)},
    }
    interpreter = [view.executable, "-I", "-S", "-B", "-u", "-X", "utf8", "-c", script(_PARTS), json.dumps(config)]
    wrap = mechanism.wrap(view, launch.limits, as_root)
    return [*wrap, "--", *interpreter] if wrap else interpreter


def script(parts: Sequence[str]) -> str:
    """Modules of this folder as one text that needs nothing of longstride."""
    folder = Path(__file__).parent
    texts = (_OURS.sub("", (folder / f"{part}.py").read_text("utf-8")) for part in parts)
    return "from __future__ import annotations\n" + "\n".join(texts)


def _bare(_view: View, _limits: Limits, _as_root: bool) -> list[str]:
    return []


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

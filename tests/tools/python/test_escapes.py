"""The escape corpus at every level that this host has: no escapes, no survivors, in time. Rows F85, F86, F87."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import numpy
import pytest

from tests.tools.python.attempts import ATTEMPTS, SHARED_ATTEMPTS
from tests.tools.python.conftest import LEVELS
from tests.tools.python.reach import FRAME, REPOSITORY, Host, attempt_all, reachable
from tools.python.interpreters import open_to_all
from tools.python.landlock import SIGNALS_ABI, kernel_abi
from tools.python.local import LocalSandbox

USER = 61_234
"""An ordinary user of nobody's, to be where we are root."""


@pytest.fixture
def host(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    """What keeps the code out must not be the mode of a folder."""
    monkeypatch.setenv("LONGSTRIDE_CANARY", "canary")
    with reachable(open_folder) as made:
        yield made


async def test_f85_f86_f87_no_way_out(sandbox: LocalSandbox, host: Host) -> None:
    assert len(ATTEMPTS) >= 60
    found = await attempt_all(sandbox, host)
    LEVELS.append(f"level {sandbox.level} by {sandbox.name}: {found.figures}")
    assert (found.escaped, found.survivors, found.late) == ({}, [], {})
    assert host.canary.read_text() == "canary"
    assert [path.name for path in host.canary.parent.iterdir() if path.name.startswith("canary")] == ["canary"]
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] != 9
    with pytest.raises(BlockingIOError):
        host.datagrams.recv(1)


@pytest.mark.parametrize(
    ("name", "abi"),
    [("Landlock", 0), ("Landlock", 3), ("bubblewrap", 0), pytest.param("namespaces", 0, marks=pytest.mark.nightly)],
)
def test_no_way_out_for_the_code_of_an_ordinary_user(name: str, abi: int, open_folder: Path) -> None:
    """With the user's own files, processes and rights in reach. ``abi``: an older Landlock, which lets signals out."""
    setpriv, python = shutil.which("setpriv"), shutil.which("python3", path="/usr/bin")
    site = Path(numpy.__file__).parent.parent
    if os.geteuid() != 0 or not setpriv or not python or not all(map(open_to_all, (str(site), str(REPOSITORY)))):
        pytest.skip("NO OTHER USER: the sandbox of an ordinary user goes untested")
    asked = "import sys; print(*sys.version_info[:2])"
    version = subprocess.run([python, "-c", asked], capture_output=True, text=True, check=False).stdout.split()
    if version != [str(part) for part in sys.version_info[:2]]:
        pytest.skip("NO OTHER USER: the system's Python is of another version")
    if name == "Landlock" and kernel_abi() < max(abi, SIGNALS_ABI):
        pytest.skip("NO ISOLATION by this Landlock on this host")
    os.chown(open_folder, USER, USER)
    ran = subprocess.run(
        [
            *(setpriv, f"--reuid={USER}", f"--regid={USER}", "--clear-groups"),
            *(python, "-B", "-m", "tests.tools.python.as_user", name, str(abi), str(open_folder)),
        ],
        env={"PYTHONPATH": f"{REPOSITORY}:{site}", "HOME": str(open_folder), "LONGSTRIDE_CANARY": "canary"},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    if "skip" in found:
        pytest.skip(f"NO ISOLATION by {name} for an ordinary user: {found['skip']}")
    LEVELS.append(f"level {found['level']} by {name}, ordinary user: {found['figures']}")
    assert (found["escaped"], found["survivors"], found["late"]) == ({}, [], {})
    assert (open_folder / "canary").read_text() == "canary"


WOULD = (
    "read /etc/passwd",
    "list the repository",
    "read a file of the host",
    "follow a symlink out",
    "list the host's /tmp",
    "list /proc",
    "list /sys",
    "environment",
    "environment of the C library",
    "connect to loopback",
    "connect to an abstract socket",
    "connect to a socket file",
    "netlink",
    "signal the host",
    "memory files that no limit counts",
    "a shell",
    "programs",
    "environment of the parent",
    "environment from its own /proc",
    "UDP",
    "every other kind of socket",
    "a server",
    "a datagram out of a pair",
    "signal the host by a handle",
    "append to a file of the host",
    "mode of a file of the host",
    "times of a file of the host",
    "write through a symlink",
    "reopen a path handle",
    "open beside a folder handle",
    "climb out of the workspace",
    "open by the C library",
    "a child that starts anew",
    "a program in memory",
    "a seqpacket pair",
    "watch the host's files",
    "list the root",
    "list the packages beside",
    "the processes of the host",
)


def test_the_attempts_work_outside(host: Host, tmp_path: Path) -> None:
    """The same code on the bare host: if nothing stood in the way, these would be seen."""
    lines = [host.facts, f"import os\nos.chdir({str(tmp_path)!r})"]
    for number, name in enumerate(WOULD):
        body = textwrap.indent({**ATTEMPTS, **SHARED_ATTEMPTS}[name], "    ")
        lines += [FRAME.format(body=body).rstrip().removesuffix("bool(got)"), f"print({number}, bool(got))"]
    ran = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    assert [line for line in ran.stdout.splitlines() if not line.endswith("True")] == [], ran.stderr
    assert len(ran.stdout.splitlines()) == len(WOULD), ran.stderr

"""Disks of a test's own: a child process in a mount namespace, with a small or a read-only disk below a folder."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def in_namespace(mount: str, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """Run Python with ``arguments`` after the shell command ``mount``, both in a mount namespace of their own.

    Skips the test, loudly, where the machine grants none."""
    unshare = shutil.which("unshare")
    probe = [unshare or "", "-rm", "sh", "-c", "mount -t tmpfs none /mnt"]
    if not unshare or subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("NO MOUNT NAMESPACES: full and read-only disks were not tested")
    script = f'{mount} && exec "$@"'
    return subprocess.run(
        [unshare, "-rm", "sh", "-c", script, "sh", sys.executable, *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )


def small(folder: Path, kilobytes: int) -> str:
    """Shell that mounts an empty disk of so many kilobytes at ``folder``."""
    return f"mount -t tmpfs -o size={kilobytes}k none '{folder}'"


def read_only(folder: Path) -> str:
    """Shell that makes what is in ``folder`` unchangeable."""
    return f"mount --bind '{folder}' '{folder}' && mount -o remount,bind,ro '{folder}'"

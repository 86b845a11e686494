"""Processes below one process, from /proc of the host."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

OVERFULL = 123
"""Exit code of a sandbox's first process: the workspace holds too many files."""
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def descendants(pid: int) -> list[int]:
    """Ids of all processes below ``pid``, without itself; empty when it is gone or the kernel does not tell."""
    found: list[int] = []
    pending = [pid]
    while pending:
        parent = pending.pop()
        with suppress(OSError):
            for task in Path(f"/proc/{parent}/task").iterdir():
                with suppress(OSError):
                    children = [int(child) for child in (task / "children").read_text().split()]
                    found += children
                    pending += children
    return found


def resident_bytes(pids: list[int]) -> int:
    """Sum of the resident sets; pages that processes share count once for each."""
    total = 0
    for pid in pids:
        with suppress(OSError, IndexError, ValueError):
            total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    return total


def end(pids: list[int]) -> None:
    """SIGKILL to each that we may signal."""
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def prefer_killing(pids: list[int]) -> None:
    """Let the kernel take these first when the machine runs out of memory."""
    for pid in pids:
        with suppress(OSError):
            Path(f"/proc/{pid}/oom_score_adj").write_text("1000")


def tasks_of(uid: int) -> int:
    """Threads that run as ``uid`` now: what RLIMIT_NPROC counts."""
    total = 0
    with suppress(OSError):
        for folder in Path("/proc").iterdir():
            with suppress(OSError):
                if folder.name.isdigit() and folder.stat().st_uid == uid:
                    total += len(list((folder / "task").iterdir()))
    return total

"""What is left of a sandbox's processes, seen from the host."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path

from tools.python.local import LocalSandbox
from tools.python.tree import descendants

PATIENCE_S = 5.0


def alive(pid: int) -> bool:
    """Zombies, which nobody may be there to reap, are dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def uid_of(pid: int) -> int | None:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("Uid:"):
                return int(line.split()[1])
    return None


class Watch:
    """Remembers every process of a sandbox that was seen, and as root every user id that it ran under."""

    def __init__(self, sandbox: LocalSandbox) -> None:
        self._sandbox = sandbox
        self._pids: set[int] = set()
        self._uids: set[int] = set()

    def look(self) -> None:
        pid = self._sandbox.pid
        if pid is None:
            return
        seen = [pid, *descendants(pid)]
        self._pids.update(seen)
        self._uids.update(uid for one in seen if (uid := uid_of(one)) is not None and uid != os.getuid())

    async def survivors(self) -> list[int]:
        """Those that do not go. The kernel takes a moment to end what was killed."""
        for _ in range(int(PATIENCE_S / 0.02)):
            if not self._left():
                break
            await asyncio.sleep(0.02)
        return self._left()

    def _left(self) -> list[int]:
        left = {pid for pid in self._pids if alive(pid)}
        if self._uids:
            running = [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit()]
            left.update(pid for pid in running if uid_of(pid) in self._uids and alive(pid))
        return sorted(left)

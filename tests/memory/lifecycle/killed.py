"""A compaction that is killed: ``python -m tests.memory.lifecycle.killed STORE N`` dies at its N-th named point."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from memory.lifecycle.compact import compact
from memory.store.sizes import shrink
from memory.store.sqlite import SqliteStore
from tests.memory.lifecycle.scenes import COUNTER, EVICT
from tests.memory.sessions import FakeClock


class Killing:
    """`memory.ports.Faults` that ends the process."""

    def __init__(self, last: int) -> None:
        self.left = last

    def at(self, point: str) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


async def run(path: Path, last: int) -> None:
    async with await SqliteStore.open(path, create=False, faults=Killing(last)) as store:
        await store.claim("compact")
        await compact(store, EVICT, COUNTER, FakeClock(1_800_000_000.0))


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1]), int(sys.argv[2])))
    shrink(Path(sys.argv[1]))

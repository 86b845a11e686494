"""Keys in the background: a chunk's key is computed once, off the event loop, while the model thinks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from memory.errors import EncoderFault
from memory.ports import Encoder

BATCH = 32

log = logging.getLogger(__name__)


class KeyWorker:
    """Computes keys for submitted chunks. ``texts_of`` fetches FULL texts, so that none wait in memory.

    An encoder fault stops the work without losing it: what was pending is tried again at the next `submit` or
    `wait_for`, and `fault` says what went wrong until then.
    """

    def __init__(self, encoder: Encoder, texts_of: Callable[[Sequence[int]], Awaitable[list[str]]]) -> None:
        self._encoder = encoder
        self._texts_of = texts_of
        self._pending: dict[int, None] = {}
        self._done: dict[int, NDArray[np.float32]] = {}
        self._task: asyncio.Task[None] | None = None
        self.fault: EncoderFault | None = None

    def submit(self, numbers: Sequence[int]) -> None:
        """Ask for the keys of these chunks."""
        self._pending.update(dict.fromkeys(numbers))
        self._start()

    async def wait_for(self, numbers: Sequence[int], timeout: float | None) -> None:
        """Return when none of ``numbers`` is pending, at the first encoder fault, or after ``timeout`` seconds."""
        if not any(number in self._pending for number in numbers):
            return
        self._start()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=timeout)
            if self._task.done():
                self._task.result()

    def take(self) -> tuple[list[int], NDArray[np.float32]]:
        """The finished keys since the last call: numbers (n,), rows (n, dim)."""
        numbers = sorted(self._done)
        rows = np.array([self._done.pop(number) for number in numbers], dtype=np.float32)
        return numbers, rows.reshape(len(numbers), self._encoder.dim)

    async def aclose(self) -> None:
        """Stop; keys not yet computed are found missing at the next open."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _start(self) -> None:
        if self._pending and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._run(), name="keys")

    async def _run(self) -> None:
        self.fault = None
        while self._pending:
            numbers = sorted(self._pending)[:BATCH]
            texts = await self._texts_of(numbers)
            try:
                rows = await asyncio.to_thread(self._encoder.encode_documents, texts)
            except EncoderFault as fault:
                self.fault = fault
                log.warning("keys of %d chunks wait: %s", len(self._pending), fault)
                return
            for number, row in zip(numbers, rows, strict=True):
                self._done[number] = row
                self._pending.pop(number, None)

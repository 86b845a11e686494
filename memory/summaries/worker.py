"""The supervised background worker: summaries are made beside the loop and stored when they are good.

A step never waits for it: `submit` only notes what is to be done. What does not fit the queue is noted by number and
its text read from the store when its turn comes. A failure, a hang or a dead child costs the chunk its summaries until
the session is opened again, and nothing else.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from memory.errors import SummaryRejected
from memory.ports import Clock
from memory.records import View
from memory.summaries.base import Summariser, SummaryJob
from memory.summaries.config import SummaryConfig

log = logging.getLogger(__name__)

QUEUE_CHARS = 8_000_000
"""Characters of text that wait in memory."""
_MOST_BACKOFF_S = 60.0
_FAILURES = 200


@dataclass(frozen=True, slots=True)
class SummaryFailure:
    """One attempt that failed. ``final``: no further one follows. ``detail``: a traceback; empty for a rejection."""

    chunk: int
    attempt: int
    final: bool
    error: str
    detail: str = ""


class SummaryWorker:
    """Runs a `Summariser` over chunks, first come first served, ``config.concurrency`` at a time.

    ``sink`` stores finished views. ``load`` reads a job back from the store. Owns its tasks and the summariser; to be
    used from one event loop.
    """

    def __init__(
        self,
        summariser: Summariser,
        sink: Callable[[Sequence[View]], Awaitable[None]],
        load: Callable[[int], Awaitable[SummaryJob]],
        config: SummaryConfig,
        clock: Clock,
        *,
        queue_chars: int = QUEUE_CHARS,
    ) -> None:
        self.failures: deque[SummaryFailure] = deque(maxlen=_FAILURES)
        """The latest failed attempts, oldest first."""
        self.failed: set[int] = set()
        """Chunks given up until the session is opened again."""
        self.made = 0
        """Chunks summarised."""
        self._summariser = summariser
        self._sink = sink
        self._load = load
        self._config = config
        self._clock = clock
        self._queue_chars = queue_chars
        # one child process: what waited for it would spend its own time limit
        self._concurrency = 1 if config.kind == "extractive" else config.concurrency
        self._waiting: deque[int] = deque()
        self._delayed: list[tuple[float, int]] = []
        self._attempts: dict[int, int] = {}
        """Attempts made of every chunk that is not finished: this is what is pending."""
        self._jobs: dict[int, SummaryJob] = {}
        """Texts in memory; a pending chunk without one is read from the store."""
        self._held_chars = 0
        self._wake = asyncio.Event()
        self._finished = asyncio.Event()
        self._runners: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def pending(self) -> int:
        """Chunks that are waiting or being summarised."""
        return len(self._attempts)

    def submit(self, job: SummaryJob) -> None:
        """Note a chunk. Never blocks, never drops: a text that finds no room is read from the store later."""
        if self._closed or job.chunk in self._attempts:
            return
        if self._held_chars + len(job.text) <= self._queue_chars:
            self._jobs[job.chunk] = job
            self._held_chars += len(job.text)
        self.backlog([job.chunk])

    def backlog(self, chunks: Iterable[int]) -> None:
        """Note stored chunks by number."""
        if self._closed:
            return
        for chunk in chunks:
            if chunk not in self._attempts:
                self._attempts[chunk] = 0
                self.failed.discard(chunk)
                self._waiting.append(chunk)
        self._wake.set()
        for _ in range(len(self._runners), min(self._concurrency, self.pending)):
            runner = asyncio.get_running_loop().create_task(self._run(), name="summaries")
            self._runners.add(runner)
            runner.add_done_callback(self._ended)

    async def wait_for(self, chunks: Collection[int]) -> None:
        """Return when each of these is summarised, or has finally failed, or was never asked for."""
        while any(chunk in chunks for chunk in self._attempts):
            self._finished.clear()
            await self._finished.wait()

    async def drain(self, timeout: float | None = None) -> bool:
        """Wait until nothing is pending, at most ``timeout`` seconds; whether that was reached."""
        try:
            async with asyncio.timeout(timeout):
                while self._attempts:
                    self._finished.clear()
                    await self._finished.wait()
        except TimeoutError:
            return False
        return True

    async def aclose(self, grace_s: float = 2.0) -> None:
        """Take no more; give what runs ``grace_s`` seconds, then cancel it.

        What was not stored by then is found again when the session is opened: the store lists chunks without views.
        """
        self._closed = True
        for chunk in [*self._waiting, *(chunk for _, chunk in self._delayed)]:
            self._forget(chunk)
        self._waiting.clear()
        self._delayed.clear()
        self._wake.set()
        if self._runners:
            await asyncio.wait(self._runners, timeout=grace_s)
        for runner in self._runners:
            runner.cancel()
        if self._runners:
            # a summariser that swallows its cancellation must not hold up the closing
            await asyncio.wait(self._runners, timeout=grace_s)
        for chunk in list(self._attempts):
            self._forget(chunk)
        await self._summariser.aclose()

    async def _run(self) -> None:
        while (chunk := await self._next()) is not None:
            try:
                await self._attempt(chunk)
            except BaseException:
                # nobody may wait for a chunk that no runner has any more
                self._forget(chunk)
                raise

    async def _next(self) -> int | None:
        """The next chunk that is due; None once closed."""
        while not self._closed:
            now = self._clock.monotonic()
            if self._delayed and self._delayed[0][0] <= now:
                return heapq.heappop(self._delayed)[1]
            if self._waiting:
                return self._waiting.popleft()
            self._wake.clear()
            try:
                async with asyncio.timeout(self._delayed[0][0] - now if self._delayed else None):
                    await self._wake.wait()
            except TimeoutError:
                continue
        return None

    async def _attempt(self, chunk: int) -> None:
        try:
            async with asyncio.timeout(self._config.timeout_s):
                job = self._jobs.get(chunk) or await self._load(chunk)
                views = await self._summariser.summarise(job)
            await self._sink(views)
        except SummaryRejected as fault:
            self._retry(chunk, f"rejected: {fault}", "")
        except TimeoutError:
            self._retry(chunk, f"no summary within {self._config.timeout_s:g} s", "")
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            self._retry(chunk, "cancelled by the summariser itself", "")
        except Exception as fault:  # noqa: BLE001 - the border of a background job
            self._retry(chunk, f"{type(fault).__name__}: {fault}", traceback.format_exc())
        else:
            self.made += 1
            self._forget(chunk)

    def _retry(self, chunk: int, error: str, detail: str) -> None:
        attempt = self._attempts[chunk] + 1
        final = attempt >= self._config.attempts
        self.failures.append(SummaryFailure(chunk, attempt, final, error, detail))
        log.log(
            logging.WARNING if final else logging.INFO,
            "summary of c%d failed (attempt %d of %d): %s\n%s",
            *(chunk, attempt, self._config.attempts, error, detail),
        )
        if final or self._closed:
            self.failed.add(chunk)
            self._forget(chunk)
            return
        self._attempts[chunk] = attempt
        delay = min(self._config.backoff_s * 2 ** (attempt - 1), _MOST_BACKOFF_S)
        heapq.heappush(self._delayed, (self._clock.monotonic() + delay, chunk))
        self._wake.set()

    def _forget(self, chunk: int) -> None:
        self._attempts.pop(chunk, None)
        job = self._jobs.pop(chunk, None)
        if job is not None:
            self._held_chars -= len(job.text)
        self._finished.set()

    def _ended(self, runner: asyncio.Task[None]) -> None:
        """A runner ended: by closing, or by a fault of the worker itself, which must not pass unseen."""
        self._runners.discard(runner)
        if runner.cancelled():
            return
        fault = runner.exception()
        if fault is not None:
            detail = "".join(traceback.format_exception(fault))
            self.failures.append(SummaryFailure(0, 0, True, f"worker: {fault!r}", detail))
            log.error("the summary worker broke: %s", detail)

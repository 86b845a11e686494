"""What the routes work on: the selector behind a bounded queue of threads, what is counted, and the sessions."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from memory.ports import Encoder
from runners.config import RunConfig
from runners.environment import Environment
from runners.redact import Redactor
from runners.service.bodies import SelectIn
from runners.service.deadline import Deadline
from runners.service.explain import Decision, explain
from runners.service.gate import Refused
from runners.service.metrics import Metrics
from runners.service.passes import Passes
from runners.service.records import DebugLog, Recent
from runners.service.selecting import MIB, Selected, Selector, Working
from runners.service.sessions import Sessions
from runners.service.settings import ServiceSettings

T = TypeVar("T")
_LOGGED = 4
"""Selections that may wait to be logged, each with all that it looked at; more are not."""
_log = logging.getLogger(__name__)
THREADS = max(1, min(4, os.cpu_count() or 1))


@dataclass(frozen=True, slots=True)
class Answer:
    """A selection, the name that it is known by, and with ``/select_debug`` why."""

    name: str
    asked: SelectIn
    selected: Selected
    decisions: tuple[Decision, ...] = ()


class Service:
    """The state of one process."""

    def __init__(
        self,
        settings: ServiceSettings,
        environment: Environment,
        config: RunConfig,
        encoder: Encoder,
        passes: Passes | None = None,
    ) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.recent = Recent()
        self.sessions = Sessions(environment, config, settings)
        self.deadline = Deadline(settings.answer_s)
        self.selector = Selector(encoder, cache_bytes=settings.cache_mib * MIB)
        self.environment = environment
        self.passes = passes or Passes()
        self.closing = asyncio.Event()
        self.streams = 0
        redact = Redactor(environment.secrets.values(), shapes=True)
        self._log = DebugLog(environment.home / "service" / "selections.jsonl", settings.sample, redact)
        self._threads = ThreadPoolExecutor(THREADS, "select")
        self._logger = ThreadPoolExecutor(1, "select-log")
        self._waiting = self._logging = 0

    async def select(self, body: bytes, *, debug: bool = False) -> Answer:
        """Answer the body of a ``/select``. Raises ValidationError, ValueError, MustKeepTooLarge, Refused."""
        begun = time.perf_counter()
        asked, selected, working, decisions = await self.threaded(lambda: self._selected(body, debug))
        name = self.recent.add(working.ask, selected)
        seconds = time.perf_counter() - begun
        self.metrics.selected(asked.strategy, selected.recency, seconds, asked.fallbacks)
        if self._logging < _LOGGED and self._log.wants():
            self._logging += 1
            task = asyncio.get_running_loop().run_in_executor(
                self._logger, self._log.write, name, selected, working, seconds
            )
            task.add_done_callback(self._logged)
        return Answer(name, asked, selected, decisions)

    async def prewarm(self, texts: Sequence[str]) -> int:
        """Make keys ahead of time; returns how many were new. Raises EncoderFault, Refused."""
        return await self.threaded(lambda: self.selector.prewarm(texts))

    async def threaded(self, work: Callable[[], T]) -> T:
        """Run on one of the threads. Raises Refused when too many wait."""
        if self._waiting >= self.settings.max_waiting + THREADS:
            self.metrics.busy += 1
            raise Refused(503, "busy", "too many selections are waiting", ((b"retry-after", b"1"),))
        self._waiting += 1
        task = asyncio.get_running_loop().run_in_executor(self._threads, work)
        task.add_done_callback(lambda _: self._left())
        return await task

    @contextmanager
    def streaming(self) -> Iterator[None]:
        """Count one stream of events. Raises Refused when there are enough."""
        if self.streams >= self.settings.max_streams:
            raise Refused(503, "busy", "too many streams", ((b"retry-after", b"5"),))
        self.streams += 1
        try:
            yield
        finally:
            self.streams -= 1

    async def aclose(self) -> None:
        """End streams, finish what runs, close the sessions."""
        self.closing.set()
        await asyncio.to_thread(self._threads.shutdown)
        await asyncio.to_thread(self._logger.shutdown)
        await self.sessions.aclose()

    def _left(self) -> None:
        self._waiting -= 1

    def _logged(self, task: asyncio.Future[None]) -> None:
        self._logging -= 1
        if not task.cancelled() and (fault := task.exception()):
            _log.error("a selection could not be explained", exc_info=fault)

    def _selected(self, body: bytes, debug: bool) -> tuple[SelectIn, Selected, Working, tuple[Decision, ...]]:
        asked = SelectIn.model_validate_json(body)
        if len(asked.candidates) > self.settings.max_candidates:
            raise ValueError(f"at most {self.settings.max_candidates} candidates")
        selected, working = self.selector.work(asked.ask())
        return asked, selected, working, explain(working) if debug else ()

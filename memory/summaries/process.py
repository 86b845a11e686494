"""The extractive summariser, in a child process: a busy thread here would slow every step of the loop."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from memory.errors import SummaryFailed
from memory.ports import TokenCounter
from memory.records import View
from memory.summaries import checks, child
from memory.summaries.base import SummaryJob
from memory.summaries.children import end, shared_children
from memory.summaries.config import SummaryConfig
from memory.summaries.extractive import VERSION, head_and_tail
from memory.summaries.prompts import prompt_hash
from memory.tokens import ScriptCounter

_LINE_LIMIT = 1 << 22
_MOST_CHARS = 400_000
"""A longer text is summarised from its head and tail."""
_DEATHS, _REST_S = 4, 10.0
"""After so many deaths in a row, a child is started at most once in so many seconds."""


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    detailed: str = ""
    brief: str = ""
    error: str = ""


class ExtractiveSummariser:
    """Summaries by `memory.summaries.extractive` in a child process of low priority.

    One job at a time, in whichever child of the event loop is free (`memory.summaries.children`); the first starts at
    the first job. A child is killed when its job is cancelled. One that died is started again once for the job; if it
    dies again the job raises SummaryFailed. Bound to the event loop that runs its first job.
    """

    def __init__(self, config: SummaryConfig, counter: TokenCounter | None = None) -> None:
        self.producer = "extractive"
        self.prompt_hash = prompt_hash(
            "extractive", VERSION, config.profile, config.detailed_tokens, config.brief_tokens
        )
        self.started = 0
        """Times that a child was started."""
        self._config = config
        self._counter = counter or ScriptCounter()
        self._turn = asyncio.Lock()
        self._child: asyncio.subprocess.Process | None = None
        """The child that served last; ours alone while ``_held``."""
        self._held = False
        self._closed = False
        self._deaths = 0
        self._last_start = 0.0

    @property
    def pid(self) -> int | None:
        """Process id of the child that served last, while it runs."""
        return self._child.pid if self._child is not None and self._child.returncode is None else None

    async def summarise(self, job: SummaryJob) -> list[View]:
        """Both views. Raises SummaryFailed (the child is dead or broke on this text) or SummaryRejected."""
        async with self._turn, shared_children().seat():
            answer = await self._ask(job)
        if answer.error:
            raise SummaryFailed(f"extractive summary of c{job.chunk} failed: {answer.error}")
        detailed, brief = checks.settled(job, answer.detailed, answer.brief, self._counter)
        return checks.views(job, detailed, brief, self._counter, producer=self.producer, prompt_hash=self.prompt_hash)

    async def aclose(self) -> None:
        """End the child."""
        self._closed = True
        await self._end_child()
        self._child = None
        await shared_children().leave(self)

    async def _ask(self, job: SummaryJob) -> _Answer:
        line = json.dumps(
            {
                "text": _encodable(head_and_tail(job.text, _MOST_CHARS)),
                "question": _encodable(job.question),
                "profile": self._config.profile,
                "detailed_tokens": self._config.detailed_tokens,
                "brief_tokens": self._config.brief_tokens,
            }
        ).encode()
        for _ in range(2):
            answered = False
            try:
                reply = await self._exchange(line + b"\n")
                answered = bool(reply)
            finally:
                # cancelled or cut off in the middle: what this child says next would answer the wrong question
                if not answered:
                    await self._end_child()
            self._deaths = 0 if reply else self._deaths + 1
            if reply:
                try:
                    answer = _Answer.model_validate_json(reply)
                except ValidationError as fault:
                    await self._end_child()
                    raise SummaryFailed("the summariser's process gave no readable answer") from fault
                await self._give_back()
                return answer
        raise SummaryFailed("the summariser's process died, twice")

    async def _exchange(self, line: bytes) -> bytes:
        """The answer line; empty when the child died first."""
        process = await self._running()
        if process.stdin is None or process.stdout is None:
            raise SummaryFailed("the summariser's process has no pipes")
        try:
            process.stdin.write(line)
            await process.stdin.drain()
            reply = await process.stdout.readline()
        except (ConnectionError, ValueError):
            return b""
        return reply if reply.endswith(b"\n") else b""

    async def _running(self) -> asyncio.subprocess.Process:
        if self._closed:
            raise SummaryFailed("the summariser is closed", retryable=False)
        children = shared_children()
        children.join(self)
        free = children.take(self._child)
        if free is not None:
            self._child, self._held = free, True
            return free
        now = asyncio.get_running_loop().time()
        if self._deaths >= _DEATHS and now - self._last_start < _REST_S:
            raise SummaryFailed(f"the summariser's process died {self._deaths} times in a row")
        self._last_start = now
        try:
            self._child = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                str(Path(child.__file__)),
                json.dumps([entry or str(Path.cwd()) for entry in sys.path]),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                limit=_LINE_LIMIT,
                # Ctrl-C at a terminal goes to the whole process group
                start_new_session=os.name == "posix",
            )
        except OSError as fault:
            raise SummaryFailed(f"cannot start the summariser's process: {fault}") from fault
        self.started += 1
        self._held = True
        return self._child

    async def _give_back(self) -> None:
        if self._child is not None and self._held:
            self._held = False
            await shared_children().give(self._child)

    async def _end_child(self) -> None:
        if self._child is None or not self._held:
            return
        process, self._child, self._held = self._child, None, False
        await end(process)


def _encodable(text: str) -> str:
    """Without lone surrogates, which no JSON reader takes."""
    return text.encode("utf-8", "replace").decode()

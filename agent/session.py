"""A durable session: ask, interrupt, resume. What is committed stays; what was under way is finished or said."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from agent.citations import Citation, resolve_citations
from agent.control.registry import REPEATABLE as CONTROL
from agent.errors import AgentFault, AuthFailed, BackboneFault, BadRequest, ScriptExhausted, Status
from agent.events import Finished
from agent.loop import Loop
from memory.errors import BudgetTooSmall, ContextExhausted, MemoryFault, StoreBusy, StoreFault, StoreFull
from memory.manager import Memory
from memory.ports import ChunkStore
from memory.records import Observation, Step, Usage, add_usage
from memory.stored import Event, UsageRow

REPEATABLE = frozenset({"search", "visit", "glimpse", "parse_file"}) | CONTROL
"""Tools that only read, or change nothing when done twice: run again when a crash came between start and commit."""

T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a question ended. ``answer`` is empty unless ``status`` is ``completed``; ``message`` says why else."""

    session: str
    status: Status
    question: str
    answer: str
    message: str
    citations: tuple[Citation, ...]
    steps: int
    """Steps of the session."""
    usage: Usage
    """All calls of the session: steps, summaries, judges."""


class Session:
    """One session over its loop. All state lives in the store; this object may be thrown away at any time."""

    def __init__(
        self, name: str, memory: Memory, store: ChunkStore, loop: Loop, redact: Callable[[str], str] = str
    ) -> None:
        """``redact``: takes secrets out of what is said of a fault."""
        self.name = name
        self.memory = memory
        self._store = store
        self._loop = loop
        self._redact = redact
        self._cut_short = False
        """Whether work here ended before its time: something may be on the disk that nobody here has noticed."""

    async def ask(self, question: str) -> Outcome:
        """Put a question, or a further instruction, and work on it. Raises ValueError for an empty one."""
        if not question.strip():
            raise ValueError("the question is empty")
        await self._supervised(self.recover)
        await self._supervised(lambda: self.memory.ask(question))
        self._loop.start_question()
        return await self._work()

    async def go_on(self) -> Outcome:
        """Continue the question in force from the last whole step; one that is answered already gives its answer
        again, without a call. Raises ValueError when there is no question."""
        if not self.memory.question:
            raise ValueError("the session has no question yet")
        await self._supervised(self.recover)
        last = await self._store.chunks([self.memory.steps]) if self.memory.steps else []
        if last and last[0].step.kind == "answer" and last[0].step.task == self.memory.task:
            return await self._outcome("completed", last[0].step.answer)
        return await self._work()

    async def recover(self) -> Step | None:
        """Bring an interrupted step to its end: run again what only reads, say so of the rest. What crashed the
        program is not tried a second time."""
        if self._cut_short:
            for step in await self.memory.catch_up():
                self._loop.committed(step)
            self._cut_short = False
        intent = await self._store.pending_intent()
        if intent is None:
            return None
        step = intent.step
        if not await self._crashed() and all(call.name in REPEATABLE for call in step.calls):
            observations = tuple(await self._loop.act(step))
        else:
            observations = tuple(
                Observation(call.id, call.name, INTERRUPTED.format(name=call.name), error="interrupted")
                for call in step.calls
            )
            step = replace(step, interrupted=True)
        step = replace(step, observations=observations)
        # the call that chose this step was paid for, but what it cost was not written down yet
        await self._loop.commit(step, UsageRow(step.number, "step", self._loop.backbone.name, Usage()))
        await self._event("recovered", {"step": step.number, "interrupted": step.interrupted})
        return step

    async def _crashed(self) -> bool:
        """Whether the latest run ended by a fault of the program, and was not merely killed."""
        runs = [event for event in await self._store.events() if event.kind in ("working", "ended")]
        return bool(runs) and runs[-1].body.get("status") == "crashed"

    async def _work(self) -> Outcome:
        status, message = await self._supervised(self._run)
        await self._ended(status, message)
        outcome = await self._outcome(status, message)
        self._loop.bus.emit(Finished(outcome.status, outcome.answer or outcome.message))
        return outcome

    async def _run(self) -> tuple[Status, str]:
        """The loop; faults with a name become a status."""
        try:
            await self._event("working", {"task": self.memory.task})
            return await self._loop.run()
        except (ContextExhausted, StoreFault, BackboneFault) as fault:
            self._cut_short = self._cut_short or isinstance(fault, StoreFault)
            return status_of(fault), self._redact(_with_hint(fault))

    async def _supervised(self, work: Callable[[], Awaitable[T]]) -> T:
        """What ends the work before its time is recorded, a fault of the program with its traceback, and raised."""
        try:
            return await work()
        except BaseException as fault:
            self._cut_short = True
            if isinstance(fault, asyncio.CancelledError):
                await self._ended("interrupted", "interrupted by the user or the host")
            elif isinstance(fault, Exception):
                await self._failed(fault)
            raise

    async def _failed(self, fault: Exception) -> None:
        status = status_of(fault)
        if status == "crashed":
            log.error("session %s crashed", self.name, exc_info=fault)
        lines = traceback.format_exception(fault, limit=-8)
        await self._ended(status, self._redact("".join(lines) if status == "crashed" else str(fault)))

    async def _ended(self, status: Status, message: str) -> None:
        """Written down where that is possible: what ended the run may be that nothing can be."""
        try:
            await self._event("ended", {"status": status, "message": message, "task": self.memory.task})
        except StoreFault as fault:
            log.warning("session %s ended as %s, which could not be recorded: %s", self.name, status, fault)

    async def _outcome(self, status: Status, message: str) -> Outcome:
        answer = message if status == "completed" else ""
        usage = Usage()
        for row in await self._store.usage():
            usage = add_usage(usage, row.usage)
        return Outcome(
            session=self.name,
            status=status,
            question=self.memory.question,
            answer=answer,
            message="" if status == "completed" else message,
            citations=tuple(await resolve_citations(answer, self.memory.recall)),
            steps=self.memory.steps,
            usage=usage,
        )

    async def _event(self, kind: str, body: dict[str, int | str | bool]) -> None:
        await self._store.add_event(Event(kind, time.time(), dict(body)))


INTERRUPTED = (
    "this call of {name} was under way when the session stopped: whether it took effect is not known, "
    "it was not run again, and any state it kept is gone"
)


def status_of(fault: Exception) -> Status:
    """The status of a run that ``fault`` ends; ``crashed`` for one of the program itself."""
    return next((status for kind, status in _STATUS.items() if isinstance(fault, kind)), "crashed")


_STATUS: Mapping[type[Exception], Status] = {
    ContextExhausted: "context_exhausted",
    BudgetTooSmall: "context_exhausted",
    StoreFull: "storage_full",
    StoreBusy: "store_busy",
    StoreFault: "storage_failed",
    AuthFailed: "auth",
    BadRequest: "request_rejected",
    ScriptExhausted: "script_exhausted",
    BackboneFault: "model_unavailable",
}
"""In this order: the first that fits."""


def _with_hint(fault: AgentFault | MemoryFault) -> str:
    return f"{fault} ({fault.hint})" if fault.hint else str(fault)

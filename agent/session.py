"""A durable session: ask, interrupt, resume. What is committed stays; what was under way is finished or said."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from agent.citations import Citation, resolve_citations
from agent.control.registry import REPEATABLE as CONTROL
from agent.errors import AgentFault, AuthFailed, BackboneFault, Status
from agent.events import Finished
from agent.loop import Loop
from memory.errors import BudgetTooSmall, ContextExhausted, StoreBusy, StoreFull
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

    def __init__(self, name: str, memory: Memory, store: ChunkStore, loop: Loop) -> None:
        self.name = name
        self.memory = memory
        self._store = store
        self._loop = loop

    async def ask(self, question: str) -> Outcome:
        """Put a question, or a further instruction, and work on it. Raises ValueError for an empty one."""
        if not question.strip():
            raise ValueError("the question is empty")
        await self._supervised(self.recover)
        await self.memory.ask(question)
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
        intent = await self._store.pending_intent()
        if intent is None:
            return None
        step = intent.step
        ended = [event.body.get("status") for event in await self._store.events() if event.kind == "ended"]
        crashed = bool(ended) and ended[-1] == "crashed"
        if not crashed and all(call.name in REPEATABLE for call in step.calls):
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

    async def _work(self) -> Outcome:
        await self._event("working", {"task": self.memory.task})
        status, message = await self._supervised(self._run)
        await self._ended(status, message)
        outcome = await self._outcome(status, message)
        self._loop.bus.emit(Finished(outcome.status, outcome.answer or outcome.message))
        return outcome

    async def _run(self) -> tuple[Status, str]:
        """The loop; faults with a name become a status."""
        try:
            return await self._loop.run()
        except ContextExhausted as fault:
            return "context_exhausted", str(fault)
        except StoreFull as fault:
            return "storage_full", str(fault)
        except StoreBusy as fault:
            return "store_busy", str(fault)
        except AuthFailed as fault:
            return "auth", _with_hint(fault)
        except BackboneFault as fault:
            return "model_unavailable", _with_hint(fault)

    async def _supervised(self, work: Callable[[], Awaitable[T]]) -> T:
        """What ends the work before its time is recorded, a fault of the program with its traceback, and raised."""
        try:
            return await work()
        except asyncio.CancelledError:
            await self._ended("interrupted", "interrupted by the user or the host")
            raise
        except BudgetTooSmall as fault:
            await self._ended("context_exhausted", str(fault))
            raise
        except Exception:
            log.exception("session %s crashed", self.name)
            await self._ended("crashed", traceback.format_exc(limit=-8))
            raise

    async def _ended(self, status: Status, message: str) -> None:
        await self._event("ended", {"status": status, "message": message, "task": self.memory.task})

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


def _with_hint(fault: AgentFault) -> str:
    return f"{fault} ({fault.hint})" if fault.hint else str(fault)

"""The ReAct loop: assemble, ask, decide, act, commit. Every way it can end is a `Stop` with a name."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent.dialects.base import Decision, Dialect
from agent.errors import BackboneFault, ContextTooLong, ParseFailure, Status, Stop
from agent.events import Bus, ModelReplied, StepCommitted, StepStarted, ToolFinished, ToolStarted
from agent.guards import Guards
from agent.situation import Tracker
from agent.spending import Spending
from agent.window import Window
from memory.errors import BudgetTooSmall
from memory.manager import Memory
from memory.plan import Context
from memory.ports import Completion
from memory.records import Image, Observation, Reply, Request, Step, StepKind, ToolCall, Usage
from memory.stored import Intent, UsageRow
from memory.tokens import ScriptCounter
from tools.toolset import Toolset

MAX_BAD_REPLIES = 3
"""Unreadable or empty replies in a row before the run stops by name."""
LAST_STEP = "One step is left: answer now with what you have, and say what is uncertain."
_COUNTER = ScriptCounter()
NOTE = "note"
"""Tool name of what the loop itself says to the model."""


@dataclass(slots=True)
class Loop:
    """One session's loop over its parts; the parts own all state except how many bad replies came in a row."""

    memory: Memory
    backbone: Completion
    dialect: Dialect
    toolset: Toolset
    spending: Spending
    guards: Guards
    tracker: Tracker
    window: Window
    bus: Bus
    images: tuple[Image, ...] = ()
    """Pictures that belong to the questions; the window leaves room for them."""
    bad_replies: int = 0
    refusals: int = 0

    def start_question(self) -> None:
        """Forget what belongs to the question before."""
        self.tracker = Tracker()
        self.spending.start_question()
        self.bad_replies = self.refusals = 0

    async def run(self) -> tuple[Status, str]:
        """Steps until one stops; returns the status and the answer (or what the stop says)."""
        try:
            while True:
                await self.step()
        except Stop as stop:
            return stop.status, str(stop)

    async def step(self) -> None:
        """One whole step. Raises Stop; nothing of a step that was not committed is lost or half there."""
        self.spending.limits.check()
        context, reply = await self.query()
        usage = UsageRow(context.step, "step", self.backbone.name, reply.usage)
        self.spending.limits.record(usage, context.tokens + _COUNTER.count(reply.text + reply.reasoning))
        try:
            decision = self.dialect.parse(reply, context.step)
        except ParseFailure as failure:
            await self.note_bad_reply(context, reply, failure, usage)
            return
        self.bad_replies = self.refusals = 0
        if decision.answer:
            await self.answer(context, decision, usage)
        await self.execute(context, decision, usage)

    async def query(self) -> tuple[Context, Reply]:
        """A context that fits and the model's reply to it; a provider that finds it too long gets a smaller one."""
        while True:
            context = await self.assemble()
            self.bus.emit(StepStarted.of(context, self.memory.pending_summaries))
            situation = self.tracker.situation(context, self.spending.limits.steps_left)
            request = self.dialect.request(context, self.toolset.specs, situation)
            if self.images:
                request = replace(request, images=self.images)
            started = time.monotonic()
            try:
                reply = await self.ask(request, context.step)
            except ContextTooLong as fault:
                await self.window.shrink(context.tokens, fault)
                continue
            self.window.observe(context.tokens, reply.usage)
            self.bus.emit(ModelReplied(context.step, reply.usage, time.monotonic() - started))
            return context, reply

    async def ask(self, request: Request, step: int) -> Reply:
        """One call. What its retries take counts: their time ends the run, what they cost is recorded."""
        limits = self.spending.limits
        try:
            async with asyncio.timeout(limits.seconds_left) as time_left:
                return await self.backbone.complete(request)
        except TimeoutError as fault:
            if not time_left.expired():
                raise
            limit = limits.config.max_seconds
            raise Stop("budget", f"limit of {limit:g} seconds reached during a model call (max_seconds)") from fault
        except BackboneFault as fault:
            if fault.usage != Usage():
                await self.spending.record(UsageRow(step, "lost", self.backbone.name, fault.usage))
            raise

    async def assemble(self) -> Context:
        """The next context. Where the provider's own limit, not the configured one, leaves no room, the run stops."""
        try:
            return await self.memory.assemble(self.window.budget())
        except BudgetTooSmall as fault:
            if self.window.learned.ceiling is None:
                raise
            raise Stop("context_exhausted", f"the model takes too little: {fault}") from fault

    async def execute(self, context: Context, decision: Decision, usage: UsageRow) -> None:
        """Intent, tools, commit."""
        step = self.new_step(context, thought=decision.thought, calls=decision.calls)
        notes = self.guards.before(decision.calls)
        if self.spending.limits.steps_left == 1:
            notes = [*notes, LAST_STEP]
        await self.memory.begin(Intent(step, step.created))
        observations = await self.act(step)
        await self.commit(replace(step, observations=(*observations, *notes_of(notes))), usage)

    async def act(self, step: Step) -> Sequence[Observation]:
        """Run a step's tools, in order."""
        for call in step.calls:
            self.bus.emit(ToolStarted(step.number, call))
        observations = await self.toolset.run(step.calls, step=step.number, question=self.memory.question)
        for observation in observations:
            self.bus.emit(ToolFinished(step.number, observation))
        return observations

    async def answer(self, context: Context, decision: Decision, usage: UsageRow) -> None:
        """Commit the answer as a step of its own and stop."""
        step = self.new_step(context, kind="answer", thought=decision.thought, answer=decision.answer)
        await self.commit(replace(step, question=self.memory.question), usage)
        raise Stop("completed", decision.answer)

    async def note_bad_reply(self, context: Context, reply: Reply, failure: ParseFailure, usage: UsageRow) -> None:
        """A reply that cannot be read is kept, and answered by what was wrong with it."""
        self.bad_replies += 1
        self.refusals += reply.stop_reason == "refusal"
        step = self.new_step(context, kind="note", thought=reply.text)
        await self.commit(replace(step, observations=notes_of([str(failure)])), usage)
        if self.refusals > 1:
            raise Stop("refused", "the model refused twice")
        if self.bad_replies >= MAX_BAD_REPLIES:
            raise Stop("model_empty", f"{self.bad_replies} replies in a row could not be used: {failure}")

    async def commit(self, step: Step, usage: UsageRow | None) -> None:
        """Write the step; from here on it cannot be lost."""
        chunk = await self.memory.ingest(step, [usage] if usage else [])
        self.committed(chunk.step)

    def committed(self, step: Step) -> None:
        """A step is on the disk: everything that follows the steps hears of it."""
        self.tracker.add(step)
        self.guards.after(step)
        self.bus.emit(StepCommitted(step))

    def new_step(
        self,
        context: Context,
        *,
        kind: StepKind = "act",
        thought: str = "",
        calls: tuple[ToolCall, ...] = (),
        answer: str = "",
    ) -> Step:
        """The step that a context was built for."""
        return Step(context.step, kind, thought, calls, answer=answer, task=self.memory.task, created=time.time())


def notes_of(texts: Sequence[str]) -> tuple[Observation, ...]:
    """What the loop says to the model, as observations of no call."""
    return tuple(Observation("", NOTE, text) for text in texts)

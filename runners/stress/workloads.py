"""What a session does: a backbone works on question after question, or a script reads page after page."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from agent.errors import Status
from agent.events import ContextSummary
from agent.session import Outcome
from memory.errors import BudgetTooSmall, ContextExhausted
from memory.records import Step
from runners.bench.harness import IN_A_ROW
from runners.bench.tasks import Answered, Benchmark, Task
from runners.replay.planted import Page, visit_step
from runners.stress.facts import Facts, clean, page_of
from runners.stress.plan import Work
from runners.stress.probes import Prober
from runners.stress.recorder import Recorder, StepRow
from runners.stress.schedule import laps, schedule
from runners.wiring import OpenSession

PAGE = 256
HARMLESS: frozenset[Status] = frozenset({"completed", "budget", "model_empty", "refused", "request_rejected"})
"""Ends of a question after which the next one is asked."""


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """How question ``task`` of the session ended. ``measures``: the benchmark's own, empty where only a judge can
    tell."""

    task: int
    id: str
    status: str
    answer: str
    steps: int
    """Of the session, when it ended."""
    measures: Mapping[str, float]

    @property
    def right(self) -> bool:
        """Whether the measure that counts is full."""
        return next(iter(self.measures.values()), 0.0) >= 1.0


@dataclass(frozen=True, slots=True)
class End:
    """Why a cell stopped. ``final``: its session can go no further, or need not."""

    status: str
    message: str = ""
    final: bool = True


Keep: TypeAlias = Callable[[AnswerRow], None]


@dataclass(slots=True)
class Place:
    """A cell at work. ``until``: on the monotonic clock; ``told``: after every question, or so many steps."""

    opened: OpenSession
    work: Work
    facts: Facts
    recorder: Recorder
    prober: Prober
    told: Callable[[], None]
    until: float | None = None

    def over(self) -> End | None:
        """Whether a limit is reached."""
        if self.opened.memory.steps >= self.work.steps:
            return End("capped", f"{self.work.steps} steps taken")
        if self.until is not None and time.monotonic() >= self.until:
            return End("paused", "the time is up", final=False)
        return None

    async def learn(self, after: int) -> None:
        """Take in which pages the steps past ``after`` read."""
        last = self.opened.memory.steps
        for first in range(after + 1, last + 1, PAGE):
            for chunk in await self.opened.store.chunks(range(first, min(first + PAGE, last + 1))):
                for page in pages_read(chunk.step):
                    self.facts.visited(page, chunk.step.number)


def pages_read(step: Step) -> list[str]:
    """Ids of the pages that a step visited."""
    return [
        page_of(source.url)
        for item in step.observations
        if item.tool == "visit" and item.error is None
        for source in item.sources
    ]


@dataclass(slots=True)
class Asking:
    """One question after another, lap after lap, the memory never cleared."""

    place: Place
    benchmark: Benchmark
    order: Callable[[int], Task]
    """The question that is the n-th of the session, from 1."""
    keep: Keep
    answered: int = 0
    """Questions with a row."""

    async def run(self) -> End:
        place, memory = self.place, self.place.opened.memory
        await place.learn(0)
        failed = 0
        while True:
            if memory.task <= self.answered:
                end = place.over()
                if end is not None:
                    return end
                await place.prober.probe()
            before = memory.steps
            task = self.order(self.answered + 1)
            outcome = await self._outcome(task)
            await place.learn(before)
            if outcome.status not in HARMLESS:
                return _end(outcome)
            self.keep(await self._row(task, outcome))
            self.answered += 1
            place.told()
            failed = failed + 1 if memory.steps == before else 0
            if failed >= IN_A_ROW:
                return End("stuck", f"{failed} questions in a row ended without a step: {outcome.message}")

    async def _outcome(self, task: Task) -> Outcome:
        session, memory = self.place.opened.session, self.place.opened.memory
        self.place.recorder.start()
        return await (session.go_on() if memory.task > self.answered else session.ask(task.prompt))

    async def _row(self, task: Task, outcome: Outcome) -> AnswerRow:
        store, memory = self.place.opened.store, self.place.opened.memory
        first = (await store.questions())[-1].from_step
        steps = [chunk.step for chunk in await store.chunks(range(first, memory.steps + 1))]
        urls = [source.url for step in steps for item in step.observations for source in item.sources
                if item.tool == "visit" and item.error is None]  # fmt: skip
        measures = self.benchmark.score(task, Answered(outcome.answer, tuple(urls)))
        return AnswerRow(self.answered + 1, task.id, outcome.status, outcome.answer[:500], memory.steps, measures)


def _end(outcome: Outcome) -> End:
    final = outcome.status == "context_exhausted"
    return End(outcome.status, outcome.message, final=final)


@dataclass(slots=True)
class Visiting:
    """A script in the loop's place: it commits page after page as a visit, and has a context built at every so many
    steps. No model is asked; store, keys, summaries and contexts are those of any session."""

    place: Place
    pages: Mapping[str, Page]
    budget: Callable[[], int] = field(init=False)

    def __post_init__(self) -> None:
        self.budget = self.place.opened.loop.window.budget

    async def run(self) -> End:
        place, memory = self.place, self.place.opened.memory
        done = memory.steps
        for visit in schedule(place.facts.questions, self.pages, place.work.seed):
            if visit.step > done:
                end = place.over()
                if end is not None:
                    return end
                await place.prober.probe()
                if memory.task != visit.task:
                    await memory.ask(clean(visit.question))
                try:
                    await self._step(visit_step(self.pages[visit.page], visit.step, memory.task))
                except (ContextExhausted, BudgetTooSmall) as fault:
                    return End("context_exhausted", str(fault))
            place.facts.visited(visit.page, visit.step)
            if visit.step > done and visit.step % PAGE == 0:
                place.told()
        raise AssertionError("a schedule has no end")

    async def _step(self, step: Step) -> None:
        place, memory = self.place, self.place.opened.memory
        recorder = place.recorder
        recorder.row = StepRow(step.number)
        if step.number % place.work.every == 0:
            started = time.perf_counter()
            context = await memory.assemble(self.budget())
            recorder.row.assembly_s = time.perf_counter() - started
            recorder.row.see(ContextSummary.of(context))
        started = time.perf_counter()
        await memory.ingest(step)
        recorder.row.store_s = time.perf_counter() - started
        recorder.committed(step.task)


def ordered(tasks: Mapping[str, Task], seed: int) -> Callable[[int], Task]:
    """The n-th question of a session over these: every one once a lap, each lap in its own order."""
    names = list(tasks)
    drawn: list[str] = []
    source = laps(names, seed)

    def nth(number: int) -> Task:
        while len(drawn) < number:
            drawn.extend(next(source))
        return tasks[drawn[number - 1]]

    return nth

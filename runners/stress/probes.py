"""Asking a long session for what it saw: can it be read in the context, and does the backbone read it there?"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from agent.dialects.base import Situation
from agent.errors import BackboneFault, ParseFailure
from memory.config import MemoryConfig
from memory.errors import BudgetTooSmall, ContextExhausted
from memory.plan import Context
from memory.policies.registry import make_policy
from memory.ports import ContextPolicy
from memory.records import JsonValue
from memory.stored import UsageRow
from runners.bench.journal import Journal
from runners.config import load_config
from runners.replay.planted import Asked, plain
from runners.request import ConfigRequest
from runners.scoring.text import exact, short
from runners.stress.facts import Fact, Facts, clean
from runners.wiring import OpenSession

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ProbeRow:
    """One question asked again before ``step``. ``shown``: the answer-bearing sentence can be read in the context (0
    where none could be built); ``right``: the backbone's answer matches (None: it was not asked, or not reached)."""

    step: int
    distance: int
    """As asked for; ``seen`` is the exact one."""
    seen: int
    question: str
    policy: str
    shown: bool
    tokens: int
    seconds: float
    right: bool | None = None
    answer: str = ""


@dataclass(slots=True)
class Shadow:
    """Another policy looking at the same session: it is told of every step, and asked at the probes only."""

    name: str
    policy: ContextPolicy
    memory: MemoryConfig
    told: int = 0

    def follow(self, opened: OpenSession) -> None:
        """Hear of the steps since the last time."""
        for facts in opened.memory.facts[self.told :]:
            self.policy.ingest(facts)
        self.told = len(opened.memory.facts)


def shadows(names: Sequence[str], budget: int) -> list[Shadow]:
    """Policies by name, within ``budget`` and made to fit it. Raises ConfigError."""
    found = []
    for name in names:
        config = load_config(ConfigRequest(policy=name, options=(f"memory.budget={budget}",)))
        options = config.policy.options.model_dump(by_alias=True)
        found.append(Shadow(name, make_policy(config.policy.name, options), config.memory))
    return found


@dataclass(slots=True)
class Prober:
    """Asks at every so many steps, once at each distance that there is a fact for."""

    opened: OpenSession
    facts: Facts
    distances: Sequence[int]
    every: int
    journal: Journal
    name: str
    also: Sequence[Shadow] = ()
    read: bool = True
    rows: list[ProbeRow] = field(default_factory=list)
    _due: dict[int, int] = field(default_factory=dict)
    """By distance: committed steps from which on the next question is asked."""
    _questions: dict[str, Asked] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._questions = {question.id: question for question in self.facts.questions}
        for row in self.rows:
            self.facts.use(row.question, row.distance, row.step - row.seen)
            self._due[row.distance] = self._after(row.step - 1)

    async def probe(self) -> None:
        """Ask, when it is time to. Nothing of it is remembered by the session."""
        done = self.opened.memory.steps
        for distance in self.distances if self.every else ():
            if done < max(self._due.get(distance, self.every), distance):
                continue
            fact = self._fact(done + 1, distance)
            if fact is None:
                continue
            self._due[distance] = self._after(done)
            self.facts.use(fact.question, distance, fact.source)
            await self._ask(done + 1, distance, fact, None)
            for shadow in self.also:
                shadow.follow(self.opened)
                await self._ask(done + 1, distance, fact, shadow)

    def _after(self, done: int) -> int:
        return done - done % self.every + self.every

    def _fact(self, step: int, distance: int) -> Fact | None:
        return self.facts.at(step, distance)

    async def _ask(self, step: int, distance: int, fact: Fact, shadow: Shadow | None) -> None:
        question = self._questions[fact.question]
        started = time.perf_counter()
        context = await self._context(clean(question), shadow)
        seconds = time.perf_counter() - started
        shown = context is not None and can_read(context, fact.sentence)
        answer: str | None = None
        if self.read and shadow is None:
            answer = await self._answer(context) if context is not None else ""
        golds = (question.answer, *question.aliases)
        row = ProbeRow(
            step,
            distance,
            step - fact.source,
            fact.question,
            shadow.name if shadow else self.name,
            shown,
            context.tokens if context else 0,
            round(seconds, 4),
            None if answer is None else bool(exact(short(answer), golds)),
            short(answer or "")[:200],
        )
        line: dict[str, JsonValue] = asdict(row)
        self.journal.append(line)
        self.rows.append(row)

    async def _context(self, question: str, shadow: Shadow | None) -> Context | None:
        memory, window = self.opened.memory, self.opened.loop.window
        try:
            if shadow is None:
                return await memory.preview(question, window.budget())
            return await memory.preview(question, window.budget(), shadow.policy, shadow.memory)
        except (ContextExhausted, BudgetTooSmall):
            return None

    async def _answer(self, context: Context) -> str | None:
        """The backbone's answer from this context alone: no step is left to look anything up, and no tool is offered.
        None where it cannot be reached; the call is counted like a judge's."""
        loop, backbone = self.opened.loop, self.opened.loop.backbone
        guided = loop.dialect.name.startswith("guided")
        request = loop.dialect.request(
            context, loop.toolset.specs if guided else (), Situation(context.step, 1, steps_left=1)
        )
        try:
            reply = await backbone.complete(request)
        except BackboneFault as fault:
            log.warning("probe before step %d: no answer: %s", context.step, fault)
            return None
        await loop.spending.record(UsageRow(context.step, "judge", backbone.name, reply.usage))
        try:
            return loop.dialect.parse(reply, context.step).answer
        except ParseFailure:
            return ""


def can_read(context: Context, sentence: str) -> bool:
    """Whether a sentence stands in a context, white space and case aside."""
    wanted = plain(sentence)
    return any(wanted in plain(message.content) for message in context.messages)

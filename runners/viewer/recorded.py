"""A session as the viewer sees it: its store, read only, and what of it is held in memory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from agent.citations import Citation, resolve_citations
from memory.ingest import clean_step
from memory.ports import ChunkStore
from memory.recall import Recall
from memory.records import Chunk, Level, Usage, View, add_usage
from memory.sanitize import sanitize
from memory.stored import ChunkFacts, KeyRows, PlanRecord, Question
from memory.tokens import ScriptCounter
from runners.config import RunConfig, stored_config
from runners.errors import ConfigError
from runners.redact import Redactor
from runners.sessions.content import redacted_step, status_of
from runners.viewer.grid import Grid
from runners.wiring import SETTINGS

ViewRow = tuple[int, Level, int, int, float | None]
"""(chunk, level, tokens, published_step, fidelity)."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A final answer and what it cites."""

    step: int
    text: str
    citations: tuple[Citation, ...]


@dataclass(slots=True)
class Recorded:
    """One session; `refresh` takes in what was committed since. ``config`` None: its settings cannot be read."""

    name: str
    store: ChunkStore
    redact: Redactor
    config: RunConfig | None = None
    status: str = "open"
    questions: list[Question] = field(default_factory=list)
    facts: list[ChunkFacts] = field(default_factory=list)
    plans: dict[int, PlanRecord] = field(default_factory=dict)
    usage: dict[int, Usage] = field(default_factory=dict)
    """Of each step's own calls."""
    total: Usage = field(default_factory=Usage)
    views: list[ViewRow] = field(default_factory=list)
    grid: Grid = field(default_factory=Grid)
    keys: KeyRows | None = None
    _answers: dict[int, Answer] = field(default_factory=dict)

    @classmethod
    async def open(cls, name: str, store: ChunkStore, redact: Redactor) -> Recorded:
        """Read a session. Raises StoreFault."""
        settings = await store.meta(SETTINGS)
        made = cls(name, store, redact, _config(settings, name))
        await made.refresh()
        return made

    async def refresh(self) -> bool:
        """Take in what is new; whether there was anything."""
        before = (len(self.facts), self.last, self.status, len(self.questions), len(self.views))
        self.questions = [replace(q, text=self.safe(q.text)) for q in await self.store.questions()]
        self.facts.extend(await self.store.facts(after=len(self.facts)))
        # the newest context may have been built again, or for the first time
        since = self.grid.last
        for record in await self.store.plans(first=max(1, since)):
            self.plans[record.step] = record
        self.grid.extend(await self.store.changes(after=max(0, since - 1)))
        self.views = await self.store.view_tokens()
        self.status = status_of(await self.store.events())
        self.usage, self.total = {}, Usage()
        for row in await self.store.usage():
            self.total = add_usage(self.total, row.usage)
            if row.purpose == "step":
                self.usage[row.step] = add_usage(self.usage.get(row.step, Usage()), row.usage)
        return before != (len(self.facts), self.last, self.status, len(self.questions), len(self.views))

    @property
    def last(self) -> int:
        """The newest step that was committed, or has a context."""
        return max(len(self.facts), self.grid.last)

    @property
    def policy(self) -> str:
        """Name of the policy, or of the variant that the session was started with."""
        if self.config is None:
            return next((plan.policy for plan in self.plans.values()), "")
        return self.config.policy.variant or self.config.policy.name

    def question_at(self, step: int) -> Question | None:
        """The question in force when ``step`` is about to be taken."""
        return next((q for q in reversed(self.questions) if q.from_step <= step), None)

    def safe(self, text: str) -> str:
        """A text as it may be shown: storable characters, no secrets."""
        return self.redact(sanitize(text))

    async def chunks(self, numbers: Sequence[int]) -> list[Chunk]:
        """Stored chunks, as they may be shown. Raises NotStored."""
        return [
            replace(
                chunk, step=redacted_step(clean_step(chunk.step), self.redact), placeholder=self.safe(chunk.placeholder)
            )
            for chunk in await self.store.chunks(numbers)
        ]

    async def summaries(self, numbers: Sequence[int], at_step: int | None = None) -> list[View]:
        """Published summaries, as they may be shown."""
        found = await self.store.views(numbers, at_step=at_step)
        return [replace(view, text=self.safe(view.text)) for view in found]

    async def answers(self) -> list[Answer]:
        """Every answer with its citations resolved; each is resolved once."""
        numbers = [facts.number for facts in self.facts if facts.kind == "answer"]
        recall = Recall(self.store, ScriptCounter())
        for chunk in await self.chunks([number for number in numbers if number not in self._answers]):
            citations = [self._safe(c) for c in await resolve_citations(chunk.step.answer, recall)]
            self._answers[chunk.step.number] = Answer(chunk.step.number, chunk.step.answer, tuple(citations))
        return [self._answers[number] for number in numbers]

    async def keys_of(self, encoder_id: str) -> KeyRows:
        """Every key of an encoder; read again once there are more steps."""
        if self.keys is None or self.keys.encoder_id != encoder_id or len(self.keys.numbers) < len(self.facts):
            self.keys = await self.store.keys(encoder_id)
        return self.keys

    def _safe(self, citation: Citation) -> Citation:
        safe = self.safe
        return replace(citation, url=safe(citation.url), title=safe(citation.title), quote=safe(citation.quote))


def _config(settings: str | None, name: str) -> RunConfig | None:
    """The stored configuration; None where it is missing or no longer understood."""
    if settings is None:
        return None
    try:
        return stored_config(json.loads(settings)["config"], name)
    except (ValueError, KeyError, TypeError, ConfigError):
        return None

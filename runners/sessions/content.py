"""A session as it is handed on: its steps in order, sanitised, secrets out; read from the store, never all at once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

from memory.ingest import clean_step
from memory.ports import ChunkStore
from memory.records import JsonValue, Observation, Source, Step, ToolCall, Usage, add_usage
from memory.sanitize import sanitize
from memory.stored import Event, Question
from runners.redact import Redactor

PAGE = 64
"""Steps read at once."""


@dataclass(frozen=True, slots=True)
class Head:
    """What is known before the first step. ``usage``: of each step's own call; ``model``: name of the backbone."""

    name: str
    status: str
    model: str
    questions: tuple[Question, ...]
    usage: dict[int, Usage]
    total: Usage
    last: int

    def question(self, task: int) -> str:
        """Text of a question; empty when there is none of that ordinal."""
        return next((question.text for question in self.questions if question.task == task), "")


async def read_head(name: str, store: ChunkStore, redact: Redactor) -> Head:
    """Everything but the steps."""
    usage: dict[int, Usage] = {}
    total, model = Usage(), ""
    for row in await store.usage():
        total = add_usage(total, row.usage)
        if row.purpose == "step":
            usage[row.step] = row.usage
            model = row.model
    asked = tuple(replace(question, text=redact(sanitize(question.text))) for question in await store.questions())
    return Head(name, status_of(await store.events()), model, asked, usage, total, await store.last_step())


def status_of(events: Sequence[Event]) -> str:
    """Status of the last run of a session; ``open`` when it has not ended."""
    runs = [event for event in events if event.kind in ("working", "ended")]
    return str(runs[-1].body.get("status", "open")) if runs and runs[-1].kind == "ended" else "open"


async def read_steps(store: ChunkStore, last: int, redact: Redactor) -> AsyncIterator[Step]:
    """The steps 1 to ``last``."""
    for first in range(1, last + 1, PAGE):
        for chunk in await store.chunks(range(first, min(first + PAGE, last + 1))):
            yield redacted_step(clean_step(chunk.step), redact)


def redacted_step(step: Step, redact: Redactor) -> Step:
    """The step without secrets in any of its texts."""
    return replace(
        step,
        thought=redact(step.thought),
        answer=redact(step.answer),
        question=redact(step.question),
        calls=tuple(ToolCall(call.id, redact(call.name), _arguments(call, redact)) for call in step.calls),
        observations=tuple(_observation(item, redact) for item in step.observations),
    )


def _arguments(call: ToolCall, redact: Redactor) -> dict[str, JsonValue]:
    return {redact(key): redact.json(value) for key, value in call.arguments.items()}


def _observation(item: Observation, redact: Redactor) -> Observation:
    return replace(
        item,
        text=redact(item.text),
        sources=tuple(Source(redact(source.url), redact(source.title)) for source in item.sources),
        refs=tuple(replace(ref, query=redact(ref.query)) for ref in item.refs),
    )

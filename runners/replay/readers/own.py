"""Our own sessions: a session's folder or store, or its ``trajectory.jsonl``."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic import JsonValue as AnyJson

from memory.ingest import clean_step
from memory.records import ChunkRef, ErrorKind, Observation, Source, Step, StepKind, ToolCall
from memory.store.sqlite import SqliteStore
from memory.stored import Question
from runners.errors import UsageFault
from runners.folders import STORE
from runners.replay.recording import Recording


class _Call(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    id: str
    name: str
    arguments: dict[str, AnyJson] = Field(default_factory=dict)


class _Source(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    url: str
    title: str = ""


class _Ref(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    chunk: int
    part: int = 1
    query: str = ""
    last: int = 0


class _Observation(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    call: str = ""
    tool: str
    text: str
    error: ErrorKind | None = None
    sources: list[_Source] = Field(default_factory=list)
    refs: list[_Ref] = Field(default_factory=list)


class _Row(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    step: int
    kind: StepKind = "act"
    task: int = 1
    question: str = ""
    thought: str = ""
    calls: list[_Call] = Field(default_factory=list)
    observations: list[_Observation] = Field(default_factory=list)
    answer: str = ""
    interrupted: bool = False
    created: float = 0.0
    asked: str = ""
    """Of an exported session: the question that the first step of a task worked on."""


def is_session(path: Path) -> bool:
    """Whether a path is a session's folder or store."""
    return (path / STORE).is_file() or (path.suffix == ".sqlite" and path.is_file())


def is_row(value: Mapping[str, object]) -> bool:
    """Whether a line is a step of ours."""
    return "step" in value and "observations" in value


def read_session(path: Path) -> Recording:
    """A session from its store, read only. Raises MemoryFault or UsageFault (nothing in it)."""
    return asyncio.run(_session(path / STORE if path.is_dir() else path))


async def _session(path: Path) -> Recording:
    async with await SqliteStore.open(path, create=False) as store:
        last = await store.last_step()
        if last == 0:
            raise UsageFault(f"{path}: the session has no step yet")
        chunks = await store.chunks(range(1, last + 1))
        questions = await store.questions()
    asked = [q for q in questions if q.from_step <= last]
    return Recording(path.parent.name, "sessions", tuple(chunk.step for chunk in chunks), tuple(asked))


def read_rows(rows: Sequence[tuple[int, object]], where: str) -> Recording | str:
    """A session from the lines of its trajectory file; the first problem as text.

    A trajectory holds its questions only where they were answered (``question``), or were asked (``asked``, of exported
    sessions); a task without either has an empty one.
    """
    steps: list[Step] = []
    asked: dict[int, tuple[int, str]] = {}
    for number, value in rows:
        if isinstance(value, str):
            return value
        try:
            row = _Row.model_validate(value)
        except ValidationError as fault:
            first = fault.errors()[0]
            return f"{where}:{number}: {'.'.join(map(str, first['loc']))}: {first['msg']}"
        if row.step != len(steps) + 1:
            return f"{where}:{number}: step {row.step} does not follow step {len(steps)}"
        steps.append(_step(row))
        start, text = asked.get(row.task, (row.step, ""))
        asked[row.task] = (start, row.asked or text or row.question)
    questions = tuple(Question(task, text, start, 0.0) for task, (start, text) in sorted(asked.items()))
    return Recording(Path(where).resolve().parent.name, "sessions", tuple(steps), questions)


def _step(row: _Row) -> Step:
    calls = tuple(ToolCall(call.id, call.name, call.arguments) for call in row.calls)
    observations = tuple(
        Observation(
            o.call,
            o.tool,
            o.text,
            o.error,
            tuple(Source(s.url, s.title) for s in o.sources),
            tuple(ChunkRef(r.chunk, r.part, r.query, r.last) for r in o.refs),
        )
        for o in row.observations
    )
    texts = (row.kind, row.thought, calls, observations, row.answer, row.question)
    return clean_step(Step(row.step, *texts, row.task, row.created, row.interrupted))

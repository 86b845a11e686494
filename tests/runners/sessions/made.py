"""Sessions made straight in their stores: every kind of step, two questions, an end."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

from memory.chunking import make_chunk
from memory.ingest import clean_step
from memory.records import ChunkRef, Observation, Source, Step, ToolCall, Usage
from memory.store.sqlite import SqliteStore
from memory.stored import Event, Question, UsageRow
from memory.tokens import ScriptCounter
from runners.folders import SessionFolder

QUESTIONS = ("Who built the harbour of Varden?", "And what did it cost?")
START = 1_700_000_000.0


def steps() -> list[Step]:
    """Search, visit, two calls at once, python, a glimpse, a note, an answer; then a second question, open."""
    made = [
        Step(1, thought="look", calls=(ToolCall("s1.0", "search", {"query": "harbour of Varden"}),)),
        Step(2, calls=(ToolCall("s2.0", "visit", {"urls": ["http://a.test/1"]}),)),
        Step(
            3,
            thought="both",
            calls=(
                ToolCall("s3.0", "visit", {"urls": ["http://a.test/2"]}),
                ToolCall("s3.1", "search", {"query": "x"}),
            ),
        ),
        Step(4, thought="count", calls=(ToolCall("s4.0", "python", {"code": "print('汉字', 6 * 7)\nprint(\"a\")"}),)),
        Step(5, calls=(ToolCall("s5.0", "glimpse", {"chunk_id": "c2"}),)),
        Step(6, "note", thought="not a call", observations=(Observation("", "note", "could not be read"),)),
        Step(7, "answer", thought="so", answer="Ada Holm [c2].", question=QUESTIONS[0]),
        Step(8, thought="now the cost", calls=(ToolCall("s8.0", "visit", {"urls": ["http://a.test/3"]}),), task=2),
    ]
    return [clean_step(_seen(step)) for step in made]


def _seen(step: Step) -> Step:
    created = replace(step, created=START + step.number)
    if not step.calls:
        return created
    return replace(created, observations=tuple(_observation(step, call) for call in step.calls))


def _observation(step: Step, call: ToolCall) -> Observation:
    if call.name == "glimpse":
        return Observation(call.id, call.name, "c2 is shown in full below.", refs=(ChunkRef(2, 1, "cost"),))
    if step.number == 8:
        return Observation(call.id, call.name, "no such host", error="network")
    text = f'Result of {call.id}: \U0001f6a2 line one\nline two, </tool> {{}} "quoted" \\ 2000 crowns'
    return Observation(call.id, call.name, text, sources=(Source(f"http://a.test/{step.number}", "A page"),))


async def fill(path: Path, given: list[Step], *, status: str, policy: str = "pace") -> None:
    counter = ScriptCounter()
    async with await SqliteStore.open(path, create=True) as store:
        tree = {"config": {"policy": {"name": policy, "variant": ""}}, "inputs": {"corpus": None, "files": []}}
        await store.set_meta({"settings": json.dumps(tree)})
        for task, text in enumerate(QUESTIONS[: given[-1].task if given else 1], start=1):
            first = next((step.number for step in given if step.task == task), 1)
            await store.add_question(Question(task, text, first, START))
        await store.add_event(Event("working", START, {"task": 1}))
        for step in given:
            usage = UsageRow(step.number, "step", "scripted", Usage(input_total=100, output=10, cost=0.5))
            await store.commit_step(make_chunk(step, counter), [usage])
        if status:
            await store.add_event(Event("ended", START + len(given) + 1, {"status": status, "task": 1}))


def make_session(
    home: Path, name: str, given: list[Step] | None = None, *, status: str = "completed", policy: str = "pace"
) -> SessionFolder:
    """A whole session below ``home``; no ``status``: its last run has not ended."""
    folder = SessionFolder(home / "runs" / name)
    folder.path.mkdir(parents=True)
    asyncio.run(fill(folder.store, steps() if given is None else given, status=status, policy=policy))
    folder.config.write_text("config: {}\n")
    return folder

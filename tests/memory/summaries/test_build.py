"""The worker over a real store."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory.chunking import make_chunk
from memory.records import Level, Observation, Step, ToolCall
from memory.store.sqlite import SqliteStore
from memory.stored import Question
from memory.summaries.build import build_worker, stored_job
from memory.summaries.config import SummaryConfig
from memory.summaries.fakes import ScriptedCompletion
from memory.tokens import ScriptCounter
from tests.memory.summaries.test_worker import ManualClock

FILLER = "It went on in much the same way for quite some time after that. "
COUNTER = ScriptCounter()


def step(number: int) -> Step:
    call = ToolCall(f"s{number}.1", "visit", {"url": f"https://example.org/{number}"})
    text = FILLER * 20 + f"The bridge number {number} was opened in 1987. " + FILLER * 20
    return Step(number, calls=(call,), observations=(Observation(call.id, "visit", text),))


async def test_what_a_crash_left_undone_is_summarised(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "session.db", create=True)
    await store.add_question(Question(1, "When was the bridge opened?", 1, 0.0))
    for number in (1, 2):
        await store.commit_step(make_chunk(step(number), COUNTER))
    assert (await stored_job(store, 2)).question == "When was the bridge opened?"
    worker = build_worker(SummaryConfig(), store, ManualClock(), COUNTER)
    assert worker is not None
    worker.backlog(await store.without_views(before=3))
    assert await worker.drain(60)
    assert await store.without_views(before=3) == []
    views = await store.publish_views(3)
    assert sorted((view.chunk, view.level) for view in views) == [(n, level) for n in (1, 2) for level in (1, 2)]
    assert all("1987" in view.text for view in views)
    full = make_chunk(step(1), COUNTER).tokens_full
    tokens = {view.level: view.tokens for view in views if view.chunk == 1}
    assert tokens[Level.BRIEF] <= tokens[Level.DETAILED] <= full
    await worker.aclose()
    await store.aclose()


async def test_kinds(tmp_path: Path) -> None:
    async with await SqliteStore.open(tmp_path / "session.db", create=True) as store:
        assert build_worker(SummaryConfig(kind="off"), store, ManualClock(), COUNTER) is None
        with pytest.raises(ValueError, match="need a completion"):
            build_worker(SummaryConfig(kind="llm"), store, ManualClock(), COUNTER)
        completion = ScriptedCompletion([])
        worker = build_worker(SummaryConfig(kind="llm"), store, ManualClock(), COUNTER, completion)
        assert worker is not None
        await worker.aclose()
        assert completion.closed

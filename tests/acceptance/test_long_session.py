"""Three hundred steps in one session under a small budget: nothing over it, nothing lost, everything recomputable."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from memory.chunking import full_text, text_hash
from memory.records import Level
from runners.wiring import OpenSession
from tests.acceptance import multihop

STEPS, BUDGET = 300, 16_000


@pytest.mark.timeout(600)
async def test_three_hundred_steps(data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The multi-hop questions asked one after another in one session of 300 steps, 16K budget, default profile,
    summaries in lockstep: every request within the budget, old chunks planned at all four levels before `fit`, a
    glimpse restored a chunk that was compressed, the raw text of every step readable, and every context recomputable
    to its stored hash, also by a process that opens the session anew."""
    settings = multihop.config(f"memory.budget={BUDGET}", "summaries.publish=lockstep")
    folder = tmp_path / "session"
    async with multihop.session(folder, tmp_path, data_dir, settings) as opened:
        statuses = await ask_until(opened, data_dir)
        texts = [full_text(c.step) for c in await opened.store.chunks(range(1, opened.memory.steps + 1))]
    async with multihop.session(folder, tmp_path, data_dir, None) as opened:
        last = opened.memory.steps
        records = await opened.store.plans()
        chunks = await opened.store.chunks(range(1, last + 1))
        again = await opened.memory.rebuild_all()
        restored = await restored_by_glimpse(opened)
    planned = np.sum([record.planned_counts for record in records], axis=0)
    shown = np.sum([record.shown_counts for record in records], axis=0)
    with capsys.disabled():
        print(  # noqa: T201
            f"\n{last} steps, {len(statuses)} questions, largest request {max(r.tokens for r in records)} of {BUDGET}, "
            f"plans over it before fit {sum(r.unfitted_tokens > BUDGET for r in records)}\n"
            f"  old chunks (placeholder, brief, detailed, full): planned {planned.tolist()}, shown {shown.tolist()}\n"
            f"  glimpses that restored a compressed chunk: {len(restored)} {restored[:4]}\n"
            f"  contexts recomputed to their hash: {sum(one.same for one in again)} of {len(again)}"
        )
    assert last >= STEPS
    assert "crashed" not in statuses
    assert [record.step for record in records] == list(range(1, last + 1))
    assert all(0 < record.tokens <= record.budget <= BUDGET for record in records)
    assert (planned > 0).all()
    assert restored
    assert [full_text(chunk.step) for chunk in chunks] == texts
    assert all(text_hash(full_text(chunk.step)) == chunk.content_hash for chunk in chunks)
    assert all(one.same for one in again)
    assert len(again) == last


async def ask_until(opened: OpenSession, data: Path) -> list[str]:
    """The fifty first, then the others in the order of their file, until there are steps enough."""
    first = multihop.chosen(data)
    rest = [asked for asked in multihop.questions(data).values() if asked not in first]
    statuses: list[str] = []
    for asked in [*first, *rest]:
        statuses.append((await opened.session.ask(asked.question)).status)
        if opened.memory.steps >= STEPS:
            break
    return statuses


async def restored_by_glimpse(opened: OpenSession) -> list[str]:
    """``c17 at step 40``: chunks that a context showed below FULL, and the next one in full because of a glimpse."""
    found = []
    for chunk in await opened.store.chunks(range(1, opened.memory.steps)):
        step = chunk.step
        for ref in (ref for item in step.observations for ref in item.refs if not ref.query and not ref.last):
            before = await opened.memory.rebuild(step.number)
            after = await opened.memory.rebuild(step.number + 1)
            compressed = ref.chunk <= len(before.codes) and before.codes[ref.chunk - 1] < Level.FULL
            whole = await opened.memory.recall.expand(ref)
            if compressed and any(whole in message.content for message in after.messages):
                found.append(f"c{ref.chunk} at step {step.number}")
    return found

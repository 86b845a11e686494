"""What a text for a run of steps is made from: whole steps while they fit, coarser views beyond."""

from __future__ import annotations

from pathlib import Path

import pytest

import memory.blocks
from memory.blocks import source_codes, source_texts
from memory.plan import FOLDED
from memory.records import Level
from tests.memory.sessions import open_memory, page, visit_step


@pytest.mark.parametrize(
    ("room", "code", "starts"),
    [
        (60_000, Level.FULL, "### c2 full\n"),
        (4_000, Level.DETAILED, "### c2 detailed\n"),
        (900, Level.BRIEF, "### c2 brief\n"),
        (300, Level.PLACEHOLDER, "### c2 visit "),
    ],
)
async def test_a_long_range_is_taken_at_a_coarser_level(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int, code: Level, starts: str
) -> None:
    monkeypatch.setattr(memory.blocks, "SOURCE_TOKENS", room)
    async with open_memory(tmp_path / "s") as session:
        await session.ask("q?")
        for number in range(1, 15):
            await session.ingest(visit_step(number, page(number)))
            await session.assemble(100_000)
        state, counter = session._state, session._parts.counter
        codes = source_codes(state.index, 2, 12)
        texts = await source_texts(session._given.store, state, counter, 2, 12, 15)
    assert (codes == code).all() and len(texts) == 11
    assert texts[0].startswith(starts)
    assert sum(counter.count(text) for text in texts) <= room


async def test_where_even_lines_are_too_many_the_older_ones_are_one_range(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory.blocks, "SOURCE_TOKENS", 100)
    async with open_memory(tmp_path / "s") as session:
        await session.ask("q?")
        for number in range(1, 15):
            await session.ingest(visit_step(number, page(number)))
        state, counter = session._state, session._parts.counter
        codes = source_codes(state.index, 2, 12)
        texts = await source_texts(session._given.store, state, counter, 2, 12, 15)
    folded = int((codes == FOLDED).sum())
    assert 1 < folded < 11 and len(texts) == 12 - folded
    assert texts[0].startswith(f"### c2-c{1 + folded} ") and texts[-1].startswith("### c12 visit ")

"""Glimpses into a long session: into ranges, of a chunk, by passages, in well under what a person notices."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import pytest

from memory.chunking import make_chunk
from memory.recall import MEMBERS, PARTS, Recall, pages
from memory.records import ChunkRef
from memory.store.sqlite import SqliteStore
from memory.tokens import ScriptCounter
from tests.memory.sessions import page, visit_step
from tests.support.load import slack

COUNTER = ScriptCounter()


async def fill(path: Path, count: int) -> SqliteStore:
    store = await SqliteStore.open(path, create=True)
    texts = [page(seed, 12) for seed in range(16)]
    for number in range(1, count + 1):
        await store.commit_step(make_chunk(visit_step(number, texts[number % 16]), COUNTER))
    return store


async def test_a_long_range_lists_parts_that_can_be_glimpsed(tmp_path: Path) -> None:
    async with await fill(tmp_path / "s", 400) as store:
        recall = Recall(store, COUNTER)
        text = await recall.expand(ChunkRef(1, last=400))
        assert len(text.splitlines()) <= PARTS and text.startswith("### c1-c13 13 steps, from: visit harbours 1")
        short = await recall.expand(ChunkRef(101, last=101 + MEMBERS - 1))
        assert "### c164 visit" in short and short.startswith("### c101 visit orchards 101")


@pytest.mark.parametrize("limit", [60, 700])
def test_pages_join_to_the_text_and_keep_to_the_limit(limit: int) -> None:
    text = "\n".join(page(seed, 9) for seed in range(12)) + "汉" * 900
    parts = pages(text, limit, COUNTER)
    assert "".join(parts) == text and all(COUNTER.count(part) <= limit for part in parts) and len(parts) > 4


@pytest.mark.nightly
@pytest.mark.timeout(900)
async def test_glimpses_into_a_hundred_thousand_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each kind of glimpse under 50 ms (median of nine) from a store of 100,000 steps."""
    async with await fill(tmp_path / "s", 100_000) as store:
        recall = Recall(store, COUNTER)
        kinds = {
            "c101-c164": ChunkRef(101, last=164),
            "c1-c65536": ChunkRef(1, last=65_536),
            "c120": ChunkRef(120),
            "c99120": ChunkRef(99_120),
            "c120 by query": ChunkRef(120, query="glaciers rebuilt in Osk"),
        }
        for name, ref in kinds.items():
            times = []
            for _ in range(9):
                start = time.perf_counter()
                text = await recall.expand(ref)
                times.append((time.perf_counter() - start) * 1000)
            with capsys.disabled():
                print(f"\nglimpse {name}: median {statistics.median(times):.1f} ms, max {max(times):.1f} ms", end="")  # noqa: T201
            assert text and statistics.median(times) < 50 * slack()

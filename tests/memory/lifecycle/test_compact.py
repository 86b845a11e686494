"""Compaction: nothing becomes unreachable but by rule, contexts rebuild, a crash at any point leaves a whole store."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest

from memory.config import MemoryConfig
from memory.errors import StoreCorrupt, StoreFault
from memory.lifecycle.compact import PRODUCER, Compaction
from memory.lifecycle.tombstones import EvictionRule, chosen
from memory.records import ChunkRef, Level, Step
from memory.store.sizes import shrink
from memory.store.sqlite import SqliteStore
from tests.memory.lifecycle import scenes
from tests.memory.lifecycle.scenes import BUDGET, CITED, COMPACT, CONFIG, COPY_OF, EVICT, NEAR_TO, STEPS
from tests.memory.sessions import open_memory


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filled") / "session.sqlite"
    asyncio.run(scenes.fill(path))
    return path


@pytest.fixture
def session(filled: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(filled, tmp_path / "session.sqlite"))


def data(path: Path) -> bytes:
    return path.read_bytes()


async def test_packs_change_nothing_that_is_read(session: Path) -> None:
    texts, same = await scenes.texts_and_hashes(session)
    assert all(same) and len(same) == STEPS + 1
    before = len(data(session))
    report = await scenes.run(session, COMPACT)
    grown = len(data(session))
    assert shrink(session) == grown - len(data(session))
    assert report.packed == STEPS - 10
    assert report.packed_after < 0.5 * report.packed_before
    assert len(data(session)) < before
    assert await scenes.texts_and_hashes(session) == (texts, same)
    async with await SqliteStore.open(session, create=False) as store:
        sizes = await store.sizes()
    assert (sizes.packed_steps, sizes.packs, sizes.evicted_steps) == (STEPS - 10, report.packed_after, 0)
    assert sizes.file == len(data(session)) and sizes.free == 0


async def test_copies_are_named(session: Path) -> None:
    report = await scenes.run(session, COMPACT)
    assert (report.duplicates, report.identical) == (len(COPY_OF) + len(NEAR_TO), len(COPY_OF))
    assert report.tokens_saved > 100 * report.duplicates
    async with open_memory(session, config=CONFIG) as memory:
        assert all(one.same for one in await memory.rebuild_all())
        context = await memory.assemble(BUDGET)
        for number, original in {**COPY_OF, **NEAR_TO}.items():
            said = await memory.recall.view_text(number, Level.DETAILED)
            assert said is not None and f"c{original}" in said, number
            assert "word for word" in said if number in COPY_OF else f"The bridge of step {number}" in said
            assert await memory.recall.view_text(original, Level.DETAILED) != said
            assert scenes.text_of(number) in await memory.recall.full_text(number)
        assert context.tokens <= BUDGET
        await memory.ingest(Step(STEPS + 1, thought="on"))
        await memory.assemble(BUDGET)
        assert all(one.same for one in await memory.rebuild_all())


async def test_again_there_is_nothing_to_do(session: Path) -> None:
    await scenes.run(session, COMPACT)
    again = await scenes.run(session, COMPACT)
    assert (again.packed, again.views_merged, again.evicted) == (0, 0, 0)


@pytest.mark.parametrize("wanted", [COMPACT, EVICT], ids=["pack", "evict"])
async def test_a_dry_run_says_what_would_be_and_does_nothing(session: Path, wanted: Compaction) -> None:
    before = data(session)
    fields = {name: getattr(wanted, name) for name in wanted.__slots__} | {"dry_run": True}
    would = await scenes.run(session, Compaction(**fields))
    assert data(session) == before
    assert asdict(would) == asdict(await scenes.run(session, wanted))


async def test_without_looking_for_copies(session: Path) -> None:
    report = await scenes.run(session, Compaction(hot=10, similar=None))
    assert (report.duplicates, report.views_merged) == (0, 0) and report.packed == STEPS - 10


async def test_evicted_text_is_gone_and_explained(session: Path) -> None:
    report = await scenes.run(session, EVICT)
    shrink(session)
    assert report.evicted == 29 - len({CITED}) and report.kept_without_summary == 0
    raw = data(session)
    async with open_memory(session, config=CONFIG) as memory:
        text = await memory.recall.expand(ChunkRef(8))
        assert "removed on 2027-01-15 under the rule 'steps before 30'" in text and "gone for good" in text
        assert "http://corpus.local/8" in text
        assert "What was kept of it" in await memory.recall.expand(ChunkRef(8, query="cost of orchards"))
        said = await memory.recall.view_text(8, Level.DETAILED)
        assert said is not None and said in text
        # a copy keeps the summary of what it saw, not the remark that it is a copy
        assert PRODUCER not in text and "word for word" not in await memory.recall.expand(ChunkRef(21))
        assert scenes.text_of(CITED) in await memory.recall.full_text(CITED)
        assert scenes.text_of(35) in await memory.recall.full_text(35)
        for chunk in [await memory.recall.chunk(number) for number in range(1, STEPS + 1)]:
            assert chunk.tokens_full >= chunk.tokens_placeholder
        context = await memory.assemble(BUDGET)
        assert context.tokens <= BUDGET
        # the ones that showed a whole text which is gone, and no others
        assert tuple(one.record.step for one in await memory.rebuild_all() if not one.same) == report.lost_contexts
    assert 0 < len(report.lost_contexts) < STEPS
    sentence = scenes.text_of(8)[-60:]
    assert sentence.encode() not in raw and sentence not in text
    async with await SqliteStore.open(session, create=False) as store:
        stones = await store.tombstones()
    assert [stone.chunk for stone in stones] == [n for n in range(1, 30) if n != CITED]
    assert sum(stone.chars for stone in stones) == report.evicted_chars


async def test_evicting_what_is_packed_takes_it_out_of_its_pack(session: Path) -> None:
    await scenes.run(session, COMPACT)
    texts, _ = await scenes.texts_and_hashes(session)
    async with await SqliteStore.open(session, create=False) as store:
        before = await store.sizes()
    await scenes.run(session, EVICT)
    async with await SqliteStore.open(session, create=False) as store:
        after = await store.sizes()
    assert after.packed_text < 0.6 * before.packed_text and after.evicted_steps == 28
    again, _ = await scenes.texts_and_hashes(session)
    assert again[29:] == texts[29:] and again[CITED - 1] == texts[CITED - 1] and again[4] != texts[4]


LEDGER = MemoryConfig(budget=BUDGET, layout="ledger")


@pytest.mark.parametrize(
    ("policy", "config"), [("mosaic", LEDGER), ("summary-rolling", CONFIG), ("keep-last-k", CONFIG)]
)
async def test_under_other_policies_and_layouts(tmp_path: Path, policy: str, config: MemoryConfig) -> None:
    session = tmp_path / "session.sqlite"
    await scenes.fill(session, policy, config)
    before = await scenes.texts_and_hashes(session, policy, config)
    await scenes.run(session, COMPACT)
    assert await scenes.texts_and_hashes(session, policy, config) == before
    report = await scenes.run(session, EVICT)
    assert report.evicted > 20
    _, same = await scenes.texts_and_hashes(session, policy, config)
    assert tuple(step for step, good in enumerate(same, start=1) if not good) == report.lost_contexts
    async with open_memory(session, policy=policy, config=config) as memory:
        assert (await memory.assemble(BUDGET)).tokens <= BUDGET


def test_what_a_rule_chooses() -> None:
    sizes = [(1, 5000), (2, 100), (3, 5000), (4, 5000), (5, 5000)]
    none: frozenset[int] = frozenset()
    assert chosen(EvictionRule(before_step=4), sizes, none) == [1, 3]
    assert chosen(EvictionRule(before_step=4), sizes, frozenset({1})) == [3]
    assert chosen(EvictionRule(to_chars=10_200), sizes, none) == [1, 3]
    assert chosen(EvictionRule(to_chars=10_200), sizes, frozenset({3})) == [1, 4]
    assert chosen(EvictionRule(before_step=2, to_chars=10_200), sizes, none) == [1, 3]
    assert chosen(EvictionRule(to_chars=10**9), sizes, none) == []
    assert chosen(EvictionRule(to_chars=0), sizes, none) == [1, 3, 4, 5]


async def test_raw_steps_are_still_kept_by_the_store_itself(session: Path) -> None:
    """Neither an update nor a deletion gets past the triggers, but for a step that is packed or has a tombstone."""
    await scenes.run(session, COMPACT)
    async with await SqliteStore.open(session, create=False) as store:
        for statement in (
            "UPDATE steps SET observations = '' WHERE number = 55",
            "UPDATE steps SET observations = '[]' WHERE number = 5",
            "UPDATE steps SET thought = '' WHERE number = 5",
            "DELETE FROM steps WHERE number = 5",
        ):
            with pytest.raises(StoreFault, match="never"):
                await store._write(lambda c, s=statement: c.execute(s))


async def test_a_damaged_pack_is_named(session: Path) -> None:
    await scenes.run(session, COMPACT)
    async with await SqliteStore.open(session, create=False) as store:
        await store._write(lambda c: c.execute("UPDATE packs SET body = SUBSTR(body, 1, LENGTH(body) - 9)"))
        with pytest.raises(StoreCorrupt, match="pack"):
            await store.chunks([5])
        await store._write(lambda c: c.execute("DELETE FROM packed WHERE chunk = 5"))
        with pytest.raises(StoreCorrupt, match="c5"):
            await store.chunks([5])
        assert (await store.chunks([STEPS]))[0].step.number == STEPS


class Crash(BaseException):
    """What a kill looks like from inside."""


@pytest.mark.parametrize("name", ["add_views", "evict", "pack"])
@pytest.mark.parametrize("stage", ["begun", "written", "committed"])
async def test_a_crash_anywhere_leaves_a_whole_store(session: Path, name: str, stage: str) -> None:
    """And the next compaction ends where an undisturbed one does."""
    whole = Path(shutil.copy(session, session.with_name("whole.sqlite")))
    await scenes.run(whole, EVICT)
    expected, _ = await scenes.texts_and_hashes(whole)

    class Faults:
        def at(self, point: str) -> None:
            if point == f"{name}:{stage}":
                raise Crash

    texts, _ = await scenes.texts_and_hashes(session)
    store = await SqliteStore.open(session, create=False, faults=Faults())
    with pytest.raises(Crash):
        await scenes.compact(store, EVICT, scenes.COUNTER, scenes.FakeClock(1_800_000_000.0))
    await store.aclose()
    between, _ = await scenes.texts_and_hashes(session)
    assert all(now in (before, after) for now, before, after in zip(between, texts, expected, strict=True))
    await scenes.run(session, EVICT)
    assert await scenes.texts_and_hashes(session) == await scenes.texts_and_hashes(whole)

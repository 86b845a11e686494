"""What goes in comes out equal, after the file was closed and opened again."""

from __future__ import annotations

import asyncio
import dataclasses
import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory.errors import StoreFault
from memory.ports import ChunkStore
from memory.records import Level, Observation, Step, Usage
from memory.store.codec import changed_in, changed_out, long_in, text_out
from memory.store.sqlite import SqliteStore
from memory.store.sqlstore import SqlStore
from memory.stored import ChunkFacts, Event, Intent, KeyRows, PlanRecord, Question, UsageRow
from tests.memory.store import build, strategies
from tests.memory.store.places import Place

T = TypeVar("T")
few = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def conforms(store: SqlStore) -> ChunkStore:
    """The type checker's proof that the port is met."""
    return store


def through(place: Place, write: Callable[[SqlStore], Awaitable[None]], read: Callable[[SqlStore], Awaitable[T]]) -> T:
    async def run() -> T:
        async with await place.open() as store:
            await write(store)
        async with await place.open(create=False) as store:
            return await read(store)

    return asyncio.run(run())


@few
@given(strategies.chunks(1), strategies.chunks(2), st.lists(strategies.usage_rows, max_size=2))
def test_chunks_usage_and_facts(new_place, one, two, usage):
    async def write(store):
        await store.commit_step(one, usage)
        await store.commit_step(two)

    async def read(store):
        return await store.chunks([2, 1, 2]), await store.usage(), await store.facts(), await store.facts(after=1)

    chunks, rows, facts, later = through(new_place(), write, read)
    assert chunks == [two, one, two]
    assert rows == usage
    assert later == facts[1:]
    assert facts == [expected_facts(one), expected_facts(two)]


def expected_facts(chunk):
    source = chunk.step.source
    return ChunkFacts(
        number=chunk.step.number,
        kind=chunk.step.kind,
        tools=tuple(call.name for call in chunk.step.calls),
        placeholder=chunk.placeholder,
        tokens_full=chunk.tokens_full,
        tokens_placeholder=chunk.tokens_placeholder,
        content_hash=chunk.content_hash,
        source_url=source.url if source else "",
        source_title=source.title if source else "",
    )


@few
@given(strategies.views(1), strategies.plans, strategies.intents, strategies.questions, strategies.events)
def test_views_plans_intents_questions_events(new_place, view, plan, intent, question, event):
    later = dataclasses.replace(intent, step=dataclasses.replace(intent.step, number=2))

    async def write(store):
        await store.begin_step(intent)
        assert await store.pending_intent() == intent
        await store.commit_step(build.chunk(1))
        assert await store.pending_intent() is None
        await store.begin_step(later)
        await store.add_views([view])
        await store.add_plan(plan)
        await store.add_question(question)
        await store.add_event(event)
        await store.add_event(event)

    async def read(store):
        return (
            await store.views([1]),
            await store.plans(first=0),
            await store.pending_intent(),
            await store.questions(),
            await store.events(),
        )

    assert through(new_place(), write, read) == ([view], [plan], later, [question], [event, event])


@few
@given(strategies.key_rows(), st.dictionaries(strategies.texts, strategies.texts, max_size=3))
def test_keys_and_meta(new_place, rows: KeyRows, values):
    async def write(store):
        await store.commit_step(build.chunk(1))
        await store.commit_step(build.chunk(2))
        await store.add_keys(rows)
        await store.set_meta(values)

    async def read(store):
        return await store.keys(rows.encoder_id), {key: await store.meta(key) for key in values}

    found, meta = through(new_place(), write, read)
    assert meta == values
    assert found.encoder_id == rows.encoder_id
    assert found.numbers.tolist() == rows.numbers.tolist()
    assert found.published.tolist() == rows.published.tolist()
    # Bytes, not values: NaN keys come back as they were.
    assert found.matrix.tobytes() == rows.matrix.tobytes()
    if len(rows.numbers):
        assert found.matrix.shape == rows.matrix.shape


@given(st.lists(st.tuples(strategies.ints, strategies.ints)).map(tuple))
def test_changed_is_exact(changed):
    assert changed_out(changed_in(changed)) == changed


def test_changed_is_small():
    everything = tuple((chunk, chunk % 4) for chunk in range(1, 10_001))
    assert len(changed_in(everything)) < 2_000
    assert len(changed_in(((500, 1), (700, -1)))) < 60


async def test_nan_of_a_plan_stays_nan_and_of_a_cost_is_unknown(place):
    plan = PlanRecord(
        1, "pace", 1, 1, 1, 1, 1, 1, None, 1, math.nan, None, (), *[(0, 0, 0, 0)] * 3, math.nan, 0.0, b"", "", "", 1
    )
    async with await place.open() as store:
        await store.add_plan(plan)
        await store.add_usage(UsageRow(1, "step", "m", Usage(cost=math.nan)))
        (found,) = await store.plans()
        assert math.isnan(found.pressure)
        assert math.isnan(found.cosine_mean)
        assert (await store.usage())[0].usage.cost is None


def _deep() -> list[object]:
    value: list[object] = []
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.parametrize(
    "arguments", [{"x": {1, 2}}, {"x": _deep()}, {"x": 10**5000}], ids=["a set", "deep nesting", "a huge integer"]
)
async def test_what_cannot_be_stored_is_refused_and_leaves_no_trace(place, arguments):
    from memory.records import ToolCall

    bad = dataclasses.replace(build.chunk(1), step=Step(1, calls=(ToolCall("s1.0", "t", arguments),)))
    async with await place.open() as store:
        with pytest.raises(StoreFault):
            await store.commit_step(bad)
        assert await store.last_step() == 0
        await store.commit_step(build.chunk(1))


async def test_an_integer_beyond_a_column_is_refused(place):
    async with await place.open() as store:
        with pytest.raises(StoreFault):
            await store.add_question(Question(2**63, "?", 1, 0.0))
        with pytest.raises(StoreFault):
            await store.add_event(Event("x", math.nan))


async def test_readable_by_any_tool(tmp_path):
    """Ordinary text, CJK included, is TEXT in the file; only lone surrogates are bytes."""
    async with await SqliteStore.open(tmp_path / "s.db", create=True) as store:
        await store.commit_step(build.chunk(1, "東京 and 'quotes'"))
        await store.begin_step(Intent(Step(2, observations=(Observation("a", "t", "\ud800"),)), 0.0))
        kinds = await store._read(
            lambda c: c.execute("SELECT typeof(observations), instr(observations, '東京') FROM steps").fetchall()
        )
        assert kinds[0][0] == "text"
        assert kinds[0][1] > 0
        assert await store._read(lambda c: c.execute("SELECT typeof(body) FROM intents").fetchone()) == ("blob",)


async def test_keys_load_in_order(place):
    count, dim = 60, 8
    matrix = np.random.default_rng(0).standard_normal((count, dim)).astype(np.float32)
    async with await place.open() as store:
        for number in range(1, count + 1):
            await store.commit_step(build.chunk(number))
        order = np.random.default_rng(1).permutation(count)
        numbers = np.arange(1, count + 1)
        for part in np.array_split(order, 5):
            await store.add_keys(KeyRows("e", numbers[part], matrix[part], numbers[part]))
        found = await store.keys("e")
        assert found.numbers.tolist() == numbers.tolist()
        assert np.array_equal(found.matrix, matrix)
        assert found.matrix.flags.c_contiguous


@given(strategies.texts, st.integers(0, 400))
def test_long_text_is_exact_too(text, times):
    assert text_out(long_in(text * times)) == text * times


def test_long_text_is_deflated_where_that_pays():
    assert len(long_in("The same words again. " * 100)) < 500
    noise = np.random.default_rng(0).integers(33, 126, 2000).astype(np.uint8).tobytes().decode()
    assert len(long_in(noise)) <= len(noise)
    assert long_in("short") == "short"


def test_levels_are_what_the_schema_expects():
    assert [int(level) for level in Level] == [0, 1, 2, 3]

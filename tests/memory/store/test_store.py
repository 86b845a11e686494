"""The rules of the store: order, immutability, idempotence, publication."""

from __future__ import annotations

import asyncio
import dataclasses
import sqlite3
import threading
from contextlib import closing

import numpy as np
import pytest

from memory.errors import NotStored, StoreFault
from memory.records import Level, Step
from memory.store.postgres import PostgresStore
from memory.stored import Intent, KeyRows
from tests.memory.store.build import chunk, view


@pytest.fixture
async def store(place):
    async with await place.open() as store:
        yield store


async def test_an_empty_store(store):
    assert await store.last_step() == 0
    assert await store.pending_intent() is None
    assert await store.facts() == []
    assert await store.views([1, 2]) == []
    assert await store.publish_views(1) == []
    assert await store.without_views(before=10) == []
    keys = await store.keys("unknown")
    assert keys.matrix.shape == (0, 0)
    assert await store.meta("x") is None


@pytest.mark.parametrize("number", [0, 2, 3, -1])
async def test_steps_come_in_order(store, number):
    with pytest.raises(StoreFault, match="the next one is 1"):
        await store.commit_step(chunk(number))
    with pytest.raises(StoreFault, match="the next one is 1"):
        await store.begin_step(Intent(Step(number), 0.0))


async def test_a_step_is_committed_once(store):
    await store.commit_step(chunk(1))
    with pytest.raises(StoreFault):
        await store.commit_step(chunk(1, "other"))
    assert (await store.chunks([1]))[0] == chunk(1)


async def by_hand(store, statement):
    if isinstance(store, PostgresStore):
        await store._database.write(lambda c: c.execute(statement))
    else:
        with closing(sqlite3.connect(store.path)) as connection:
            connection.execute(statement)


COPY = "INTO steps SELECT {}, kind, 'x', calls, observations, answer, question, task, created, interrupted FROM steps"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE steps SET thought = 'x'",
        "DELETE FROM steps",
        "INSERT OR REPLACE " + COPY.format("number"),
        "INSERT " + COPY.format("7"),
    ],
)
async def test_raw_text_cannot_change_even_by_hand(store, statement):
    await store.commit_step(chunk(1))
    if isinstance(store, PostgresStore) and "OR REPLACE" in statement:
        pytest.skip("there is no such statement")
    with pytest.raises((sqlite3.IntegrityError, StoreFault), match=r"raw steps are never|appended in order"):
        await by_hand(store, statement)
    assert await store.chunks([1]) == [chunk(1)]


async def test_an_intent_is_replaced_and_answered(store):
    await store.begin_step(Intent(Step(1, thought="first"), 1.0))
    await store.begin_step(Intent(Step(1, thought="second"), 2.0))
    assert (await store.pending_intent()).step.thought == "second"
    await store.commit_step(chunk(1))
    assert await store.pending_intent() is None


@pytest.mark.parametrize("numbers", [[2], [0], [1, 99], [-1], [10**30]])
async def test_unknown_chunks(store, numbers):
    await store.commit_step(chunk(1))
    with pytest.raises(NotStored):
        await store.chunks(numbers)


async def test_views_are_upserts_until_published(store):
    await store.commit_step(chunk(1))
    await store.add_views([view(1, text="early")])
    await store.add_views([view(1, text="again")])
    assert await store.views([1]) == []
    published = await store.publish_views(3)
    assert published == [view(1, step=3, text="again")]
    await store.add_views([view(1, text="late")])
    await store.add_views([view(1, text="late", step=9)])
    assert await store.views([1]) == published
    assert await store.publish_views(4) == []


async def test_views_of_an_unknown_chunk_and_the_rest_of_the_batch(store):
    await store.commit_step(chunk(1))
    with pytest.raises(NotStored):
        await store.add_views([view(1), view(2)])
    assert await store.publish_views(2) == []


async def test_the_newest_version_visible_at_a_step(store):
    for number in (1, 2):
        await store.commit_step(chunk(number))
    late = view(1, version=1, step=8)
    await store.add_views(
        [view(1, version=2, step=5), late, view(1, Level.DETAILED, step=6), view(2, version=3, step=7)]
    )
    visible = {
        step: [(v.chunk, v.level, v.version) for v in await store.views([2, 1, 1], at_step=step)] for step in (4, 5, 7)
    }
    assert visible == {4: [], 5: [(1, 1, 2)], 7: [(1, 1, 2), (1, 2, 1), (2, 1, 3)]}
    # Version 1 came out after version 2: it never displaces it, and the list that a session loads says the same.
    assert [(v.chunk, v.level, v.version) for v in await store.views([1])] == [(1, 1, 2), (1, 2, 1)]
    tokens = await store.view_tokens()
    assert tokens == [(1, 1, 10, 8, None), (1, 1, 20, 5, None), (1, 2, 10, 6, None), (2, 1, 30, 7, None)]
    assert all(isinstance(entry[1], Level) for entry in tokens)


async def test_publication_up_to_a_chunk(store):
    for number in (1, 2, 3):
        await store.commit_step(chunk(number))
    await store.add_views([view(3), view(1), view(2)])
    assert [v.chunk for v in await store.publish_views(4, up_to_chunk=2)] == [1, 2]
    assert [v.chunk for v in await store.publish_views(5)] == [3]
    assert [entry[3] for entry in await store.view_tokens()] == [4, 4, 5]


async def test_chunks_without_views(store):
    for number in range(1, 6):
        await store.commit_step(chunk(number))
    await store.add_views([view(2), view(4, Level.DETAILED, step=5)])
    assert await store.without_views(before=5) == [1, 3]


async def test_keys_of_encoders_are_kept_apart(store):
    for number in (1, 2):
        await store.commit_step(chunk(number))
    one = KeyRows("a", np.array([1, 2]), np.eye(2, 3, dtype=np.float32), np.array([2, 3]))
    await store.add_keys(one)
    await store.add_keys(KeyRows("b", np.array([2]), np.ones((1, 5), np.float32), np.array([3])))
    again = KeyRows("a", np.array([1]), np.full((1, 3), 9, np.float32), np.array([9]))
    await store.add_keys(again)
    found = await store.keys("a")
    assert np.array_equal(found.matrix, one.matrix)
    assert found.published.tolist() == [2, 3]
    assert (await store.keys("b")).matrix.shape == (1, 5)
    with pytest.raises(StoreFault, match="3 dimensions before, 4 now"):
        await store.add_keys(KeyRows("a", np.array([2]), np.ones((1, 4), np.float32), np.array([3])))
    with pytest.raises(StoreFault, match="differ in length"):
        await store.add_keys(KeyRows("a", np.array([1, 2]), np.ones((1, 3), np.float32), np.array([3])))
    with pytest.raises(NotStored):
        await store.add_keys(KeyRows("a", np.array([3]), np.ones((1, 3), np.float32), np.array([3])))


async def test_numpy_integers_may_ask(store):
    await store.commit_step(chunk(1))
    await store.add_views([view(1, step=1)])
    assert len(await store.chunks(np.array([1]))) == len(await store.views(np.array([1]))) == 1


async def test_a_cancelled_writer_has_written(store):
    """Cancellation waits for the outcome; there is no half a transaction and none that comes later."""
    held, go = threading.Event(), threading.Event()

    def slow(_):
        held.set()
        go.wait()

    blocker = asyncio.create_task(store._write(slow))
    await asyncio.to_thread(held.wait)
    commit = asyncio.create_task(store.commit_step(chunk(1)))
    await asyncio.sleep(0)
    commit.cancel()
    await asyncio.sleep(0)
    assert not commit.done()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await commit
    await blocker
    assert await store.last_step() == 1


async def test_a_failing_transaction_leaves_nothing(store):
    def fails(connection):
        connection.execute("INSERT INTO meta VALUES ('half', 'x')")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await store._write(fails)
    assert await store.meta("half") is None
    await store.set_meta({"whole": "x"})


async def test_reading_goes_on_while_a_write_is_under_way(store):
    await store.commit_step(chunk(1))
    held, go = threading.Event(), threading.Event()

    def slow(connection):
        connection.execute("INSERT INTO meta VALUES ('later', 'x')")
        held.set()
        go.wait()

    writing = asyncio.create_task(store._write(slow))
    await asyncio.to_thread(held.wait)
    assert await store.last_step() == 1
    assert await store.meta("later") is None
    go.set()
    await writing
    assert await store.meta("later") == "x"


async def test_readers_cannot_write(store):
    with pytest.raises(StoreFault):
        await store._read(lambda c: c.execute("INSERT INTO meta VALUES ('x', 'y')"))


async def test_nothing_waits_for_ever_at_the_end(place):
    store = await place.open()
    writes = [asyncio.create_task(store.set_meta({f"k{i}": "v"})) for i in range(50)]
    await asyncio.sleep(0)
    await store.aclose()
    await asyncio.gather(*writes)
    await store.aclose()
    with pytest.raises(StoreFault, match="closed"):
        await store.last_step()
    with pytest.raises(StoreFault, match="closed"):
        await store.set_meta({"x": "y"})
    async with await place.open(create=False) as again:
        assert [await again.meta(f"k{i}") for i in range(50)] == ["v"] * 50


async def test_a_plan_may_be_replaced_until_its_step_is_committed(store):
    from memory.stored import PlanRecord

    plan = PlanRecord(
        1, "pace", 1, 1, 1, 1, 1, 1, None, 1, 0.0, None, (), *[(0, 0, 0, 0)] * 3, 0.0, 0.0, b"", "", "", 1
    )
    await store.add_plan(plan)
    smaller = dataclasses.replace(plan, budget=2)
    await store.add_plan(smaller)
    await store.commit_step(chunk(1))
    with pytest.raises(StoreFault):
        await store.add_plan(plan)
    await store.add_plan(dataclasses.replace(plan, step=2))
    assert [p.budget for p in await store.plans()] == [2, 1]
    assert await store.plans(first=2, last=2) == (await store.plans())[1:]


async def test_a_batch_of_views_is_taken_in_order(store):
    """The last of several with one key counts, until one is published."""
    await store.commit_step(chunk(1))
    await store.add_views([view(1, text="a"), view(1, text="b")])
    assert [v.text for v in await store.publish_views(3)] == ["b"]
    await store.add_views([view(1, version=2, step=4, text="shown"), view(1, version=2, text="late")])
    assert [v.text for v in await store.views([1])] == ["shown"]


async def test_sessions_beside_each_other_do_not_mix(store, place):
    async with await place.other("beside").open() as other:
        await store.commit_step(chunk(1, "here"))
        await other.commit_step(chunk(1, "there"))
        await other.commit_step(chunk(2, "there"))
        await other.add_views([view(2)])
        await store.set_meta({"x": "here"})
        assert (await store.last_step(), await other.last_step()) == (1, 2)
        assert await store.chunks([1]) == [chunk(1, "here")]
        assert await other.meta("x") is None
        assert await store.publish_views(5) == []
        with pytest.raises(NotStored):
            await store.add_views([view(2)])
        assert (await store.sizes()).steps == 1

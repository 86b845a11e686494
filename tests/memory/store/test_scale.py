"""Long sessions stay cheap: query plans, figures that must not grow with the session, the loop never blocked."""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from memory.records import SUMMARY_LEVELS
from memory.store import reads, writes
from memory.store.sqlite import SqliteStore
from memory.stored import KeyRows
from tests.memory.store.build import chunk, view

LONG = 20_000


@pytest.fixture(scope="module")
def long_session(tmp_path_factory):
    """A session of 20,000 steps with views and keys, written in one transaction."""
    path = tmp_path_factory.mktemp("long") / "s.db"
    keys = np.random.default_rng(0).standard_normal((LONG, 64)).astype(np.float32)
    numbers = np.arange(1, LONG + 1)

    def fill(connection):
        for number in range(1, LONG + 1):
            writes.commit_step(connection, chunk(number, "text " * 40), ())
        published = [view(n, level, step=n + 2) for n in range(1, LONG - 10) for level in SUMMARY_LEVELS]
        writes.add_views(connection, published)
        writes.add_keys(connection, KeyRows("e", numbers, keys, numbers))

    async def write():
        async with await SqliteStore.open(path, create=True) as store:
            await store._write(fill)

    asyncio.run(write())
    return path


async def test_opening_a_long_session(long_session):
    """Half a second for its facts; measured at 0.2 s with another load on the machine."""
    async with await SqliteStore.open(long_session, create=False) as store:
        started = time.process_time()
        facts = await store.facts()
        seconds = time.process_time() - started
        assert len(facts) == LONG
        assert seconds < 0.5
        tokens = await store.view_tokens()
        assert len(tokens) == 2 * (LONG - 11)
        assert await store.without_views(before=LONG - 5) == list(range(LONG - 10, LONG - 5))
        assert (await store.keys("e")).matrix.shape == (LONG, 64)


async def test_query_plans(long_session):
    """What runs at every step, or loads a session, reads no table from end to end but the one that it returns."""
    wanted = {
        "last_step": "SEARCH steps",
        "publish_views": "SEARCH views USING INDEX views_unpublished",
        "view_tokens": "SCAN views USING COVERING INDEX views_published",
        "views": "SEARCH views USING INDEX",
        "facts": "SEARCH chunks USING INTEGER PRIMARY KEY",
        "keys": "SEARCH keys USING INDEX",
        "key_numbers": "SEARCH keys USING COVERING INDEX",
        "some_keys": "SEARCH keys USING INDEX",
        "changes": "SEARCH plans USING INTEGER PRIMARY KEY",
        "without_views": "SEARCH views USING COVERING INDEX",
    }
    calls = {
        "last_step": reads.last_step,
        "publish_views": lambda c: writes.publish_views(c, LONG + 1, None),
        "view_tokens": reads.view_tokens,
        "views": lambda c: reads.views(c, [5, 7], 100),
        "facts": lambda c: reads.facts(c, LONG - 5, None),
        "keys": lambda c: reads.keys(c, "e"),
        "key_numbers": lambda c: reads.key_numbers(c, "e"),
        "some_keys": lambda c: reads.keys(c, "e", [3, 9]),
        "changes": lambda c: reads.changes(c, LONG - 5),
        "without_views": lambda c: reads.without_views(c, LONG),
    }
    async with await SqliteStore.open(long_session, create=False) as store:
        for name, call in calls.items():
            plan = await store._write(lambda c, f=call: explain(c, f))
            assert wanted[name] in plan, plan
            assert "TEMP B-TREE" not in plan, plan


def explain(connection, work):
    """The query plans of every statement that ``work`` runs."""
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    work(connection)
    connection.set_trace_callback(None)
    asked = [s for s in dict.fromkeys(statements) if s.startswith(("SELECT", "UPDATE"))]
    return "\n".join(row[3] for s in asked for row in connection.execute("EXPLAIN QUERY PLAN " + s))


async def test_a_step_costs_the_same_late_as_early(long_session, tmp_path):
    """Virtual machine instructions of one whole step: a figure of the work, not of the machine."""

    async def work(path, number):
        async with await SqliteStore.open(path, create=False) as store:
            counted = [0]

            def tick():
                counted[0] += 1

            await store._write(lambda c: c.set_progress_handler(tick, 1))
            await store.commit_step(chunk(number))
            await store.add_views([view(number)])
            await store.publish_views(number + 1)
            await store.add_keys(KeyRows("e", np.array([number]), np.ones((1, 64), np.float32), np.array([number])))
            await store._write(lambda c: c.set_progress_handler(None, 1))
            return counted[0]

    short = tmp_path / "short.db"
    async with await SqliteStore.open(short, create=True) as store:
        for number in range(1, 10):
            await store.commit_step(chunk(number))
    early, late = await work(short, 10), await work(long_session, LONG + 1)
    assert late < 1.5 * early


async def test_size_on_disk(tmp_path):
    """At most 1.3 times text and vectors, for steps of a few KB."""
    path = tmp_path / "s.db"
    sizes = np.random.default_rng(1).exponential(3000, 600).astype(int) + 50
    words = [f"word{number}" for number in range(3000)]
    pick = random.Random(2)
    numbers = np.arange(1, 601)

    def fill(connection):
        for number, size in enumerate(sizes.tolist(), start=1):
            text = " ".join(pick.choices(words, k=size // 9)).ljust(size)
            writes.commit_step(connection, chunk(number, text), ())
            writes.add_views(connection, [view(number, level, text="y" * 300 * int(level)) for level in SUMMARY_LEVELS])
        writes.add_keys(connection, KeyRows("e", numbers, np.ones((600, 256), np.float32), numbers))

    async with await SqliteStore.open(path, create=True) as store:
        await store._write(fill)
    content = int(sizes.sum()) + 600 * (300 + 600 + 256 * 4)
    assert path.stat().st_size <= 1.3 * content


async def test_the_loop_goes_on_while_the_store_works(place):
    """A write that hangs, and reads behind it, leave the event loop free."""
    async with await place.open() as store:
        release = threading.Event()
        hanging = [asyncio.create_task(store._write(lambda _: release.wait()))]
        hanging += [asyncio.create_task(store._read(lambda _: release.wait())) for _ in range(4)]
        for _ in range(100):
            await asyncio.sleep(0)
        assert not any(task.done() for task in hanging)
        release.set()
        await asyncio.gather(*hanging)


def descriptors() -> int:
    folder = Path("/proc/self/fd")
    if not folder.is_dir():
        pytest.skip("needs /proc")
    return len(list(folder.iterdir()))


async def test_descriptors_and_threads_do_not_grow(place):
    async def session():
        async with await place.open() as store:
            await asyncio.gather(*(store.last_step() for _ in range(8)))
            await store.set_meta({"x": "y"})

    await session()
    before = descriptors(), threading.active_count()
    for _ in range(30):
        await session()
    # The loop's default threads, which close a store, start one by one up to their own limit.
    assert descriptors() == before[0]
    assert threading.active_count() <= before[1] + (os.cpu_count() or 1) + 4

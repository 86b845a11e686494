"""The background worker: never waited for, never silent, never losing."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence

import pytest

from memory.records import View
from memory.summaries.base import Summariser, SummaryJob
from memory.summaries.config import SummaryConfig
from memory.summaries.fakes import FakeSummariser
from memory.summaries.process import ExtractiveSummariser
from memory.summaries.worker import SummaryWorker


class ManualClock:
    """Stands still until told."""

    def __init__(self) -> None:
        self.now = 0.0

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now


class Store:
    """Keeps views; can refuse a number of writes."""

    def __init__(self, refusals: int = 0) -> None:
        self.views: list[View] = []
        self.loaded: list[int] = []
        self.refusals = refusals

    async def add(self, views: Sequence[View]) -> None:
        if self.refusals:
            self.refusals -= 1
            raise OSError("no room")
        self.views.extend(views)

    async def load(self, number: int) -> SummaryJob:
        self.loaded.append(number)
        return job(number)

    @property
    def chunks(self) -> list[int]:
        return sorted({view.chunk for view in self.views})


def job(number: int) -> SummaryJob:
    return SummaryJob(number, f"text of {number}", "q", 50)


def worker(
    summariser: Summariser, store: Store, clock: ManualClock | None = None, chars: int = 10**6, **values: object
) -> SummaryWorker:
    config = SummaryConfig.model_validate({"kind": "llm", "backoff_s": 0, **values})
    return SummaryWorker(summariser, store.add, store.load, config, clock or ManualClock(), queue_chars=chars)


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    yield Store()


async def test_thousand_jobs_with_room_for_few(store: Store) -> None:
    made = worker(FakeSummariser(), store, chars=1_000, concurrency=4)
    for number in range(1, 1001):
        made.submit(job(number))
        made.submit(job(number))
    assert made.pending == 1000
    assert await made.drain(30)
    assert (made.pending, made.made, len(store.views)) == (0, 1000, 2000)
    assert store.chunks == list(range(1, 1001))
    assert len(store.loaded) > 800
    assert not made.failures
    await made.aclose()


async def test_backlog_is_read_from_the_store(store: Store) -> None:
    made = worker(FakeSummariser(), store)
    made.backlog([3, 4])
    assert await made.drain(5)
    assert store.loaded == [3, 4]
    await made.aclose()


async def test_a_rejected_summary_is_tried_again(store: Store) -> None:
    made = worker(FakeSummariser(rejected={2: 2}), store, attempts=3)
    for number in (1, 2, 3):
        made.submit(job(number))
    assert await made.drain(5)
    assert store.chunks == [1, 2, 3]
    assert [(f.chunk, f.attempt, f.final) for f in made.failures] == [(2, 1, False), (2, 2, False)]
    assert "rejected: told to" in made.failures[0].error
    await made.aclose()


async def test_and_given_up_at_last(store: Store) -> None:
    summariser = FakeSummariser(rejected={2: 99})
    made = worker(summariser, store, attempts=2)
    made.submit(job(2))
    await made.wait_for([2])
    assert made.failed == {2}
    assert made.failures[-1].final
    assert summariser.asked == [2, 2]
    assert store.views == []
    await made.aclose()


async def test_backoff_lets_others_pass(store: Store) -> None:
    clock, summariser = ManualClock(), FakeSummariser(rejected={1: 1})
    made = worker(summariser, store, clock, backoff_s=10, concurrency=1)
    made.submit(job(1))
    made.submit(job(2))
    await made.wait_for([2])
    assert summariser.asked == [1, 2]
    assert made.pending == 1
    clock.now = 10
    made.submit(job(3))
    await made.wait_for([1, 3])
    assert store.chunks == [1, 2, 3]
    assert summariser.asked == [1, 2, 1, 3]
    await made.aclose()


async def test_a_hanging_summary_times_out_and_blocks_no_other(store: Store) -> None:
    made = worker(FakeSummariser(hanging=[1]), store, timeout_s=0.01, attempts=2, concurrency=1)
    made.submit(job(1))
    made.submit(job(2))
    await made.wait_for([1, 2])
    assert store.chunks == [2]
    assert made.failed == {1}
    assert "within 0.01 s" in made.failures[0].error
    await made.aclose()


class Broken(FakeSummariser):
    """Fails in ways that no contract allows."""

    async def summarise(self, job: SummaryJob) -> list[View]:
        if job.chunk == 1:
            raise ZeroDivisionError("a bug")
        if job.chunk == 2:
            raise asyncio.CancelledError
        return await super().summarise(job)


async def test_bugs_are_recorded_with_their_traceback(store: Store) -> None:
    made = worker(Broken(), store, attempts=1, concurrency=1)
    for number in (1, 2, 3):
        made.submit(job(number))
    assert await made.drain(5)
    assert store.chunks == [3]
    assert made.failed == {1, 2}
    assert "ZeroDivisionError: a bug" in made.failures[0].error
    assert "Traceback" in made.failures[0].detail
    await made.aclose()


async def test_a_store_that_refuses_is_tried_again() -> None:
    store = Store(refusals=1)
    made = worker(FakeSummariser(), store)
    made.submit(job(1))
    assert await made.drain(5)
    assert store.chunks == [1]
    assert "no room" in made.failures[0].error
    await made.aclose()


async def test_waiting_for_what_was_never_asked_returns(store: Store) -> None:
    made = worker(FakeSummariser(hanging=[9]), store)
    made.submit(job(9))
    await made.wait_for(range(1, 9))
    assert not await made.drain(0.01)
    await made.aclose(0)


async def test_submitting_never_waits(store: Store) -> None:
    """Nothing is summarised before the caller gives the loop away."""
    summariser = FakeSummariser(hanging=range(100))
    made = worker(summariser, store)
    for number in range(100):
        made.submit(job(number))
    assert summariser.asked == []
    await made.aclose(0)


async def test_closing_cancels_what_hangs_and_ends_every_task(store: Store) -> None:
    summariser = FakeSummariser(hanging=[2])
    made = worker(summariser, store, concurrency=1)
    before = asyncio.all_tasks()
    for number in (1, 2, 3):
        made.submit(job(number))
    await made.wait_for([1])
    waiting = asyncio.create_task(made.wait_for([2, 3]))
    await made.aclose(0.01)
    await waiting
    assert summariser.closed
    assert store.chunks == [1]
    assert made.pending == 0
    assert asyncio.all_tasks() <= before
    made.submit(job(4))
    assert made.pending == 0


async def test_closing_lets_a_running_summary_finish(store: Store) -> None:
    summariser = FakeSummariser(hanging=[1])
    made = worker(summariser, store)
    made.submit(job(1))
    await summariser.started.wait()
    closing = asyncio.create_task(made.aclose(30))
    await asyncio.sleep(0)
    summariser.release.set()
    await closing
    assert store.chunks == [1]


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
async def test_a_child_killed_in_the_middle_costs_nothing(store: Store) -> None:
    summariser = ExtractiveSummariser(SummaryConfig())
    made = worker(summariser, store, kind="extractive")
    text = " ".join(f"Sentence {n} of this text says that. " for n in range(3_000))
    for number in range(1, 6):
        made.submit(SummaryJob(number, text, "sentence 7", 50_000))
    await made.wait_for([1])
    assert summariser.pid is not None
    os.kill(summariser.pid, signal.SIGKILL)
    assert await made.drain(60)
    assert store.chunks == [1, 2, 3, 4, 5]
    assert summariser.started == 2
    await made.aclose()

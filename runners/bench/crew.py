"""Workers and their trials: dealt by shard, taken over by others when a worker dies or has nothing left to do."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias
from zlib import crc32

from runners.bench.rows import TrialKey, TrialRow
from runners.bench.trial import Pulse, Tell, Trial, without_result
from runners.errors import UsageFault

TRIES = 3
"""Workers that may die over one trial, and times in a row that a worker may fail to come up, before that is the end."""


class WorkerDied(Exception):
    """A worker is gone, or did not come up. Its trial can go on elsewhere."""


class Worker(Protocol):
    """Runs trials, one at a time. ``name``: empty for this process."""

    @property
    def name(self) -> str: ...

    async def join(self) -> None:
        """Be ready, at first or anew. Raises WorkerDied, and UsageFault for what will not get better."""

    async def run(self, trial: Trial, tell: Tell) -> TrialRow:
        """Raises WorkerDied, and what `run_trial` raises."""


@dataclass(frozen=True, slots=True)
class Strength:
    """How many workers are there, and how many were lost so far. ``why``: said of the last loss."""

    present: int
    lost: int
    why: str = ""


Sign: TypeAlias = TrialRow | Pulse | Strength
"""What a run hears of its trials and workers."""


class Placement:
    """Trials by shard. All policies of one question stand in one shard, the same one in every run with as many shards:
    what a worker's machine has kept for them (sessions, keys, pages) is used again."""

    def __init__(self, trials: Sequence[Trial], shards: int) -> None:
        self._shards: list[deque[Trial]] = [deque() for _ in range(shards)]
        for trial in trials:
            self._shards[shard_of(trial.key, shards)].append(trial)

    def __len__(self) -> int:
        return sum(map(len, self._shards))

    def take(self, shard: int) -> Trial | None:
        """The next trial of a shard; where it is empty, the last one of the fullest. None: there are no more."""
        own = self._shards[shard % len(self._shards)]
        if own:
            return own.popleft()
        fullest = max(self._shards, key=len)
        return fullest.pop() if fullest else None

    def give_back(self, trial: Trial, *, last: bool = False) -> None:
        """It was begun, so it comes next, unless it is to come ``last``."""
        own = self._shards[shard_of(trial.key, len(self._shards))]
        own.append(trial) if last else own.appendleft(trial)


def shard_of(key: TrialKey, shards: int) -> int:
    """By question and rollout, from 0. Stable over processes and machines."""
    return crc32(f"{key.task}#{key.rollout}".encode()) % shards


async def work_off(
    workers: Sequence[Worker], placement: Placement, watch: Coroutine[object, object, None] | None = None
) -> AsyncIterator[Sign]:
    """Every trial once, as signs. A worker gets its next trial only after all signs so far have been taken.

    ``watch``: runs beside, and raises what ends it all. Closed or failed, it cancels what is under way and waits for
    it. Raises UsageFault when no worker is left, and what workers raise.
    """
    crew = _Crew(workers, placement, watch)
    try:
        while crew.begin():
            for sign in await crew.signs():
                yield sign
    finally:
        await crew.end()


class _Crew:
    """Who joins, who works, who is idle. Workers are known by their place, which is their shard as well."""

    def __init__(
        self, workers: Sequence[Worker], placement: Placement, watch: Coroutine[object, object, None] | None
    ) -> None:
        self._workers = workers
        self._placement = placement
        self._pulses: deque[Pulse] = deque()
        self._stirred = asyncio.Event()
        self._idle: list[int] = []
        self._joining: dict[asyncio.Task[None], int] = {}
        self._working: dict[asyncio.Task[TrialRow], tuple[int, Trial]] = {}
        self._stirring = asyncio.create_task(self._stirred.wait())
        self._watching = {asyncio.create_task(watch)} if watch else set()
        self._deaths: Counter[TrialKey] = Counter()
        self._failed: Counter[int] = Counter()
        self._lost, self._why = 0, ""
        for at in range(len(workers)):
            self._join(at)

    def begin(self) -> bool:
        """Give every idle worker a trial. False: there is nothing left to wait for."""
        while self._idle and (trial := self._placement.take(self._idle[0])):
            at = self._idle.pop(0)
            self._working[asyncio.create_task(self._workers[at].run(trial, self._tell))] = (at, trial)
        if self._placement and not (self._working or self._joining):
            raise UsageFault(f"no worker is left: {self._why}", hint="docs/cluster.md says what every machine needs")
        return bool(self._working or self._placement)

    async def signs(self) -> list[Sign]:
        """What happens next."""
        done, _ = await asyncio.wait(
            {self._stirring, *self._watching, *self._joining, *self._working}, return_when=asyncio.FIRST_COMPLETED
        )
        for over in self._watching & done:
            over.result()
        # before any result: a trial with a result is not under way any more
        found: list[Sign] = [*self._pulses]
        self._pulses.clear()
        if self._stirring in done:
            self._stirred.clear()
            self._stirring = asyncio.create_task(self._stirred.wait())
        for joined in [task for task in self._joining if task in done]:
            found += self._joined(joined)
        for worked in [task for task in self._working if task in done]:
            found += self._worked(worked)
        return found

    async def end(self) -> None:
        tasks = (self._stirring, *self._watching, *self._joining, *self._working)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _tell(self, pulse: Pulse) -> None:
        self._pulses.append(pulse)
        self._stirred.set()

    def _join(self, at: int) -> None:
        self._joining[asyncio.create_task(self._workers[at].join())] = at

    def _joined(self, task: asyncio.Task[None]) -> list[Sign]:
        at = self._joining.pop(task)
        try:
            task.result()
        except WorkerDied as fault:
            self._failed[at] += 1
            self._why = str(fault)
            if self._failed[at] < TRIES:
                self._join(at)
            return []
        self._failed[at] = 0
        self._idle.append(at)
        return self._strength(at)

    def _worked(self, task: asyncio.Task[TrialRow]) -> list[Sign]:
        at, trial = self._working.pop(task)
        name = self._workers[at].name
        try:
            row = task.result()
        except WorkerDied as fault:
            self._lost, self._why = self._lost + 1, f"{name}: {fault}"
            self._deaths[trial.key] += 1
            self._join(at)
            if self._deaths[trial.key] < TRIES:
                # one that has had two workers die may be why: the others are not held up by it
                self._placement.give_back(trial, last=self._deaths[trial.key] > 1)
                return self._strength(at)
            died = without_result(trial.key, "crashed", f"{TRIES} workers died over it, the last one {self._why}")
            return [*self._strength(at), replace(died, worker=name)]
        self._idle.append(at)
        return [replace(row, worker=name)]

    def _strength(self, at: int) -> list[Sign]:
        present = len(self._idle) + len(self._working)
        return [Strength(present, self._lost, self._why)] if self._workers[at].name else []

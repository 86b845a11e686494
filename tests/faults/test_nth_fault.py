"""Something fails once, the n-th time it is used: the run ends by a name from the allowed set, nothing is lost or half
there, and going on (in the same process, or in another) comes to the same end.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from agent.errors import AuthFailed, BrokenStream, RateLimited, Unavailable
from agent.session import Outcome
from memory.encoders.hashing import HashingEncoder
from memory.errors import EncoderFault, StoreFault, SummaryRejected
from memory.records import JsonValue, Observation, Reply, Request, View
from memory.store.address import Address
from memory.store.verify import verify
from memory.summaries.base import SummaryJob
from memory.summaries.fakes import FakeSummariser
from tests.agent.bench import AnyArguments, Bench, Setup, bench
from tests.faults.player import finish
from tests.faults.script import Playing, World, long_script, steps_of, transcript
from tests.memory.store.places import looking
from tools.base import CallContext, ToolError

STEPS = 30
SCRIPT = long_script(STEPS)


class Injected(Exception):
    """A fault of the program."""


class Cancelled(Exception):
    """Not raised: whoever runs the session cancels it now."""


def sqlite_error(code: int) -> Callable[[], Exception]:
    def make() -> Exception:
        error = sqlite3.OperationalError("injected")
        error.sqlite_errorcode = code
        return error

    return make


@dataclass(frozen=True)
class Kind:
    """What fails: at which points, how, and how a run may end by it ("" when it goes on to its end; the name of an
    exception that is raised to the caller)."""

    at: str
    fault: Callable[[], Exception]
    allowed: frozenset[str]
    same: bool = True
    """Whether the transcript is the same in the end; else one observation may differ."""


def kind(at: str, fault: Callable[[], Exception], *allowed: str, same: bool = True) -> Kind:
    return Kind(at, fault, frozenset(("completed", *allowed)), same)


FAILED = ("storage_failed", "StoreFault")
KINDS = {
    "write": kind(":begun", sqlite_error(sqlite3.SQLITE_IOERR_WRITE), *FAILED),
    "fsync": kind(":written", sqlite_error(sqlite3.SQLITE_IOERR_FSYNC), *FAILED),
    "answer of a commit": kind(":committed", sqlite_error(sqlite3.SQLITE_IOERR), *FAILED),
    "full": kind(":written", sqlite_error(sqlite3.SQLITE_FULL), "storage_full", "StoreFull"),
    "busy": kind(":begun", sqlite_error(sqlite3.SQLITE_BUSY), "store_busy", "StoreBusy"),
    "cancelled": kind(":begun", Cancelled, "cancelled"),
    "cancelled at a commit": kind(":committed", Cancelled, "cancelled"),
    "model gone": kind("model", lambda: Unavailable("injected", retryable=False), "model_unavailable"),
    "model limited": kind("model", lambda: RateLimited("injected"), "model_unavailable"),
    "model cut": kind("model", lambda: BrokenStream("injected"), "model_unavailable"),
    "model refuses": kind("model", lambda: AuthFailed("injected"), "auth"),
    "model breaks": kind("model", Injected, "Injected"),
    "tool fails": kind("tool", lambda: ToolError("unreachable", "injected"), same=False),
    "tool breaks": kind("tool", Injected, "Injected"),
    "embed": kind("embed", lambda: EncoderFault("injected")),
    "summary rejected": kind("summary", lambda: SummaryRejected("injected")),
    "summary breaks": kind("summary", Injected),
}
SWEPT = ("write", "tool breaks", "model gone", "summary breaks")
"""Kinds of which the nightly test tries every n; of the others every fifth."""


@dataclass
class Nth:
    """Fails at the n-th of the points that end in ``at``; 0: never. Told of points by everything that can fail."""

    at: str = ""
    n: int = 0
    make: Callable[[], Exception] = Injected
    passed: list[str] = field(default_factory=list)
    run: asyncio.Task[Outcome] | None = None
    """What is running, to be cancelled."""

    def point(self, name: str) -> None:
        if not name.endswith(self.at):
            return
        self.passed.append(name)
        if len(self.passed) != self.n:
            return
        fault = self.make()
        if not isinstance(fault, Cancelled):
            raise fault
        if self.run is not None:
            self.run.get_loop().call_soon_threadsafe(self.run.cancel)


@dataclass
class StoreFaults:
    nth: Nth

    def at(self, point: str) -> None:
        self.nth.point(point)


class Model(Playing):
    def __init__(self, nth: Nth) -> None:
        super().__init__(SCRIPT)
        self._nth = nth

    async def complete(self, request: Request) -> Reply:
        self._nth.point("model")
        return await super().complete(request)


class Tool(World):
    def __init__(self, name: str, nth: Nth) -> None:
        super().__init__(name)
        self._nth = nth

    async def run(self, arguments: AnyArguments, context: CallContext) -> Observation:
        self._nth.point("tool")
        return await super().run(arguments, context)


class Encoder(HashingEncoder):
    nth: Nth

    def encode_query(self, text: str) -> NDArray[np.float32]:
        self.nth.point("embed")
        return super().encode_query(text)

    def encode_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.nth.point("embed")
        return super().encode_documents(texts)


class Summariser(FakeSummariser):
    def __init__(self, nth: Nth) -> None:
        super().__init__()
        self._nth = nth

    async def summarise(self, job: SummaryJob) -> list[View]:
        self._nth.point("summary")
        return await super().summarise(job)


async def open_with(stack: AsyncExitStack, path: Path | Address, nth: Nth) -> Bench:
    encoder = Encoder()
    encoder.nth = nth
    model = Model(nth)
    setup = Setup(owned=True, faults=StoreFaults(nth), encoder=encoder, summariser=Summariser(nth), record=False)
    tools = [Tool(name, nth) for name in ("search", "visit", "python")]
    b = await stack.enter_async_context(bench(path, model, tools, setup))  # type: ignore[arg-type]
    model.store = b.store
    return b


async def attempt(b: Bench, nth: Nth) -> str:
    """How a run ends: its status, or the name of what it raised."""
    nth.run = asyncio.create_task(finish(b))
    try:
        return (await nth.run).status
    except (StoreFault, Injected) as fault:
        return type(fault).__name__
    except asyncio.CancelledError:
        return "cancelled"
    finally:
        nth.run = None


async def fail_and_go_on(path: Path | Address, nth: Nth, *, reopen: bool) -> list[str]:
    """How the runs of a session ended, until one completed it."""
    ends: list[str] = []
    while not ends or ends[-1] != "completed":
        assert len(ends) < 4, f"it gets nowhere: {ends}"
        async with AsyncExitStack() as stack:
            try:
                b = await open_with(stack, path, nth)
            except StoreFault as fault:
                ends.append(type(fault).__name__)
                continue
            ends.append(await attempt(b, nth))
            if ends[-1] != "completed" and not reopen:
                ends.append(await attempt(b, nth))
    return ends


@dataclass(frozen=True)
class Whole:
    transcript: list[JsonValue]
    passed: tuple[str, ...]


async def left(path: Path | Address) -> list[JsonValue]:
    async with AsyncExitStack() as stack:
        b = await open_with(stack, path, Nth(at="never"))
        return transcript(await steps_of(b.store))


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory where there is such a disk: what is tested here does not depend on how long an fsync takes."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as made:
        yield Path(made)


WHOLE: dict[str, Whole] = {}
"""By the points that were counted: every session that nothing happens to is the same."""


async def uninterrupted(folder: Path, at: str) -> Whole:
    if at not in WHOLE:
        nth = Nth(at=at)
        path = folder / "whole"
        assert await fail_and_go_on(path, nth, reopen=True) == ["completed"]
        WHOLE[at] = Whole(await left(path), tuple(nth.passed))
    return WHOLE[at]


async def check(folder: Path, chosen: Kind, n: int, whole: Whole, database: Address | None = None) -> str:
    """One session with a fault at n; returns how its first run ended."""
    path: Path | Address = database.of(f"s{n}") if database else folder / f"s{n}"
    nth = Nth(chosen.at, n, chosen.fault)
    ends = await fail_and_go_on(path, nth, reopen=n % 2 == 0)
    assert set(ends) <= chosen.allowed, (n, ends, nth.passed[n - 1 : n])
    with looking(path) as connection:
        assert connection is not None
        assert [finding for finding in verify(connection) if finding.problems] == []
    now = await left(path)
    differing = sum(a != b for a, b in zip(now, whole.transcript, strict=True))
    assert differing <= (not chosen.same), (n, ends)
    return ends[0]


@pytest.mark.parametrize("name", KINDS)
async def test_a_fault_now_and_then(folder: Path, name: str) -> None:
    """Some kinds of write, a few calls of model, tools, encoder and summariser; the nightly test takes them all."""
    chosen, rng = KINDS[name], random.Random(name)
    whole = await uninterrupted(folder, chosen.at)
    assert len(whole.transcript) == STEPS
    assert len(whole.passed) >= STEPS - 3
    places = [[n for n, passed in enumerate(whole.passed, 1) if passed == method] for method in set(whole.passed)]
    chances = rng.sample(sorted(places), min(3, len(places))) if len(places) > 1 else places
    ends = [await check(folder, chosen, n, whole) for n in sorted({rng.choice(found) for found in chances})]
    assert set(ends) - {"completed"} or chosen.allowed == {"completed"} or len(places) > 1


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", KINDS)
async def test_a_fault_at_every_n(folder: Path, name: str) -> None:
    """Some 4 minutes, all kinds together."""
    chosen = KINDS[name]
    whole = await uninterrupted(folder, chosen.at)
    for n in range(1, len(whole.passed) + 1, 1 if name in SWEPT else 5):
        await check(folder, chosen, n, whole)

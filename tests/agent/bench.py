"""A whole session for tests: real SQLite, real memory, native dialect, the strict scripted model, strict fake tools."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from agent.control.registry import control_for
from agent.dialects.native import NativeDialect
from agent.events import AnyEvent, Bus
from agent.guards import Guards
from agent.limits import LimitsConfig
from agent.loop import Loop
from agent.session import Session
from agent.situation import Tracker
from agent.spending import Spending
from agent.window import Learned, Window
from memory.config import MemoryConfig
from memory.encoders.hashing import HashingEncoder
from memory.manager import Memory, MemoryParts
from memory.policies.registry import make_policy
from memory.ports import Completion, Encoder, Faults
from memory.recall import Recall
from memory.records import JsonValue, Observation, Reply, Source, Step, StopReason, ToolCall, Usage
from memory.store.address import Address
from memory.store.sqlstore import SqlStore
from memory.summaries.base import Summariser
from memory.summaries.build import build_worker, stored_job
from memory.summaries.config import SummaryConfig
from memory.summaries.ranges import build_blocks
from memory.summaries.worker import SummaryWorker
from memory.tokens import ScriptCounter
from tests.memory.sessions import FakeClock
from tests.memory.store.places import open_at
from tools.base import Arguments, CallContext
from tools.glimpse import Glimpse
from tools.toolset import Toolset

OFF = SummaryConfig(kind="off")


class AnyArguments(Arguments):
    """What the fake tools take."""

    q: str = ""
    urls: tuple[str, ...] = ()


class FakeTool:
    """Gives its outcomes in order: a text, or an exception to raise. Strict: one call more is a fault of the program,
    and `Bench` fails when outcomes are left. ``hangs``: a call waits until it is cancelled."""

    arguments: ClassVar[type[Arguments]] = AnyArguments
    description = "fake"
    timeout_s = 30.0

    def __init__(self, name: str, outcomes: Iterable[str | Exception] = (), *, hangs: bool = False) -> None:
        self.name = name
        self.outcomes = deque(outcomes)
        self.hangs = hangs
        self.began = asyncio.Event()
        self.calls: list[CallContext] = []

    async def run(self, arguments: AnyArguments, context: CallContext) -> Observation:
        self.calls.append(context)
        self.began.set()
        if self.hangs:
            await asyncio.Event().wait()
        if not self.outcomes:
            raise AssertionError(f"{self.name} was called once more than the test says")
        outcome = self.outcomes.popleft()
        if isinstance(outcome, Exception):
            raise outcome
        source = Source(
            arguments.urls[0] if arguments.urls else f"http://x.test/{self.name}/{len(self.calls)}", "A page"
        )
        return Observation(context.call_id, self.name, outcome, sources=(source,))

    async def aclose(self) -> None:
        return None


@dataclass
class Bench:
    """An open session and everything around it."""

    session: Session
    store: SqlStore
    memory: Memory
    loop: Loop
    backbone: Completion
    clock: FakeClock
    events: list[AnyEvent] = field(default_factory=list)

    async def steps(self) -> list[Step]:
        """Every committed step."""
        return [chunk.step for chunk in await self.store.chunks(range(1, await self.store.last_step() + 1))]

    async def ended(self) -> list[JsonValue]:
        """Statuses of the runs of the session, in order."""
        return [event.body["status"] for event in await self.store.events() if event.kind == "ended"]


@dataclass(frozen=True)
class Setup:
    """What a bench is made with."""

    limits: LimitsConfig = field(default_factory=LimitsConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    summaries: SummaryConfig = OFF
    summariser: Summariser | None = None
    """Stands in for the configured one."""
    window: int = 131_072
    learned: Learned | None = None
    clock: FakeClock = field(default_factory=FakeClock)
    policy: str = "pace"
    options: Mapping[str, object] | None = None
    owned: bool = False
    """Claim the session, as the runners do."""
    faults: Faults | None = None
    """Told of every point on the way of a write."""
    encoder: Encoder | None = None
    record: bool = True
    """Keep every event in ``events``."""


@asynccontextmanager
async def bench(
    path: Path | Address, model: Completion, tools: Sequence[FakeTool] = (), setup: Setup | None = None
) -> AsyncIterator[Bench]:
    """The session of the store at ``path``, begun or gone on with as the runners do it."""
    setup = setup or Setup()
    async with await open_at(path, create=True, faults=setup.faults) as store:
        if setup.owned:
            await store.claim("bench")
        async with _session(store, model, tools, setup) as b:
            yield b
    left = {tool.name: len(tool.outcomes) for tool in tools if tool.outcomes}
    assert not left, f"outcomes that no call took: {left}"
    await model.aclose()


@asynccontextmanager
async def _session(store: SqlStore, model: Completion, tools: Sequence[FakeTool], setup: Setup) -> AsyncIterator[Bench]:
    counter, dialect = ScriptCounter(), NativeDialect(today="2026-01-31")
    events: list[AnyEvent] = []
    bus = Bus()
    if setup.record:
        bus.subscribe(events.append)
    spending = Spending(setup.limits, setup.clock, store, await store.usage())
    control = control_for(setup.policy)
    toolset = Toolset([*tools, Glimpse(Recall(store, counter)), *control.tools])
    parts = MemoryParts(
        store=store,
        encoder=setup.encoder or HashingEncoder(),
        policy=make_policy(setup.policy, setup.options),
        form=dialect.step_format(toolset.specs),
        counter=counter,
        clock=setup.clock,
        summaries=build_worker(setup.summaries, store, setup.clock, counter, record=spending.record),
        blocks=build_blocks(setup.summaries, counter),
        lockstep=setup.summaries.publish == "lockstep",
    )
    if setup.summariser is not None:
        worker = SummaryWorker(
            setup.summariser, store.add_views, partial(stored_job, store), SummaryConfig(timeout_s=3600), setup.clock
        )
        parts = replace(parts, summaries=worker)
    memory = await Memory.open(parts, setup.memory)
    control.bound.bind(memory)
    known = [chunk.step for chunk in await store.chunks(range(1, memory.steps + 1))]
    window = Window(setup.window, 4096, setup.memory.budget, learned=setup.learned)
    tracker = Tracker(step for step in known if step.task == memory.task)
    loop = Loop(memory, model, dialect, toolset, spending, Guards.rebuild(known), tracker, window, bus)
    try:
        yield Bench(Session("s", memory, store, loop), store, memory, loop, model, setup.clock, events)
    finally:
        await memory.aclose()


def act(*calls: tuple[str, dict[str, JsonValue]], text: str = "", usage: Usage | None = None) -> Reply:
    """A reply with native tool calls."""
    made = tuple(ToolCall(f"p{i}", name, arguments) for i, (name, arguments) in enumerate(calls))
    return Reply(text, tool_calls=made, stop_reason="tool_calls", usage=usage or Usage())


def search(q: str, usage: Usage | None = None) -> Reply:
    return act(("search", {"q": q}), usage=usage)


def say(text: str, stop: StopReason = "end") -> Reply:
    return Reply(text, stop_reason=stop)

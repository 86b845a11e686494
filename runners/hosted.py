"""A session's memory for somebody else's agent: the same store, summaries and policies, without our loop.

Such a session is marked as hosted: our own agent does not take it up, since each writes its requests in its own way.
The memory of one of our agent's sessions can be searched and read here, and is not written to.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from agent.spending import Spending
from memory.errors import NotStored, StoreCorrupt, StoreFault
from memory.formats import PlainFormat
from memory.manager import Memory, MemoryParts
from memory.plan import Context
from memory.policies.registry import make_policy
from memory.recall import Recall
from memory.records import Chunk, Step
from memory.sanitize import sanitize
from memory.search import Search
from memory.store.database import BUSY_TIMEOUT_S
from memory.store.sqlstore import SqlStore
from memory.tokens import ScriptCounter
from runners.clock import SystemClock
from runners.config import RunConfig, config_hash, config_tree, stored_config
from runners.environment import Environment
from runners.errors import UsageFault
from runners.folders import SessionFolder
from runners.parts import cached_encoder, summarisers
from runners.stores import discard, open_store
from runners.toolbox import Inputs
from runners.wiring import HOST, SETTINGS

T = TypeVar("T")
NO_QUESTION = "Go on with the task."
"""The question of contexts that were asked for without one."""


@dataclass(frozen=True, slots=True)
class Hosted:
    """An open memory. ``memory`` None: one of our agent's sessions, which is only read."""

    name: str
    config: RunConfig
    recall: Recall
    search: Search
    memory: Memory | None = None
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def ingest(self, text: str, speaker: str) -> Chunk:
        """Keep one turn of the host's dialogue, or what one of its tools gave back. Raises UsageFault, ValueError."""
        if not text.strip():
            raise ValueError("the text is empty")
        memory = self._writable()

        async def keep() -> Chunk:
            step = Step(memory.steps + 1, "turn", thought=f"{speaker}: {text}", task=max(1, memory.task))
            return await memory.ingest(step)

        return await self._whole(keep())

    async def assemble(self, question: str, budget: int | None) -> Context:
        """The context for the host's next call. A question that differs from the one in force takes its place.

        Raises UsageFault, BudgetTooSmall, ContextExhausted.
        """
        memory = self._writable()

        async def build() -> Context:
            wanted = sanitize(question).strip() or memory.question or NO_QUESTION
            if wanted != memory.question:
                await memory.ask(wanted)
            return await memory.assemble(budget or self.config.memory.budget or self.config.backbone.window)

        return await self._whole(build())

    async def settle(self) -> None:
        """Wait until what was begun is done."""
        async with self.turn:
            pass

    async def _whole(self, work: Coroutine[Any, Any, T]) -> T:
        """One at a time, and to its end, also when the caller gives up: half a step would be one too many."""

        async def in_turn() -> T:
            async with self.turn:
                return await work

        return await asyncio.shield(asyncio.create_task(in_turn()))

    def _writable(self) -> Memory:
        if self.memory is None:
            raise UsageFault(f"{self.name} is a session of the longstride agent: it can be searched and read only")
        return self.memory


@asynccontextmanager
async def open_hosted(
    folder: SessionFolder,
    environment: Environment,
    config: RunConfig,
    host: str,
    *,
    create: bool = True,
    wait_s: float = BUSY_TIMEOUT_S,
) -> AsyncIterator[Hosted]:
    """Open the memory of a folder or an address, or, to ``create``, begin one there with ``config``; an old one keeps
    its own. ``host``: who uses it, for the record. ``wait_s``: as for `runners.stores.open_store`.

    Raises NotStored, StoreBusy when another process writes to it, ConfigError, StoreCorrupt, StoreFault."""
    unfinished = AsyncExitStack()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(unfinished)
        reading = await _of_our_agent(folder, wait_s)
        if reading is not None:
            stack.push_async_callback(reading.aclose)
            yield await _read_only(folder, environment, reading, stack)
            return
        store = await open_store(folder, create=create, wait_s=wait_s)
        stack.push_async_callback(store.aclose)
        await store.claim(host)
        if await store.meta(SETTINGS) is None:
            unfinished.push_async_callback(discard, folder)
            await _begin(folder, store, config, host)
        else:
            config = await _settings(folder, store)
        hosted = await _build(folder, environment, store, config, stack)
        unfinished.pop_all()
        yield hosted


async def _of_our_agent(folder: SessionFolder, wait_s: float) -> SqlStore | None:
    """The store of one of our agent's sessions, opened to be read; None for any other session, and where none is."""
    if folder.address is None and not folder.store.exists():
        return None
    try:
        store = await open_store(folder, create=False, read_only=True, wait_s=wait_s)
    except NotStored:
        return None
    except StoreFault as fault:
        if folder.address is None or fault.retryable:
            raise
        return None  # an old schema, which opening it to write brings up to date; whatever else it is comes up again
    try:
        if await store.meta(SETTINGS) is not None and await store.meta(HOST) is None:
            return store
    except BaseException:
        await store.aclose()
        raise
    await store.aclose()
    return None


async def _begin(folder: SessionFolder, store: SqlStore, config: RunConfig, host: str) -> None:
    tree = {"config": config_tree(config), "inputs": asdict(Inputs())}
    await store.set_meta({SETTINGS: json.dumps(tree), "config_hash": config_hash(config), HOST: host})
    folder.write_config(tree)


async def _settings(folder: SessionFolder, store: SqlStore) -> RunConfig:
    settings = await store.meta(SETTINGS)
    if settings is None:
        raise StoreCorrupt(f"{folder} holds no settings: its session was never opened whole")
    return stored_config(json.loads(settings)["config"], folder.name)


async def _read_only(folder: SessionFolder, environment: Environment, store: SqlStore, stack: AsyncExitStack) -> Hosted:
    config = await _settings(folder, store)
    encoder = cached_encoder(config, environment, stack)
    recall, search = Recall(store, ScriptCounter(), config.memory.glimpse_page), Search(store, encoder)
    stack.push_async_callback(search.aclose)
    return Hosted(folder.name, config, recall, search)


async def _build(
    folder: SessionFolder, environment: Environment, store: SqlStore, config: RunConfig, stack: AsyncExitStack
) -> Hosted:
    counter, clock = ScriptCounter(), SystemClock()
    encoder = cached_encoder(config, environment, stack)
    policy = make_policy(config.policy.name, config.policy.options.model_dump(by_alias=True))
    judge = encoder if "fidelity" in policy.needs else None
    spending = Spending(config.limits, clock, store)
    summaries, blocks = summarisers(config, environment, store, counter, clock, spending, judge)
    parts = MemoryParts(
        store=store,
        encoder=encoder,
        policy=policy,
        form=PlainFormat(),
        counter=counter,
        clock=clock,
        summaries=summaries,
        blocks=blocks,
        lockstep=config.summaries.publish == "lockstep",
    )
    memory = await Memory.open(parts, config.memory)
    stack.push_async_callback(memory.aclose)
    search = Search(store, encoder, own=True)
    stack.push_async_callback(search.aclose)
    hosted = Hosted(folder.name, config, memory.recall, search, memory)
    stack.push_async_callback(hosted.settle)
    return hosted

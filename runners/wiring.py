"""The composition root: a session out of its configuration, its inputs and its folder."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from agent.backbones.base import Backbone
from agent.backbones.factory import make_backbone
from agent.control.registry import control_for
from agent.dialects.base import Dialect
from agent.dialects.registry import DialectOptions, make_dialect
from agent.events import Bus
from agent.guards import LOOKBACK, Guards
from agent.loop import Loop
from agent.session import Session
from agent.situation import Tracker
from agent.spending import Spending
from agent.window import Learned, Window
from memory.errors import StoreCorrupt
from memory.manager import Memory, MemoryParts
from memory.policies.registry import make_policy
from memory.ports import ChunkStore
from memory.recall import Recall
from memory.records import Step
from memory.store.check import Checking
from memory.store.sqlstore import SqlStore
from memory.stored import Event, UsageRow
from memory.tokens import ScriptCounter
from runners.changes import changed_config, differences
from runners.clock import SystemClock
from runners.computing import described, session_sandbox
from runners.config import RunConfig, config_hash, config_tree, stored_config, tree_hash
from runners.environment import Environment
from runners.errors import ConfigError, UsageFault
from runners.extracting import goal_extractor
from runners.folders import SessionFolder, already_there
from runners.offered import record_tools, recorded_tools
from runners.parts import cached_encoder, priced_backbone, summarisers
from runners.pictures import PICTURE_TOKENS, read_pictures
from runners.redact import Redactor
from runners.stores import discard, open_store
from runners.toolbox import Inputs, ToolboxRequest, open_toolbox
from runners.trajectory import TrajectoryFile

ASKED, SETTINGS, HOST = "asked", "settings", "host"
PAGE = 64
"""Steps read at once."""
PROVIDERS = frozenset({"openai", "anthropic", "local"})
"""Backbone kinds whose reported prompt tokens calibrate our counter."""


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """What opens a session. ``config`` and ``inputs`` None: as stored in the folder."""

    folder: SessionFolder
    environment: Environment
    bus: Bus
    config: RunConfig | None = None
    inputs: Inputs | None = None
    question: str = ""
    """What a new session is about to be asked. It is written down with the configuration, so that a session that was
    killed before it was asked can still go on (`unasked`)."""
    changes: tuple[str, ...] = ()
    """``key.path=value`` options over the stored configuration; with ``config`` None only."""
    progress: Callable[[int, int], None] | None = None
    checking: Checking | None = None
    """Told while the store is checked after an exit that was not clean."""
    backbone: Backbone | None = None
    """Stands in for the configured one: for tests and hosts. The caller closes it."""


@dataclass(frozen=True, slots=True)
class OpenSession:
    """A session with what reports about it need."""

    session: Session
    store: ChunkStore
    memory: Memory
    loop: Loop
    config: RunConfig
    inputs: Inputs
    python: str
    """How code is isolated (`tools.python.base.isolation`), or that the tool is not offered."""


@asynccontextmanager
async def open_session(request: SessionRequest) -> AsyncIterator[OpenSession]:
    """Open (or, with a config, create) the session of a folder as its only owner. Everything is closed at the end.

    Raises UsageFault where a configuration is given and a session already is, ConfigError, AuthFailed, StoreBusy when
    another process owns it. A new session that cannot be opened whole leaves nothing behind.
    """
    unfinished = AsyncExitStack()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(unfinished)
        if request.config is not None:
            unfinished.callback(request.folder.leave_empty)
        if request.config is not None and request.backbone is None:
            # a missing key, or a dialect that the model cannot speak, must be said before a store exists
            _check_dialect(request.config)
            stack.push_async_callback(make_backbone(request.config.backbone, request.environment.variables()).aclose)
        store = await open_store(request.folder, create=request.config is not None, checking=request.checking)
        stack.push_async_callback(store.aclose)
        await store.claim("run")
        if request.config is not None:
            # asked of the owner only: whoever came second must not take the first one's session for an empty one
            if await store.meta(SETTINGS) is not None:
                raise already_there(request.folder)
            unfinished.push_async_callback(discard, request.folder)
        config, inputs = await _settle(request, store)
        opened = await _build(request, store, config, inputs, stack)
        unfinished.pop_all()
        yield opened


def _check_dialect(config: RunConfig) -> None:
    if config.backbone.kind == "embedded" and not config.dialect.startswith("guided"):
        raise ConfigError(
            f"the embedded backbone is guided: it cannot speak the dialect {config.dialect!r}",
            hint="choose another --backbone, or the dialect guided",
        )


async def unasked(opened: OpenSession) -> str:
    """What the session was opened for and killed before it was asked; empty when it has been asked something."""
    return "" if opened.memory.question else await opened.store.meta(ASKED) or ""


async def _build(
    request: SessionRequest, store: SqlStore, config: RunConfig, inputs: Inputs, stack: AsyncExitStack
) -> OpenSession:
    counter, clock = ScriptCounter(), SystemClock()
    backbone = request.backbone or priced_backbone(config.backbone, request.environment)
    if request.backbone is None:
        stack.push_async_callback(backbone.aclose)
    dialect = await _dialect(request.folder, store, config)
    recall = Recall(store, counter, config.memory.glimpse_page)
    control = control_for(config.policy.name)
    spending = Spending(config.limits, clock, store, await _spent(store))
    extractor = goal_extractor(config, lambda model: priced_backbone(model, request.environment), spending.record)
    if extractor is not None:
        stack.push_async_callback(extractor.completion.aclose)
    sandbox = await session_sandbox(config, request.environment, store)
    wanted = ToolboxRequest(
        config,
        inputs,
        request.environment,
        recall,
        request.progress,
        extractor=extractor,
        control=control.tools,
        python=sandbox,
        artefacts=request.folder.workspace,
        recorded=await recorded_tools(store),
    )
    toolset = await open_toolbox(wanted, stack)
    await record_tools(store, toolset.specs)
    encoder = cached_encoder(config, request.environment, stack)
    policy = make_policy(config.policy.name, config.policy.options.model_dump(by_alias=True))
    judge = encoder if "fidelity" in policy.needs else None
    summaries, blocks = summarisers(config, request.environment, store, counter, clock, spending, judge)
    parts = MemoryParts(
        store=store,
        encoder=encoder,
        policy=policy,
        form=dialect.step_format(toolset.specs),
        counter=counter,
        clock=clock,
        summaries=summaries,
        blocks=blocks,
        lockstep=config.summaries.publish == "lockstep",
    )
    memory = await Memory.open(parts, config.memory)
    control.bound.bind(memory)
    stack.push_async_callback(memory.aclose)
    earlier = await _steps(store, memory)
    task = [step for step in earlier if step.task == memory.task]
    images = read_pictures(inputs.files) if backbone.supports_images else ()
    window = await _window(config, backbone, store, PICTURE_TOKENS * len(images))
    guards = Guards.rebuild(earlier[-LOOKBACK:])
    loop = Loop(memory, backbone, dialect, toolset, spending, guards, Tracker(task), window, request.bus, images)
    await _trajectory(request, store, memory)
    redact = Redactor(request.environment.secrets.values())
    session = Session(request.folder.name, memory, store, loop, redact)
    return OpenSession(session, store, memory, loop, config, inputs, described(sandbox))


async def _dialect(folder: SessionFolder, store: SqlStore, config: RunConfig) -> Dialect:
    # what is kept free of the window is what a reply may take
    most = config.backbone.max_output_tokens
    return make_dialect(config.dialect, DialectOptions(most, today=await _today(store), task_key=folder.name))


async def _settle(request: SessionRequest, store: SqlStore) -> tuple[RunConfig, Inputs]:
    """The configuration in force: a new session writes its own down, an old one is held to what it wrote."""
    if request.config is not None:
        inputs = request.inputs or Inputs()
        await store.set_meta({"today": datetime.now(UTC).date().isoformat(), ASKED: request.question})
        await _write_down(request.folder, store, request.config, inputs)
        return request.config, inputs
    if await store.meta(HOST) is not None:
        raise UsageFault(f"session {request.folder.name} is another agent's memory", hint="`longstride mcp` opens it")
    settings = await store.meta(SETTINGS)
    if settings is None:
        raise StoreCorrupt(
            f"{request.folder} holds no settings: its session was never opened whole",
            hint="start it again with `longstride run --out`",
        )
    tree = json.loads(settings)
    if tree_hash(tree["config"]) != await store.meta("config_hash"):
        raise ConfigError(f"session {request.folder.name}: its settings are not those it wrote down")
    inputs = request.inputs or Inputs(corpus=tree["inputs"]["corpus"], files=tuple(tree["inputs"]["files"]))
    config = stored_config(tree["config"], request.folder.name)
    if request.changes:
        before, config = config, changed_config(config, request.changes)
        changed = differences(before, config)
        if changed:
            # said before it is done: a change that is in force is always on record
            await store.add_event(Event("config_changed", time.time(), {"changed": changed}))
            await _write_down(request.folder, store, config, inputs)
    return config, inputs


async def _write_down(folder: SessionFolder, store: SqlStore, config: RunConfig, inputs: Inputs) -> None:
    tree = {"config": config_tree(config), "inputs": asdict(inputs)}
    await store.set_meta({SETTINGS: json.dumps(tree), "config_hash": config_hash(config)})
    folder.write_config(tree)


async def _window(config: RunConfig, backbone: Backbone, store: SqlStore, pictures: int) -> Window:
    """The window with what this model's refusals taught earlier. ``pictures``: tokens that they take of it."""
    key = f"window:{backbone.model}"
    known = await store.meta(key)

    async def save(learned: Learned) -> None:
        await store.set_meta({key: json.dumps(asdict(learned))})

    return Window(
        backbone.window - pictures,
        config.backbone.max_output_tokens,
        config.memory.budget and max(1, config.memory.budget - pictures),
        calibrate=config.backbone.kind in PROVIDERS,
        learned=Learned(**json.loads(known)) if known else None,
        save=save,
    )


async def _today(store: SqlStore) -> str:
    return await store.meta("today") or ""


async def _spent(store: SqlStore) -> list[UsageRow]:
    """Calls of the question in force so far."""
    questions = await store.questions()
    first = questions[-1].from_step if questions else 1
    return [row for row in await store.usage() if row.step >= first]


async def _steps(store: SqlStore, memory: Memory) -> list[Step]:
    """The steps that the loop's state is rebuilt from: of the question in force, and enough for the guards."""
    questions = await store.questions()
    first = min(questions[-1].from_step if questions else 1, max(1, memory.steps - LOOKBACK))
    return [chunk.step for chunk in await store.chunks(range(first, memory.steps + 1))]


async def _trajectory(request: SessionRequest, store: SqlStore, memory: Memory) -> None:
    trajectory = TrajectoryFile(request.folder.trajectory)
    for first in range(trajectory.mend(memory.steps) + 1, memory.steps + 1, PAGE):
        chunks = await store.chunks(range(first, min(first + PAGE, memory.steps + 1)))
        trajectory.keep([chunk.step for chunk in chunks])
    request.bus.subscribe(trajectory.on_event)

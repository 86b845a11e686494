"""Sessions with contexts, as a run leaves them, for the viewer to show."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from memory.records import Step, Usage
from memory.store.sqlite import SqliteStore
from memory.stored import Event, UsageRow
from memory.summaries.config import SummaryConfig
from runners.config import config_tree, load_config
from runners.environment import Secret
from runners.folders import SessionFolder
from runners.redact import Redactor
from runners.request import ConfigRequest
from runners.viewer.page import recorded_page
from runners.viewer.recorded import Recorded
from tests.memory.sessions import open_memory, page, visit_step
from tests.runners.viewer.hostile import corpus, hostile_step

QUESTION = "Which harbours of Varden were rebuilt?"
ANSWER = "The northern ones [c19], and others [c5, c999]."


def visited(number: int) -> Step:
    """A step that read a page."""
    return visit_step(number, page(number, 4 + number % 23))


async def make_session(
    home: Path,
    name: str,
    *,
    steps: int = 40,
    policy: str = "pace",
    budget: int = 2_200,
    layout: str = "interleaved",
    question: str = QUESTION,
    answer: str = ANSWER,
    step: Callable[[int], Step] = visited,
) -> SessionFolder:
    """A finished session of ``steps`` steps, every one with a context of its own, the last an answer."""
    folder = SessionFolder(home / "runs" / name)
    folder.path.mkdir(parents=True)
    options = (f"memory.budget={budget}", f"memory.layout={layout}", "summaries.publish=lockstep")
    config = load_config(ConfigRequest(None, policy, None, None, options))
    summaries = SummaryConfig(publish="lockstep")
    chosen = config.policy.options.model_dump(by_alias=True)
    async with open_memory(
        folder.store, policy=config.policy.name, options=chosen, config=config.memory, summaries=summaries
    ) as memory:
        await memory.ask(question)
        for number in range(1, steps + 1):
            context = await memory.assemble(budget)
            used = Usage(input_total=context.tokens, cache_read=context.prefix_tokens, output=50, cost=0.001 * number)
            made = step(number) if number < steps else Step(number, "answer", answer=answer, question=question)
            await memory.ingest(made, [UsageRow(number, "step", "scripted", used)])
    await settle(folder, {"config": config_tree(config), "inputs": {"corpus": None, "files": []}})
    return folder


async def settle(folder: SessionFolder, tree: object) -> None:
    """What a run writes beside its memory."""
    async with await SqliteStore.open(folder.store, create=False) as store:
        await store.set_meta({"settings": json.dumps(tree)})
        await store.add_event(Event("working", 1.0, {"task": 1}))
        await store.add_event(Event("ended", 2.0, {"status": "completed", "task": 1}))


async def read(folder: SessionFolder, secrets: Sequence[str] = ()) -> tuple[SqliteStore, Recorded]:
    """The session as the viewer reads it; whoever asks closes the store."""
    store = await SqliteStore.open(folder.store, create=False, read_only=True)
    return store, await Recorded.open(folder.name, store, Redactor([Secret(s) for s in secrets], shapes=True))


async def hostile_session(home: Path) -> SessionFolder:
    """A session that is hostile wherever it can be."""
    texts = corpus()
    every = " ".join(texts)
    return await make_session(
        home,
        "hostile",
        steps=len(texts) + 1,
        budget=6_000,
        question=every[:4_000],
        answer=f"[c3] {every} [c5]",
        step=lambda number: hostile_step(texts, number),
    )


async def page_of(folder: SessionFolder) -> str:
    """The session in one file."""
    store, recorded = await read(folder)
    async with store:
        return await recorded_page(recorded)

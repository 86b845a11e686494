"""Sessions under a policy for tests: what is shown at which step, the same after stops, recomputable."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from memory.config import MemoryConfig
from memory.plan import HIDDEN, Block, Context
from memory.records import Step
from memory.summaries.config import SummaryConfig
from tests.memory.sessions import open_memory, page, visit_step

QUESTION = "When were the royal comets of Varden counted?"


@dataclass(frozen=True)
class Scene:
    """A session to run: ``steps`` contexts, each followed by a step."""

    policy: str
    options: Mapping[str, object] | None = None
    config: MemoryConfig = field(default_factory=lambda: MemoryConfig(recent=1, spend=False))
    budget: int = 4_000
    steps: int = 40
    summaries: Literal["extractive", "off"] = "extractive"
    step: Callable[[int], Step] = lambda number: visit_step(number, page(number))


@dataclass(frozen=True)
class Played:
    """What came of it."""

    contexts: list[Context]
    blocks: list[Block]

    @property
    def hashes(self) -> list[str]:
        return [context.render_hash for context in self.contexts]


async def play(path: Path, scene: Scene, stops: Collection[int] = ()) -> Played:
    """Run a scene in lockstep, closing and opening the session before each step in ``stops``; proves that every context
    is within budget and recomputable."""
    contexts: list[Context] = []
    number = 1
    while True:
        settings = SummaryConfig(kind=scene.summaries, publish="lockstep")
        async with open_memory(
            path, policy=scene.policy, options=scene.options, config=scene.config, summaries=settings
        ) as memory:
            if number == 1:
                await memory._given.store.set_meta({"nonce": "cafe0001"})
                memory._state.nonce = "cafe0001"
                await memory.ask(QUESTION)
            while number <= scene.steps:
                context = await memory.assemble(scene.budget)
                assert context.tokens <= context.fitted.tokens <= scene.budget
                contexts.append(context)
                await memory.ingest(scene.step(number))
                number += 1
                if number in stops:
                    break
            else:
                again = await memory.rebuild_all()
                assert all(one.same for one in again) and len(again) == len(contexts)
                return Played(contexts, list(memory._state.blocks))


def spans(blocks: Collection[Block]) -> list[tuple[int, int]]:
    return [(block.first, block.last) for block in blocks]


def hidden(context: Context) -> list[int]:
    """Ids of the old chunks that are not shown."""
    return [int(number) for number in context.ids[context.fitted.levels == HIDDEN]]

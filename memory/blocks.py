"""Session side of the texts that stand for runs of steps: what they are made from, and how they are stored."""

from __future__ import annotations

import numpy as np

from memory.chunking import full_text
from memory.errors import SummaryFailed
from memory.frame import block as rendered
from memory.frame import guard_nonce
from memory.plan import Block, NeedsSummary
from memory.ports import BlockMaker, ChunkStore, TokenCounter
from memory.records import Level
from memory.render import range_line
from memory.state import SessionState

SOURCE_TOKENS = 60_000
"""What a text is made from: a longer range is taken at a coarser level, as far as its views exist."""
PAGE = 256


async def make_block(
    store: ChunkStore, state: SessionState, maker: BlockMaker | None, counter: TokenCounter, need: NeedsSummary
) -> Block:
    """Have a text made for the step about to be taken, and store it. Raises SummaryFailed when nothing makes texts."""
    if maker is None:
        raise SummaryFailed("this policy needs summaries of ranges, and nothing here makes them")
    question = state.question
    step = len(state.index) + 1
    texts = await source_texts(store, state, counter, need.first, need.last, step)
    made = await maker.make(need, len(state.blocks) + 1, step, texts, question.text if question else "")
    await add_block(store, state, made)
    return made


async def add_block(store: ChunkStore, state: SessionState, made: Block) -> None:
    """Store a block; from here on policies see it."""
    await store.add_block(made)
    state.blocks.append(made)


async def source_texts(
    store: ChunkStore, state: SessionState, counter: TokenCounter, first: int, last: int, step: int
) -> list[str]:
    """The chunks ``first``-``last`` as a history would show them, at the finest level at which they stay within
    `SOURCE_TOKENS`: one rendered block each; where even their lines are too many, the older ones as one range line."""
    costs = state.index.pool(last, np.zeros(last)).tokens[first - 1 :]
    level = next((level for level in reversed(Level) if costs[:, level].sum() <= SOURCE_TOKENS), None)
    if level is not None and level is not Level.PLACEHOLDER:
        return await _bodies(store, state, first, last, level, step)
    lines = int((costs[::-1, Level.PLACEHOLDER].cumsum() <= SOURCE_TOKENS).sum())
    older = last - lines
    texts = [range_line(state.index, first - 1, older, counter, state.nonce)] if older >= first else []
    lines_of = ((facts.number, guard_nonce(facts.placeholder, state.nonce)) for facts in state.index.facts[older:last])
    return [*texts, *(rendered(number, Level.PLACEHOLDER, line) for number, line in lines_of)]


async def _bodies(store: ChunkStore, state: SessionState, first: int, last: int, level: Level, step: int) -> list[str]:
    shown = state.index.shown_as(np.full(last, int(level), dtype=np.int8))[first - 1 :]
    texts: list[str] = []
    for start in range(first, last + 1, PAGE):
        numbers = range(start, min(start + PAGE, last + 1))
        levels = {number: Level(int(shown[number - first])) for number in numbers}
        whole = [number for number in numbers if levels[number] is Level.FULL]
        bodies = {chunk.step.number: full_text(chunk.step) for chunk in await store.chunks(whole)}
        partial = [number for number in numbers if levels[number] is not Level.FULL]
        for view in await store.views(partial, at_step=step):
            if view.level is levels[view.chunk]:
                bodies[view.chunk] = view.text
        for number in numbers:
            body = bodies.get(number, state.index.facts[number - 1].placeholder)
            texts.append(rendered(number, levels[number], guard_nonce(body, state.nonce)))
    return texts

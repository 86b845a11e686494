"""Session side of the texts that stand for runs of steps: what they are made from, and how they are stored."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from memory.chunking import full_text
from memory.errors import SummaryFailed
from memory.frame import block as rendered
from memory.frame import guard_nonce
from memory.index.chunks import ChunkIndex
from memory.plan import FOLDED, Block, LevelArray, NeedsSummary
from memory.ports import BlockMaker, ChunkStore, TokenCounter
from memory.records import Level
from memory.render import range_line
from memory.state import SessionState

SOURCE_TOKENS = 60_000
"""What a text is made from: a longer range is taken at a coarser level, as far as its views exist."""


async def make_block(
    store: ChunkStore,
    state: SessionState,
    maker: BlockMaker | None,
    counter: TokenCounter,
    need: NeedsSummary,
    number: int,
) -> Block:
    """Have a text made for the step about to be taken. Raises SummaryFailed when nothing makes texts."""
    if maker is None:
        raise SummaryFailed("this policy needs summaries of ranges, and nothing here makes them")
    question = state.question
    step = len(state.index) + 1
    texts = await source_texts(store, state, counter, need.first, need.last, step)
    return await maker.make(need, number, step, texts, question.text if question else "")


async def add_block(store: ChunkStore, state: SessionState, made: Block) -> None:
    """Store a block; from here on policies see it."""
    await store.add_block(made)
    state.blocks.append(made)


async def source_texts(
    store: ChunkStore, state: SessionState, counter: TokenCounter, first: int, last: int, step: int
) -> list[str]:
    """The chunks ``first``-``last`` as a history would show them, within `SOURCE_TOKENS`."""
    codes = source_codes(state.index, first, last)
    numbers = np.arange(first, last + 1)
    bodies = {
        chunk.step.number: full_text(chunk.step) for chunk in await store.chunks(numbers[codes == Level.FULL].tolist())
    }
    partial = numbers[(codes == Level.DETAILED) | (codes == Level.BRIEF)].tolist()
    for view in await store.views(partial, at_step=step):
        if view.level == codes[view.chunk - first]:
            bodies[view.chunk] = view.text
    return source_blocks(state.index, counter, state.nonce, first, codes, bodies)


def source_codes(index: ChunkIndex, first: int, last: int) -> LevelArray:
    """(last - first + 1,) how each chunk is shown to whoever makes the text: all at the finest level at which they stay
    within `SOURCE_TOKENS`, aliases resolved; where even their lines are too many, the older ones FOLDED."""
    costs = index.pool(last, np.zeros(last)).tokens[first - 1 :]
    for level in reversed(Level):
        if costs[:, level].sum() <= SOURCE_TOKENS:
            return index.shown_as(np.full(last, int(level), dtype=np.int8))[first - 1 :]
    lines = costs[::-1, Level.PLACEHOLDER].cumsum()[::-1] <= SOURCE_TOKENS
    return np.where(lines, np.int8(Level.PLACEHOLDER), np.int8(FOLDED)).astype(np.int8)


def source_blocks(
    index: ChunkIndex, counter: TokenCounter, nonce: str, first: int, codes: LevelArray, bodies: Mapping[int, str]
) -> list[str]:
    """The rendered blocks, one a chunk, one range line for what is FOLDED. ``bodies``: texts above PLACEHOLDER."""
    folded = int((codes == FOLDED).sum())
    texts = [range_line(index, first - 1, first - 1 + folded, counter, nonce)] if folded else []
    for number, code in enumerate(codes[folded:].tolist(), first + folded):
        body = bodies.get(number, "") if code > Level.PLACEHOLDER else ""
        level = Level(code) if body else Level.PLACEHOLDER
        texts.append(rendered(number, level, guard_nonce(body or index.facts[number - 1].placeholder, nonce)))
    return texts

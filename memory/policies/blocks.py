"""What policies share whose contexts hold texts that stand for runs of steps. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from memory.plan import HIDDEN, MAX_BLOCKS_A_STEP, Block, ContextPlan, PlanInput
from memory.records import Level

LEAST_TOKENS = 64
"""Smallest bound that a text is asked for with."""


def in_force(blocks: Iterable[Block], kinds: Collection[str], count: int) -> tuple[Block, ...]:
    """The blocks of these kinds that no later one replaces, disjoint, oldest steps first.

    A later block replaces every earlier one that it overlaps. Blocks of the recent window alone (after chunk ``count``)
    are not shown yet.
    """
    kept: list[Block] = []
    for block in blocks:
        if block.kind not in kinds or block.first > count:
            continue
        if kept and kept[-1].last >= block.first:
            kept = [one for one in kept if one.last < block.first or one.first > block.last]
        kept.append(block)
        if len(kept) > 1 and kept[-2].first > block.first:
            kept.sort(key=lambda one: one.first)
    return tuple(kept)


def under_blocks(given: PlanInput, blocks: tuple[Block, ...]) -> ContextPlan:
    """Blocks in place of what they cover, everything else FULL; a chunk is worth more the newer it is."""
    count = len(given.pool)
    levels = np.full(count, int(Level.FULL), dtype=np.int8)
    for block in blocks:
        levels[block.first - 1 : block.last] = HIDDEN
    return ContextPlan(levels, recency(count), blocks=blocks)


def recency(count: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """(count,) values in (0, 1], newest largest."""
    return np.arange(1, count + 1, dtype=np.float64) / max(1, count)


def planned_tokens(plan: ContextPlan, given: PlanInput) -> int:
    """Tokens of the whole request as planned, before any cut (interleaved)."""
    seen = plan.levels != HIDDEN
    shown = given.pool.tokens[np.flatnonzero(seen), plan.levels[seen]]
    blocks = sum(block.tokens for block in plan.blocks)
    return given.fixed_tokens + given.recent_tokens + blocks + int(shown.sum())


def text_bound(tokens: int, budget: int) -> int:
    """Bound of a text that stays in the context: as configured, but at most a quarter of the budget."""
    return max(LEAST_TOKENS, min(tokens, budget // 4))


def may_ask(given: PlanInput) -> bool:
    """Whether the memory would still have a text made at this step."""
    newest = given.blocks[-MAX_BLOCKS_A_STEP:]
    return len(newest) < MAX_BLOCKS_A_STEP or newest[0].published_step < given.step

"""The hard budget: whatever a policy planned, the rendered request fits, or fails by name before any call.

One sequence of cuts is computed from the plan alone, and a budget takes the shortest prefix of it that fits; so a
smaller budget always cuts a superset (`fit` is monotone in the budget):

0. nothing;
1. every run of adjacent placeholders that costs more than a range line becomes one;
2. old chunks are demoted one level at a time, least value lost per token saved first; what becomes a placeholder joins
   the runs;
3. the texts of the recent window are clipped to ever smaller caps, the largest first.

Each cut never raises the cost (a run costs ``min(sum of its lines, one range line)``, which is subadditive), so the
prefix is found by bisection over arrays: O(M log M), no loop over chunks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from memory.errors import BudgetTooSmall, ContextExhausted
from memory.plan import BoolArray, ContextPlan, FittedPlan, IntArray, LevelArray, Pool
from memory.records import Level

RANGE_TOKENS = 48
"""Upper bound of a rendered range line, kept by the renderer."""
FIDELITY = np.array([0.05, 0.35, 0.7, 1.0])
"""What a level is worth of its chunk's value, coarse to fine: for trading levels, not a measurement."""
RECENT_CAPS: tuple[int, ...] = tuple(int(48 * 1.35**power) for power in range(32, -1, -1))
"""Caps tried on the texts of the recent window, tokens: about 710,000 down to 48, each .74 of the one before."""

Overflow = Literal["fit", "stop"]


class RecentWindow(Protocol):
    """The last N steps as they would be sent. ``tokens(cap)``: their cost with each text clipped to ``cap`` tokens."""

    def tokens(self, cap: int | None) -> int: ...


@dataclass(frozen=True, slots=True)
class FitInput:
    """What surrounds the old chunks in a request. Tokens by the session's counter."""

    step: int
    budget: int
    fixed_tokens: int
    recent: RecentWindow
    overflow: Overflow = "fit"


def input_budget(window: int, reserved_output: int, configured: int | None = None) -> int:
    """Tokens a request may have: window - reserved output - margin (3 %, at least 512), or less if configured."""
    budget = window - reserved_output - max(512, -(-window * 3 // 100))
    return min(budget, configured) if configured is not None else budget


def ledger_cost(levels: LevelArray, pool: Pool) -> tuple[int, BoolArray]:
    """Tokens of the old chunks with runs of placeholders folded where that is cheaper, and which chunks fold, (M,)."""
    count = len(levels)
    if count == 0:
        return 0, np.zeros(0, dtype=np.bool_)
    shown = pool.tokens[np.arange(count), levels]
    coarse = levels == Level.PLACEHOLDER
    starts = np.flatnonzero(coarse & ~np.concatenate(([False], coarse[:-1])))
    if len(starts) == 0:
        return int(shown.sum()), np.zeros(count, dtype=np.bool_)
    ends = np.flatnonzero(coarse & ~np.concatenate((coarse[1:], [False]))) + 1
    sums = np.concatenate(([0], np.cumsum(shown)))
    cost = sums[ends] - sums[starts]
    long = cost > RANGE_TOKENS
    marks = np.zeros(count + 1, dtype=np.int64)
    np.add.at(marks, starts[long], 1)
    np.add.at(marks, ends[long], -1)
    folded = np.cumsum(marks[:-1]).astype(np.bool_)
    total = int(shown.sum() - cost[long].sum() + RANGE_TOKENS * long.sum())
    return total, folded


def fit(plan: ContextPlan, pool: Pool, given: FitInput) -> FittedPlan:
    """Make the plan fit. Raises ContextExhausted (``overflow: stop``) or BudgetTooSmall."""
    levels = plan.levels
    rows = np.arange(len(pool))
    recent = given.recent.tokens(None)
    around = given.fixed_tokens + recent
    unfitted = around + int(pool.tokens[rows, levels].sum())
    unfolded = np.zeros(len(pool), dtype=np.bool_)
    if unfitted <= given.budget:
        return FittedPlan(levels, unfolded, None, unfitted, unfitted)
    if given.overflow == "stop":
        raise ContextExhausted(step=given.step, budget=given.budget, needed=unfitted)
    order, target = demotions(plan, pool)
    taken = _shortest_prefix(levels, pool, order, target, given.budget - around)
    cut = _apply(levels, order, target, taken)
    cost, folded = ledger_cost(cut, pool)
    if around + cost <= given.budget:
        return FittedPlan(cut, folded, None, around + cost, unfitted, cuts=1 + taken)
    for index, cap in enumerate(RECENT_CAPS):
        clipped = given.recent.tokens(cap)
        if given.fixed_tokens + clipped + cost <= given.budget:
            total = given.fixed_tokens + clipped + cost
            return FittedPlan(cut, folded, cap, total, unfitted, cuts=2 + taken + index)
    raise BudgetTooSmall(budget=given.budget, minimum=given.fixed_tokens + clipped + cost)


def demotions(plan: ContextPlan, pool: Pool) -> tuple[IntArray, LevelArray]:
    """The sequence of one-level demotions: rows (K,) and the level each takes its row to (K,).

    Ordered by value lost per token saved. A chunk's own steps stay in order because a later step's ratio is raised to
    the largest before it; ties go to the older chunk.
    """
    count = len(pool)
    ratios = np.full((count, 3), np.inf)
    current = plan.levels.astype(np.int64)
    worst = np.zeros(count)
    rows = np.arange(count)
    for level in (Level.DETAILED, Level.BRIEF, Level.PLACEHOLDER):
        saved = pool.tokens[rows, current] - pool.tokens[:, level]
        usable = pool.available[:, level] & (current > level) & ((saved > 0) | (level == Level.PLACEHOLDER))
        lost = np.maximum(plan.values, 1e-12) * (FIDELITY[current] - FIDELITY[level])
        ratio = np.maximum(worst, lost / np.maximum(saved, 1))
        ratios[usable, level] = ratio[usable]
        worst = np.where(usable, ratio, worst)
        current = np.where(usable, int(level), current)
    row, level_index = np.nonzero(np.isfinite(ratios))
    # within a row finer targets come first: sort key (ratio, row, -level)
    order = np.lexsort((-level_index, row, ratios[row, level_index]))
    return row[order].astype(np.int64), level_index[order].astype(np.int8)


def _apply(levels: LevelArray, rows: IntArray, target: LevelArray, taken: int) -> LevelArray:
    cut = levels.copy()
    # a row's steps come in order, so the last write is its coarsest level
    cut[rows[:taken]] = target[:taken]
    return cut


def _shortest_prefix(levels: LevelArray, pool: Pool, rows: IntArray, target: LevelArray, room: int) -> int:
    low, high = 0, len(rows)
    while low < high:
        middle = (low + high) // 2
        cost, _ = ledger_cost(_apply(levels, rows, target, middle), pool)
        if cost <= room:
            high = middle
        else:
            low = middle + 1
    return low

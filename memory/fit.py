"""The hard budget: whatever a policy planned, the rendered request fits, or fails by name before any call.

One sequence of cuts is computed from the plan alone, and a budget takes the shortest prefix of it that fits; so a
smaller budget always cuts a superset (`fit` is monotone in the budget):

0. nothing;
1. folding: runs of placeholders become range lines (interleaved), the ledger folds down to its ranges (ledger);
2. old chunks are demoted one level at a time, least value lost per token saved first; what becomes a placeholder joins
   the folding;
3. the plan's blocks give way to the lines of what they cover, oldest first; the ledger becomes one line;
4. the texts of the recent window are clipped to ever smaller caps.

No cut ever raises the cost, so the prefix is found by bisection over arrays: O(M log M), no loop over chunks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np

from memory.errors import BudgetTooSmall, ContextExhausted, MustKeepTooLarge
from memory.index.chunks import ASSUMED
from memory.layout import Interleaved, Layout
from memory.narrow import densities, is_large, narrowings
from memory.plan import ContextPlan, FittedPlan, FloatArray, IntArray, LevelArray, Pool
from memory.records import Level

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
    layout: Layout = field(default_factory=Interleaved)


def input_budget(window: int, reserved_output: int, configured: int | None = None) -> int:
    """Tokens a request may have: window - reserved output - margin (3 %, at least 512), or less if configured."""
    budget = window - reserved_output - max(512, -(-window * 3 // 100))
    return min(budget, configured) if configured is not None else budget


def fit(plan: ContextPlan, pool: Pool, given: FitInput) -> FittedPlan:
    """Make the plan fit. Raises ContextExhausted (``overflow: stop``) or BudgetTooSmall."""
    layout = given.layout
    recent = given.recent.tokens(None)
    blocks = sum(block.tokens for block in plan.blocks)
    around = given.fixed_tokens + recent + blocks
    cost, folded = layout.total(plan.levels, pool, 0)
    unfitted = around + cost
    if unfitted <= given.budget:
        return FittedPlan(plan.levels, folded, None, unfitted, unfitted, blocks=plan.blocks, ledger_base=layout.base(0))
    if plan.folds:
        unfitted = around + layout.total(plan.levels, pool, 1)[0]
    if given.overflow == "stop" and unfitted > given.budget:
        raise ContextExhausted(step=given.step, budget=given.budget, needed=unfitted)
    levels, taken = _demoted(plan, pool, given.budget - around, layout)
    cost, folded = layout.total(levels, pool, 1)
    if around + cost <= given.budget:
        return FittedPlan(
            levels,
            folded,
            None,
            around + cost,
            unfitted,
            cuts=1 + taken,
            blocks=plan.blocks,
            ledger_base=layout.base(1),
        )
    return _last_cuts(plan, levels, pool, given, FittedPlan(levels, folded, None, 0, unfitted, cuts=1 + taken))


def _last_cuts(plan: ContextPlan, levels: LevelArray, pool: Pool, given: FitInput, so_far: FittedPlan) -> FittedPlan:
    """Cuts 3 and 4: every old chunk is a placeholder by now, but those that must be kept."""
    layout, cuts = given.layout, so_far.cuts
    fixed, recent = given.fixed_tokens, given.recent.tokens(None)
    kept = sorted(plan.blocks, key=lambda block: block.first)
    while True:
        cost, folded = layout.total(levels, pool, layout.foldings)
        cost += sum(block.tokens for block in kept)
        cuts += 1
        if fixed + recent + cost <= given.budget or not kept:
            break
        dropped = kept.pop(0)
        levels = levels.copy()
        # ids run from 1 without gaps, so a block's chunks are rows first - 1 to last - 1
        levels[dropped.first - 1 : dropped.last] = Level.PLACEHOLDER
    base = layout.base(layout.foldings)
    cap, clipped = None, recent
    for cap, clipped in _caps(given.recent):
        if fixed + clipped + cost <= given.budget:
            total = fixed + clipped + cost
            return FittedPlan(
                levels, folded, cap, total, so_far.unfitted_tokens, cuts, blocks=tuple(kept), ledger_base=base
            )
        cuts += 1
    minimum = fixed + clipped + cost
    if plan.kept is not None and plan.kept.any():
        without, _ = layout.total(np.where(plan.kept, np.int8(Level.PLACEHOLDER), levels), pool, layout.foldings)
        if fixed + clipped + without <= given.budget:
            raise MustKeepTooLarge(needed=minimum, budget=given.budget, count=int(plan.kept.sum()))
    raise BudgetTooSmall(budget=given.budget, minimum=minimum)


def _caps(recent: RecentWindow) -> Iterator[tuple[int | None, int]]:
    yield None, recent.tokens(None)
    for cap in RECENT_CAPS:
        yield cap, recent.tokens(cap)


def _demoted(plan: ContextPlan, pool: Pool, room: int, layout: Layout) -> tuple[LevelArray, int]:
    """Levels after the shortest prefix of demotions that fits, or all of them; and how many those are. Of a large pool
    only what is last to be demoted is looked at, as long as all else has to be before: that counts once a chunk."""
    above = plan.levels > Level.PLACEHOLDER
    kept = np.zeros(len(pool), dtype=np.bool_) if plan.kept is None else plan.kept
    if is_large(len(pool)):
        falls = value_densities(pool, layout)[np.maximum(plan.levels, 0), np.arange(len(pool))]
        ratios = np.where(above & ~kept, np.maximum(plan.values, 1e-12) * falls, 0.0)
        narrow = layout.over(pool)
        for some in narrowings(ratios, kept & above, plan, pool, room):
            rows, target, ratio = demotions(some.plan, some.pool, narrow)
            taken = _shortest_prefix(some.plan.levels, some.pool, rows, target, room, narrow)
            if taken and ratio[taken - 1] > some.bound:
                levels = _apply(some.plan.levels, rows, target, taken)
                others = int(np.count_nonzero(above)) - int(np.count_nonzero(above[some.rows]))
                return some.widened(levels, plan.levels), taken + others
    rows, target, _ = demotions(plan, pool, layout)
    taken = _shortest_prefix(plan.levels, pool, rows, target, room, layout)
    return _apply(plan.levels, rows, target, taken), taken


def value_densities(pool: Pool, layout: Layout) -> FloatArray:
    """(4, M) those rows of the pool's `densities` that are meant for the layout."""
    found = pool.densities
    if found is None:
        found = densities(pool.tokens, pool.available, level_fidelity(pool))
    return found[4:] if layout.base(0) else found[:4]


def demotions(plan: ContextPlan, pool: Pool, layout: Layout | None = None) -> tuple[IntArray, LevelArray, FloatArray]:
    """The sequence of one-level demotions: rows (K,), the level each takes its row to (K,), and value lost per token.

    Ordered by value lost per token saved. A chunk's own steps stay in order because a later step's ratio is raised to
    the largest before it; ties go to the older chunk.
    """
    count = len(pool)
    costs = (layout or Interleaved()).costs(pool)
    fidelity = level_fidelity(pool)
    ratios = np.full((count, 3), np.inf)
    current = plan.levels.astype(np.int64)
    worst = np.zeros(count)
    rows = np.arange(count)
    free = np.ones(count, dtype=np.bool_) if plan.kept is None else ~plan.kept
    for level in (Level.DETAILED, Level.BRIEF, Level.PLACEHOLDER):
        at = np.maximum(current, 0)
        saved = costs[rows, at] - costs[:, level]
        usable = free & pool.available[:, level] & (current > level) & ((saved > 0) | (level == Level.PLACEHOLDER))
        lost = np.maximum(plan.values, 1e-12) * np.maximum(fidelity[rows, at] - fidelity[:, level], 1e-6)
        ratio = np.maximum(worst, lost / np.maximum(saved, 1))
        ratios[usable, level] = ratio[usable]
        worst = np.where(usable, ratio, worst)
        current = np.where(usable, int(level), current)
    row, level_index = np.nonzero(np.isfinite(ratios))
    # within a row finer targets come first: sort key (ratio, row, -level)
    order = np.lexsort((-level_index, row, ratios[row, level_index]))
    row, level_index = row[order], level_index[order]
    return row.astype(np.int64), level_index.astype(np.int8), ratios[row, level_index]


def level_fidelity(pool: Pool) -> FloatArray:
    """(M, 4) share of a chunk's value that each level keeps: measured where the pool carries it, else by constants."""
    if pool.fidelity is not None:
        return pool.fidelity
    return np.broadcast_to(ASSUMED, (len(pool), 4))


def _apply(levels: LevelArray, rows: IntArray, target: LevelArray, taken: int) -> LevelArray:
    cut = levels.copy()
    # a row's steps come in order, so the last write is its coarsest level
    cut[rows[:taken]] = target[:taken]
    return cut


def _shortest_prefix(
    levels: LevelArray, pool: Pool, rows: IntArray, target: LevelArray, room: int, layout: Layout
) -> int:
    low, high = 0, len(rows)
    while low < high:
        middle = (low + high) // 2
        cost, _ = layout.total(_apply(levels, rows, target, middle), pool, 1)
        if cost <= room:
            high = middle
        else:
            low = middle + 1
    return low

"""The spend pass: what a plan leaves of the budget buys finer levels, most value per token first.

Published PACE uses about a third of a generous budget and loses recall by it. This pass runs after `fit`, never exceeds
the budget, and is off in the paper profile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from memory.fit import FitInput, level_fidelity, value_densities
from memory.layout import Layout
from memory.narrow import is_large, narrowings
from memory.plan import HIDDEN, BoolArray, ContextPlan, FittedPlan, FloatArray, IntArray, LevelArray, Pool
from memory.records import Level

LEDGER_SHARE = 0.1
"""Placeholders may take this share of the budget before runs of them are folded to make room for text."""
MISSES = 64
"""Candidates that may fail to fit, one after another, before the pass ends."""


@dataclass(frozen=True, slots=True)
class _Bought:
    """``least``: ratio of the last candidate looked at; ``folded``: what was folded before each round."""

    levels: LevelArray
    folding: int
    least: float
    folded: list[BoolArray]


def spend(fitted: FittedPlan, plan: ContextPlan, pool: Pool, given: FitInput) -> FittedPlan:
    """Upgrade what fits. The result costs at most ``given.budget`` and shows no chunk coarser than ``fitted`` did."""
    if len(pool) == 0 or fitted.recent_cap is not None or plan.ceiling is Level.PLACEHOLDER:
        return fitted
    layout = given.layout
    around = given.fixed_tokens + given.recent.tokens(None) + sum(block.tokens for block in fitted.blocks)
    levels, folding = _bought(replace(plan, levels=fitted.levels), pool, fitted.tokens - around, around, given)
    cost, folded = layout.total(levels, pool, folding)
    total = around + cost
    return replace(
        fitted,
        levels=levels,
        folded=folded,
        tokens=total,
        spent=max(0, total - fitted.tokens),
        ledger_base=layout.base(folding),
    )


def _bought(plan: ContextPlan, pool: Pool, cost: int, around: int, given: FitInput) -> tuple[LevelArray, int]:
    """Levels after the upgrades, and the folding; ``cost`` tokens of all old chunks before. Of a large pool only what
    stands above PLACEHOLDER is looked at, and what would be raised first."""
    if is_large(len(pool)):
        layout = given.layout.over(pool)
        ratios = np.where(plan.levels != HIDDEN, plan.values * value_densities(pool, layout)[0], 0.0)
        for some in narrowings(ratios, plan.levels > Level.PLACEHOLDER, plan, pool, given.budget):
            bought = _rounds(some.plan, some.pool, cost, around, given.budget, layout)
            if bought.least > some.bound and all(map(some.all_folded, bought.folded)):
                return some.widened(bought.levels, plan.levels), bought.folding
    bought = _rounds(plan, pool, cost, around, given.budget, given.layout)
    return bought.levels, bought.folding


def _rounds(plan: ContextPlan, pool: Pool, cost: int, around: int, budget: int, layout: Layout) -> _Bought:
    levels = plan.levels.copy()
    folding = next(n for n in range(layout.foldings, -1, -1) if layout.total(levels, pool, n)[0] == cost)
    if folding == 0 and _lines(levels, pool) > LEDGER_SHARE * budget:
        folding = 1
    least, met = np.inf, []
    cost, folded = layout.total(levels, pool, folding)
    for _ in range(2):
        # the price of splitting a range is an upper bound, so a second round spends what the first overestimated
        before = levels.copy()
        met.append(folded)
        least = min(least, _buy(levels, folded, plan, pool, budget - around - cost, layout))
        if (levels == before).all():
            break
        cost, folded = layout.total(levels, pool, folding)
    return _Bought(levels, folding, least, met)


def _lines(levels: LevelArray, pool: Pool) -> int:
    return int(pool.tokens[levels == Level.PLACEHOLDER, Level.PLACEHOLDER].sum())


def _buy(levels: LevelArray, folded: BoolArray, plan: ContextPlan, pool: Pool, spare: int, layout: Layout) -> float:
    """Raise ``levels`` in place; returns the ratio of the candidate at which it ended, 0 if all were looked at."""
    rows, target, extra, ratios = _candidates(levels, folded, plan, pool, layout)
    paid: dict[int, int] = {}
    misses = 0
    for place, (row, level, tokens) in enumerate(zip(rows.tolist(), target.tolist(), extra.tolist(), strict=True)):
        if level <= levels[row]:
            continue
        due = tokens - paid.get(row, 0)
        if due > spare:
            misses += 1
            if misses > MISSES:
                return float(ratios[place])
            continue
        levels[row] = level
        paid[row] = tokens
        spare -= due
    return 0.0


def _candidates(
    levels: LevelArray, folded: BoolArray, plan: ContextPlan, pool: Pool, layout: Layout
) -> tuple[IntArray, IntArray, IntArray, FloatArray]:
    """Upgrades (K,): row, level, extra tokens over what the row costs now, and value per token; best first."""
    count = len(levels)
    now = np.maximum(levels.astype(np.int64), 0)
    index = np.arange(count)
    costs, fidelity = layout.costs(pool), level_fidelity(pool)
    cost_now = np.where(folded, 0, costs[index, now])
    split = layout.split(folded)
    seen = levels != HIDDEN
    rows, targets, extras, ratios = [], [], [], []
    for level in (Level.BRIEF, Level.DETAILED, Level.FULL):
        if level > plan.ceiling:
            continue
        usable = pool.available[:, level] & (now < level) & seen
        extra = costs[:, level] - cost_now + split
        gain = plan.values * (fidelity[:, level] - fidelity[index, now])
        rows.append(index[usable])
        targets.append(np.full(int(usable.sum()), int(level)))
        extras.append(extra[usable])
        ratios.append(gain[usable] / np.maximum(extra[usable], 1))
    if not rows:
        empty = np.zeros(0, dtype=np.int64)
        return empty, empty, empty, np.zeros(0)
    row, target, more, ratio = (np.concatenate(parts) for parts in (rows, targets, extras, ratios))
    # among equal ratios the newer chunk first: recent text is the likelier need
    order = np.lexsort((-row, -ratio))
    return row[order], target[order], more[order], ratio[order]

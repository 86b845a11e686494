"""The spend pass: what a plan leaves of the budget buys finer levels, most value per token first.

Published PACE uses about a third of a generous budget and loses recall by it. This pass runs after `fit`, never exceeds
the budget, and is off in the paper profile.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from memory.fit import FitInput, level_fidelity
from memory.layout import Layout
from memory.plan import HIDDEN, BoolArray, ContextPlan, FittedPlan, IntArray, LevelArray, Pool
from memory.records import Level

LEDGER_SHARE = 0.1
"""Placeholders may take this share of the budget before runs of them are folded to make room for text."""
MISSES = 64
"""Candidates that may fail to fit, one after another, before the pass ends."""


def spend(fitted: FittedPlan, plan: ContextPlan, pool: Pool, given: FitInput) -> FittedPlan:
    """Upgrade what fits. The result costs at most ``given.budget`` and shows no chunk coarser than ``fitted`` did."""
    if len(pool) == 0 or fitted.recent_cap is not None or plan.ceiling is Level.PLACEHOLDER:
        return fitted
    layout = given.layout
    around = given.fixed_tokens + given.recent.tokens(None) + sum(block.tokens for block in fitted.blocks)
    levels, folded = fitted.levels.copy(), fitted.folded
    folding = next(
        n for n in range(layout.foldings, -1, -1) if layout.total(levels, pool, n)[0] + around == fitted.tokens
    )
    if folding == 0 and _lines(levels, pool) > LEDGER_SHARE * given.budget:
        folding = 1
    cost, folded = layout.total(levels, pool, folding)
    for _ in range(2):
        # the price of splitting a range is an upper bound, so a second round spends what the first overestimated
        before = levels.copy()
        _buy(levels, folded, plan, pool, given.budget - around - cost, layout)
        if (levels == before).all():
            break
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


def _lines(levels: LevelArray, pool: Pool) -> int:
    return int(pool.tokens[levels == Level.PLACEHOLDER, Level.PLACEHOLDER].sum())


def _buy(levels: LevelArray, folded: BoolArray, plan: ContextPlan, pool: Pool, spare: int, layout: Layout) -> None:
    rows, target, extra = _candidates(levels, folded, plan, pool, layout)
    paid: dict[int, int] = {}
    misses = 0
    for row, level, tokens in zip(rows.tolist(), target.tolist(), extra.tolist(), strict=True):
        if level <= levels[row]:
            continue
        due = tokens - paid.get(row, 0)
        if due > spare:
            misses += 1
            if misses > MISSES:
                break
            continue
        levels[row] = level
        paid[row] = tokens
        spare -= due


def _candidates(
    levels: LevelArray, folded: BoolArray, plan: ContextPlan, pool: Pool, layout: Layout
) -> tuple[IntArray, IntArray, IntArray]:
    """Upgrades (K,): row, level, extra tokens over what the row costs now; best value per token first."""
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
        return empty, empty, empty
    row, target, more = np.concatenate(rows), np.concatenate(targets), np.concatenate(extras)
    # among equal ratios the newer chunk first: recent text is the likelier need
    order = np.lexsort((-row, -np.concatenate(ratios)))
    return row[order], target[order], more[order]

"""Few of many: which old chunks a budget can make a difference to, so that the rest need not be looked at one by one.

At 100,000 old chunks a budget shows some hundreds above PLACEHOLDER. `fit` and `spend` work on those near that edge,
with each run of the others as a single row; a bound on what was left out says whether all of them would have led to
the same result. Where it might not have, more are taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from memory.layout import RANGE_TOKENS
from memory.plan import HIDDEN, BoolArray, ContextPlan, FloatArray, IntArray, LevelArray, Pool
from memory.records import Level

FEWEST = 1024
"""Chunks looked at, at least."""
_TOKENS_EACH = 25
"""Or one for so many tokens of the budget: about half a BRIEF."""
_MORE = 4
"""How many times as many are taken where those were too few."""
_SLACK = 1 + 1e-9
"""So that rounding does not make a bound too low."""


@dataclass(frozen=True, slots=True)
class Narrowed:
    """Some chunks of a pool, and a row for each run of the others, which has no level but its own.

    ``rows`` (k,) those chunks, ascending; ``places`` (k,) where they stand in ``plan`` and ``pool``. ``bound``: no
    other chunk has a higher ratio.
    """

    rows: IntArray
    places: IntArray
    plan: ContextPlan
    pool: Pool
    bound: float

    def all_folded(self, folded: BoolArray) -> bool:
        """Whether every PLACEHOLDER that was left out is ``folded``."""
        others = self.plan.levels == Level.PLACEHOLDER
        others[self.places] = False
        return bool(folded[others].all())

    def widened(self, levels: LevelArray, planned: LevelArray) -> LevelArray:
        """(M,) ``levels`` of the chunks that were looked at, and what the others are taken to be in ``planned``."""
        result: LevelArray = np.minimum(planned, np.int8(Level.PLACEHOLDER))
        result[self.rows] = levels[self.places]
        return result


def is_large(count: int) -> bool:
    """Whether looking at few of ``count`` chunks can be worth the trouble."""
    return count > 2 * FEWEST


def narrowings(ratios: FloatArray, must: BoolArray, plan: ContextPlan, pool: Pool, budget: int) -> Iterator[Narrowed]:
    """Ever more chunks of a large pool: those of the highest ``ratios`` (M,), and all that ``must`` (M,) be looked at;
    the others are taken to be PLACEHOLDER, where they are not HIDDEN. Ends where looking at all costs no more."""
    count, looked_at = len(pool), max(FEWEST, budget // _TOKENS_EACH)
    while 2 * (looked_at + int(np.count_nonzero(must))) < count:
        edge = float(np.partition(ratios, count - looked_at)[count - looked_at])
        yield _narrowed((ratios > edge) | must, edge * _SLACK, plan, pool)
        looked_at *= _MORE


def _narrowed(chosen: BoolArray, bound: float, plan: ContextPlan, pool: Pool) -> Narrowed:
    hidden = plan.levels == HIDDEN
    starts, lines = _runs(chosen, hidden, pool)
    short = ~(chosen | hidden)[starts] & (lines <= RANGE_TOKENS)
    if short.any():
        # what is left out is then folded, whatever becomes of what is looked at
        chosen = chosen | np.repeat(short, np.diff(starts, append=len(pool)))
        starts, lines = _runs(chosen, hidden, pool)
    inside = chosen[starts]
    places = np.flatnonzero(inside)
    rows = starts[places]
    tokens = np.repeat(lines[:, np.newaxis], 4, axis=1)
    tokens[places] = pool.tokens[rows]
    available = np.zeros((len(starts), 4), dtype=np.bool_)
    available[places] = pool.available[rows]
    levels = np.where(inside, plan.levels[starts], np.minimum(plan.levels[starts], np.int8(Level.PLACEHOLDER)))
    smaller = Pool(
        pool.ids[starts],
        tokens,
        available,
        np.zeros(len(starts)),
        fidelity=None if pool.fidelity is None else pool.fidelity[starts],
    )
    values = np.where(inside, plan.values[starts], 0.0)
    kept = None if plan.kept is None else plan.kept[starts] & inside
    return Narrowed(rows, places, replace(plan, levels=levels, values=values, kept=kept), smaller, bound)


def _runs(chosen: BoolArray, hidden: BoolArray, pool: Pool) -> tuple[IntArray, IntArray]:
    """First row of each chosen chunk and of each run between them, and the tokens of its lines."""
    first = chosen.copy()
    first[0] = True
    first[1:] |= chosen[:-1] | (hidden[1:] != hidden[:-1])
    starts = np.flatnonzero(first)
    return starts, np.add.reduceat(pool.tokens[:, Level.PLACEHOLDER], starts)


def densities(tokens: IntArray, available: BoolArray, fidelity: FloatArray) -> FloatArray:
    """(8, M) value per token at most, per unit of a chunk's value: four rows for the interleaved layout, then four for
    the ledger.

    Of each four, row 0: what the way up from a line gains, in the interleaved layout from inside a range line. Row g:
    what the last step of the way down from level g loses, a step counted as no cheaper than those before it.
    """
    result = np.zeros((8, len(tokens)))
    lines = tokens.copy()
    lines[:, Level.PLACEHOLDER] = 0
    _add_densities(result[:4], tokens, available, fidelity, RANGE_TOKENS)
    _add_densities(result[4:], lines, available, fidelity, 0)
    return result


def _add_densities(into: FloatArray, costs: IntArray, available: BoolArray, fidelity: FloatArray, split: int) -> None:
    rows = np.arange(len(costs))
    for level in (Level.BRIEF, Level.DETAILED, Level.FULL):
        gain = np.where(available[:, level], fidelity[:, level] - fidelity[:, 0], 0.0)
        into[0] = np.maximum(into[0], gain / np.maximum(costs[:, level] + split, 1))
        current = np.full(len(costs), int(level))
        for lower in range(level - 1, -1, -1):
            saved = costs[rows, current] - costs[:, lower]
            usable = (available[:, lower] & (saved > 0)) | (lower == Level.PLACEHOLDER)
            lost = np.maximum(fidelity[rows, current] - fidelity[:, lower], 1e-6) / np.maximum(saved, 1)
            into[level] = np.where(usable, np.maximum(into[level], lost), into[level])
            current = np.where(usable, lower, current)

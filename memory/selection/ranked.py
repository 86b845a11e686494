"""Filling a budget in a fixed order: by score, by age, or the k best (the baselines of PACMS)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from memory.plan import IntArray
from memory.selection.checks import checked_budget, finite, kept, tokens


def top_k_fill(
    scores: ArrayLike, costs: ArrayLike, budget: int, must_keep: Iterable[int] = (), *, skip: bool = False
) -> IntArray:
    """Items by score until the budget: (k,) ascending.

    ``scores`` (n,), ``costs`` (n,) whole tokens. ``must_keep`` first; then best first, of equals the newer (higher)
    item, up to the first that does not fit (with ``skip`` past it). Raises ValueError for NaN, negative costs or
    budget and wrong shapes, `MustKeepTooLarge`.
    """
    values = finite("scores", scores)
    order = np.lexsort((-np.arange(len(values)), -values))
    return _fill(order, tokens("costs", costs, (len(values),)), budget, must_keep, skip)


def last_k_fill(costs: ArrayLike, budget: int, must_keep: Iterable[int] = (), *, skip: bool = False) -> IntArray:
    """The newest (highest) items until the budget: (k,) ascending. Otherwise as `top_k_fill`."""
    array = np.asarray(costs)
    price = tokens("costs", array, (array.size,))
    return _fill(np.arange(len(price))[::-1], price, budget, must_keep, skip)


def rag(scores: ArrayLike, costs: ArrayLike, budget: int, k: int = 10, must_keep: Iterable[int] = ()) -> IntArray:
    """The ``k`` best items, then cut to the budget, in order of relevance: (<= k + must-keep,), best first.

    What must be kept stands first, ascending, and does not count as one of the k. Otherwise as `top_k_fill`; also
    raises ValueError if ``k`` is negative.
    """
    if k < 0:
        raise ValueError(f"k cannot be negative: {k}")
    values = finite("scores", scores)
    price = tokens("costs", costs, (len(values),))
    limit = checked_budget(budget)
    keep = kept(must_keep, price, limit)
    order = np.lexsort((-np.arange(len(values)), -values))
    best = order[~np.isin(order, keep)][:k]
    fits = np.cumsum(price[best]) <= limit - int(price[keep].sum())
    return np.concatenate([keep, best[fits]])


def _fill(order: IntArray, costs: IntArray, budget: int, must_keep: Iterable[int], skip: bool) -> IntArray:
    limit = checked_budget(budget)
    keep = kept(must_keep, costs, limit)
    rest = order[~np.isin(order, keep)]
    room = limit - int(costs[keep].sum())
    if not skip:
        taken = rest[np.cumsum(costs[rest]) <= room]
        return np.sort(np.concatenate([keep, taken]))
    chosen = keep.tolist()
    for item in rest[costs[rest] <= room].tolist():
        if costs[item] <= room:
            chosen.append(item)
            room -= int(costs[item])
    return np.sort(np.array(chosen, dtype=np.int64))

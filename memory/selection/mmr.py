"""Maximal marginal relevance, by the rule of LangChain (after Carbonell and Goldstein 1998)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from memory.plan import IntArray
from memory.selection.checks import checked_budget, finite, kept, tokens
from memory.selection.similarity import Cosines, Float32Array, Keys


def mmr(
    scores: ArrayLike,
    similarity: Cosines | Keys | Float32Array,
    costs: ArrayLike,
    budget: int,
    must_keep: Iterable[int] = (),
    *,
    mult: float = 0.5,
) -> IntArray:
    """First the best match, then again and again the item with the highest mult * score - (1 - mult) * its highest
    cosine to what is chosen; what does not fit is skipped. (k,) in order of choice, must-keep first (it counts as
    chosen).

    ``scores`` (n,) cosines to the query, ``similarity`` over the same n, a plain (n, n) matrix being all cosines,
    ``costs`` (n,) whole tokens. Of equals the newer (higher) item wins. Each pick costs one row of cosines: O(n d)
    from keys. Raises ValueError for NaN, negative costs or budget, wrong shapes and ``mult`` outside [0, 1],
    `MustKeepTooLarge`.
    """
    values = finite("scores", scores)
    alike = Cosines(similarity) if isinstance(similarity, np.ndarray) else similarity
    if len(alike) != len(values):
        raise ValueError(f"similarity is over {len(alike)} items, not {len(values)}")
    if not 0 <= mult <= 1:
        raise ValueError(f"mult must be from 0 to 1, not {mult}")
    price = tokens("costs", costs, (len(values),))
    room = checked_budget(budget)
    chosen = kept(must_keep, price, room).tolist()
    room -= int(price[chosen].sum())
    nearest = np.full(len(values), -np.inf)
    for item in chosen:
        np.maximum(nearest, _row(alike, item), out=nearest)
    open_ = price <= room
    open_[chosen] = False
    while open_.any():
        worth = mult * values - (1 - mult) * nearest if chosen else values
        candidates = np.flatnonzero(open_)[::-1]
        item = int(candidates[worth[candidates].argmax()])
        chosen.append(item)
        room -= int(price[item])
        np.maximum(nearest, _row(alike, item), out=nearest)
        open_[item] = False
        open_ &= price <= room
    return np.array(chosen, dtype=np.int64)


def _row(similarity: Cosines | Keys, item: int) -> Float32Array:
    rows = similarity.matrix if isinstance(similarity, Cosines) else similarity.rows
    row: Float32Array = rows[item]
    return row if isinstance(similarity, Cosines) else rows @ row

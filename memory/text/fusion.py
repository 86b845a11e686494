"""Reciprocal-rank fusion (Cormack, Clarke, Buettcher 2009)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def reciprocal_rank(
    *scores: NDArray[np.floating] | Sequence[float],
    k: float = 60,
    weights: Sequence[float] | None = None,
    window: int | None = None,
) -> NDArray[np.float64]:
    """(n,) fused score: sum over the given (n,) scores of weight / (k + rank). Ranks beyond ``window`` add nothing, so
    that the best of a part that holds every window are the best of the whole.

    Rank 1 is the highest score; equal scores share their best rank, so a list that says nothing moves nothing. NaN
    ranks last. Raises ValueError when lengths differ or nothing is given.
    """
    if not scores:
        raise ValueError("nothing to fuse")
    columns = [np.nan_to_num(np.asarray(column, dtype=np.float64), nan=-np.inf) for column in scores]
    if any(column.shape != columns[0].shape or column.ndim != 1 for column in columns):
        raise ValueError("scores to fuse must have the same length")
    if weights is not None and len(weights) != len(columns):
        raise ValueError("one weight for each list of scores")
    fused = np.zeros(len(columns[0]), dtype=np.float64)
    for column, weight in zip(columns, weights or [1.0] * len(columns), strict=True):
        ordered = np.sort(-column)
        rank = np.searchsorted(ordered, -column, side="left") + 1
        fused += np.where(rank <= (window or len(rank)), weight / (k + rank), 0.0)
    return fused

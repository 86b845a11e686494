"""Facility location under a token budget: which items to keep so that the relevant ones are covered (PACMS)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from memory.plan import IntArray
from memory.selection.checks import checked_budget, finite, kept, tokens
from memory.selection.pool import BoundOver, Method, Pool, solve_pool
from memory.selection.similarity import Cosines, Float32Array, Keys, Neighbours, Similarity
from memory.selection.solve import EngineName, engine


@dataclass(frozen=True, slots=True)
class Selection:
    """``chosen`` items, ascending; ``objective`` F(S); ``cost`` tokens.

    ``upper_bound``: no set within the budget has a higher F, over what ``bound_over`` says: the whole ``pool``, F on
    the neighbour ``graph``, or sets from the ``shortlist``. ``evaluations``: gains computed.
    """

    chosen: IntArray
    objective: float
    cost: int
    upper_bound: float
    bound_over: BoundOver
    evaluations: int
    method: Method


def select(
    relevance: ArrayLike,
    similarity: Similarity | Float32Array,
    costs: ArrayLike,
    budget: int,
    must_keep: Iterable[int] = (),
    *,
    method: Method = "auto",
    using: EngineName = "auto",
) -> Selection:
    """Maximise F(S) = sum_i rel_i * max_{j in S} max(0, cos_ij) with cost(S) <= budget and ``must_keep`` inside S.

    ``relevance`` (n,) >= 0; ``similarity`` over the same n items, a plain (n, n) matrix being all cosines; ``costs``
    (n,) whole tokens >= 0. Lazy greedy by gain per token and by gain and the best single item; the best of them is
    kept: at least (1 - 1/e)/2 of what the optimum gains over must-keep (Leskovec et al. 2007), where the method is
    ``dense``. Items that add nothing are not taken. Of equals the newer (higher) item wins.

    ``method``: ``dense`` looks at all cosines; ``sparse`` at neighbours only; ``two-stage`` at all cosines of a
    shortlist that the neighbours give, or, where the choice on the graph leaves next to nothing that other items could
    cover better, at those that tell its F. ``auto``: ``dense`` up to 2,048 items, above that ``two-stage``, or
    ``sparse`` with the 24 nearest where the budget takes much of the pool. Other than ``dense`` they leave out the pass
    by gain where the first reaches .8 of its upper bound.
    From `Keys` neighbours are computed anew (seconds for 20,000 items): keep a `SimilarityGraph`.

    Raises ValueError for NaN, negative numbers and wrong shapes, `MustKeepTooLarge`, ImportError if ``using`` numba
    and it is not installed.
    """
    values = finite("relevance", relevance, least=0.0)
    alike = Cosines(similarity) if isinstance(similarity, np.ndarray) else similarity
    price = tokens("costs", costs, (len(values),))
    limit = checked_budget(budget)
    keep = kept(must_keep, price, limit)
    floor = np.zeros(len(values), dtype=np.int64)
    floor[keep] = 1
    fidelity = np.zeros((len(values), 2))
    fidelity[:, 1] = 1.0
    pool = Pool(values, fidelity, np.stack([np.zeros_like(price), price], axis=1), 1.0, alike)
    room = limit - int(price[keep].sum())
    found = solve_pool(pool, floor, room, method=method, worker=engine(using), both=True)
    chosen = np.flatnonzero(found.levels)
    return Selection(
        chosen,
        found.objective,
        int(price[chosen].sum()),
        found.upper_bound,
        found.bound_over,
        found.evaluations,
        found.method,
    )


def warm_up() -> None:
    """Load the compiled kernels, or compile them where that has not been done (some seconds): else the first selection
    of a process waits for it. Does nothing of use without numba."""
    one = np.ones((1, 1), dtype=np.float32)
    row = Neighbours.from_csr([0, 1], [0], [1.0], Keys(one))
    select([1.0], Cosines(one), [1], 1)
    select([1.0], row, [1], 1, method="sparse")
    worker = engine()
    problem = Pool(np.ones(1), np.ones((1, 1)), np.ones((1, 1), dtype=np.int64), 1.0, row).problem(row, worker)
    worker.offered(problem, row, worker.reached(problem, row, np.zeros(1, dtype=np.int64)))

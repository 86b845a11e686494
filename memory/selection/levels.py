"""Which chunk at which resolution: facility location over (chunk, level) pairs under a token budget (Mosaic)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from memory.errors import MustKeepTooLarge
from memory.plan import IntArray, LevelArray
from memory.selection.checks import checked_budget, finite, tokens
from memory.selection.pool import BoundOver, Method, Pool, solve_pool
from memory.selection.similarity import Cosines, Float32Array, Similarity
from memory.selection.solve import EngineName, engine


@dataclass(frozen=True, slots=True)
class LevelSelection:
    """``levels`` (n,) of each chunk; ``objective`` F(S), ``base_objective`` F of the floor alone; ``cost`` tokens of
    all levels, the floor included. ``upper_bound``, ``bound_over``, ``evaluations``: see `Selection`."""

    levels: LevelArray
    objective: float
    base_objective: float
    cost: int
    upper_bound: float
    bound_over: BoundOver
    evaluations: int
    method: Method


def select_levels(
    values: ArrayLike,
    fidelity: ArrayLike,
    costs: ArrayLike,
    similarity: Similarity | Float32Array,
    budget: int,
    *,
    damping: float = 0.2,
    floor: ArrayLike | None = None,
    method: Method = "auto",
    using: EngineName = "auto",
) -> LevelSelection:
    """Maximise F(S) = sum_i r_i * max_{(j, g) in S} phi_jg * c_ij, c_ij = (1 - c) [i = j] + c * max(0, cos_ij).

    ``values`` (n,) r >= 0; ``fidelity`` (n, L) phi >= 0, made non-decreasing by its running maximum; ``costs`` (n, L)
    whole tokens of a chunk shown at a level, non-decreasing along a row; ``damping`` c in [0, 1]. Every chunk is shown
    at its level of ``floor`` (n,), 0 by default, whose tokens count; a finer level pays the difference. Of levels at
    the same price the finer is taken; of equal chunks the newer (higher) one. Lazy greedy on gain per token with all
    levels of every chunk in the queue, and the best single element: at least (1 - 1/e)/2 of what the optimum gains
    over the floor, where the method is ``dense``. Methods: see `select`.

    Raises ValueError for NaN, negative numbers and wrong shapes, `MustKeepTooLarge` if the floor exceeds the budget,
    ImportError if ``using`` numba and it is not installed.
    """
    worth = finite("values", values, least=0.0)
    count = len(worth)
    phi = np.asarray(fidelity, dtype=np.float64)
    if phi.ndim != 2 or len(phi) != count or not phi.shape[1]:
        raise ValueError(f"fidelity must have shape ({count}, levels), not {phi.shape}")
    finite("fidelity", phi.ravel(), least=0.0)
    price = tokens("costs", costs, phi.shape)
    if (np.diff(price, axis=1) < 0).any():
        raise ValueError("a finer level must not cost less than a coarser one")
    if not 0 <= damping <= 1:
        raise ValueError(f"damping must be from 0 to 1, not {damping}")
    limit = checked_budget(budget)
    lowest = _floor(floor, count, phi.shape[1])
    items = np.arange(count)
    needed = int(price[items, lowest].sum())
    if needed > limit:
        raise MustKeepTooLarge(needed=needed, budget=limit, count=count)
    alike = Cosines(similarity) if isinstance(similarity, np.ndarray) else similarity
    pool = Pool(worth, np.maximum.accumulate(phi, axis=1), price, float(damping), alike)
    found = solve_pool(pool, lowest, limit - needed, method=method, worker=engine(using), both=False)
    return LevelSelection(
        found.levels.astype(np.int8),
        found.objective,
        found.base,
        int(price[items, found.levels].sum()),
        found.upper_bound,
        found.bound_over,
        found.evaluations,
        found.method,
    )


def _floor(floor: ArrayLike | None, count: int, levels: int) -> IntArray:
    if floor is None:
        return np.zeros(count, dtype=np.int64)
    result = np.asarray(floor)
    if result.shape != (count,) or (count and not np.issubdtype(result.dtype, np.integer)):
        raise ValueError(f"floor must be {count} levels, not {result.dtype} of shape {result.shape}")
    if count and (result.min() < 0 or result.max() >= levels):
        raise ValueError(f"floor must be levels from 0 to {levels - 1}")
    return result.astype(np.int64)

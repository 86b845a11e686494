"""What every selector asks of its input."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from memory.errors import MustKeepTooLarge
from memory.plan import FloatArray, IntArray


def finite(name: str, values: ArrayLike, count: int | None = None, *, least: float | None = None) -> FloatArray:
    """``values`` as (n,) float64. Raises ValueError unless finite, of length ``count``, and not below ``least``."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or (count is not None and len(array) != count):
        wanted = "a vector" if count is None else f"{count} numbers"
        raise ValueError(f"{name} must be {wanted}, not of shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite")
    if least is not None and len(array) and array.min() < least:
        raise ValueError(f"{name} must not be below {least:g}")
    return array


def tokens(name: str, values: ArrayLike, shape: tuple[int, ...]) -> IntArray:
    """``values`` as int64 of ``shape``. Raises ValueError unless whole numbers of at least 0."""
    array = np.asarray(values)
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, not {array.shape}")
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"{name} must be whole numbers of tokens, not {array.dtype}")
    if array.size and array.min() < 0:
        raise ValueError(f"{name} must not be negative")
    return array.astype(np.int64)


def checked_budget(budget: int) -> int:
    """Raises ValueError if ``budget`` is negative."""
    if budget < 0:
        raise ValueError(f"a budget cannot be negative: {budget}")
    return int(budget)


def kept(must_keep: Iterable[int], costs: IntArray, budget: int) -> IntArray:
    """Items that must be kept, ascending, each once.

    Raises ValueError for an item out of range, `MustKeepTooLarge` if together they exceed ``budget``.
    """
    items = np.unique(np.asarray(list(must_keep), dtype=np.int64))
    if len(items) and (items[0] < 0 or items[-1] >= len(costs)):
        raise ValueError(f"must-keep items must be from 0 to {len(costs) - 1}")
    needed = int(costs[items].sum())
    if needed > budget:
        raise MustKeepTooLarge(needed=needed, budget=budget, count=len(items))
    return items

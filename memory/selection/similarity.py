"""How alike the items of a pool are: all cosines, the keys they come from, or the nearest neighbours of each.

Negative cosines count as 0 everywhere, and so does a cosine with a zero key.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memory.plan import FloatArray, IntArray

Float32Array: TypeAlias = NDArray[np.float32]
Int32Array: TypeAlias = NDArray[np.int32]

_UNIT = 1e-3
"""How far from 1 the length of a key may be."""


@dataclass(frozen=True, slots=True)
class Cosines:
    """All cosines of a pool, (n, n) float32, symmetric. Raises ValueError if not square, or not finite."""

    matrix: Float32Array

    def __post_init__(self) -> None:
        matrix = np.asarray(self.matrix, dtype=np.float32)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ValueError(f"cosines must be a square matrix, not of shape {matrix.shape}")
        # the sum is not finite as soon as one cosine is not, at a fifth of the price of looking at each
        with np.errstate(all="ignore"):
            finite = np.isfinite(matrix.sum(dtype=np.float64))
        if not finite:
            raise ValueError("cosines must be finite")
        object.__setattr__(self, "matrix", matrix)

    def __len__(self) -> int:
        return len(self.matrix)


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of a pool, (n, d) float32, each of length 1, or 0 for an item without a key. Raises ValueError."""

    rows: Float32Array

    def __post_init__(self) -> None:
        rows = np.ascontiguousarray(self.rows, dtype=np.float32)
        if rows.ndim != 2:
            raise ValueError(f"keys must be a matrix (n, d), not of shape {rows.shape}")
        squares = np.einsum("ij,ij->i", rows, rows)
        if not np.isfinite(squares).all():
            raise ValueError("keys must be finite")
        odd = (np.abs(squares - 1) > 2 * _UNIT) & (squares != 0)
        if odd.any():
            first = int(np.flatnonzero(odd)[0])
            raise ValueError(f"keys must have length 1 or 0; key {first} has {float(squares[first]) ** 0.5:.4g}")
        object.__setattr__(self, "rows", rows)

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class Neighbours:
    """For each item the items most like it, nearest first, as rows of one flat array; all others count as 0.

    Row j is ``indices[starts[j]:stops[j]]`` with the cosines ``weights``; ``own`` (n,) is the cosine of an item with
    itself, listed or not. ``keys`` (n, d) allow a dense second look at few candidates; with them no item may be nearer
    than the last of a row that does not list it (else F is told too low, and its upper bound may not hold). Not
    checked: use `from_csr` for arrays from elsewhere.
    """

    starts: IntArray
    stops: IntArray
    indices: Int32Array
    weights: Float32Array
    own: FloatArray
    keys: Float32Array | None = None

    def __len__(self) -> int:
        return len(self.starts)

    def nearest(self, k: int) -> Neighbours:
        """The ``k`` nearest of each only."""
        return replace(self, stops=np.minimum(self.stops, self.starts + k))

    @classmethod
    def from_csr(
        cls, indptr: ArrayLike, indices: ArrayLike, weights: ArrayLike, keys: Keys | None = None
    ) -> Neighbours:
        """From compressed sparse rows: ``indptr`` (n + 1,), ``indices`` and ``weights`` (nnz,).

        An item that does not list itself has cosine 1 with itself. Raises ValueError for arrays that do not belong
        together, items out of range or listed twice in a row, and weights that are not finite.
        """
        bounds = np.asarray(indptr, dtype=np.int64)
        columns = np.ascontiguousarray(indices, dtype=np.int32)
        cosines = np.ascontiguousarray(weights, dtype=np.float32)
        if bounds.ndim != 1 or not len(bounds) or bounds[0] != 0 or (np.diff(bounds) < 0).any():
            raise ValueError("indptr must start at 0 and never fall")
        count = len(bounds) - 1
        if columns.shape != (int(bounds[-1]),) or cosines.shape != columns.shape:
            raise ValueError(f"{int(bounds[-1])} indices and weights expected, not {columns.shape}, {cosines.shape}")
        if len(columns) and (columns.min() < 0 or columns.max() >= count):
            raise ValueError(f"neighbours must be items from 0 to {count - 1}")
        if not np.isfinite(cosines).all():
            raise ValueError("weights must be finite")
        if keys is not None and len(keys) != count:
            raise ValueError(f"{count} keys expected, not {len(keys)}")
        rows = np.repeat(np.arange(count), np.diff(bounds))
        if len(np.unique(rows * count + columns)) != len(columns):
            raise ValueError("an item is listed twice in one row")
        own = np.ones(count)
        same = rows == columns
        own[rows[same]] = cosines[same]
        order = np.lexsort((-columns, -cosines, rows))
        columns, cosines = columns[order], cosines[order]
        return cls(bounds[:-1], bounds[1:], columns, cosines, own, None if keys is None else keys.rows)


Similarity: TypeAlias = Cosines | Keys | Neighbours

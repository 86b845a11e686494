"""The keys of a session as one matrix, for exact cosine scans."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memory.plan import FloatArray, IntArray

_FIRST_ROWS = 256
_DENSE = 0.25
"""From this share of a range on, scanning all of it beats gathering the rows asked for."""

_NEAR = 1e-4
"""How far from 1 the square of a length may be before a row is normalised."""


class KeyMatrix:
    """Keys by chunk number: the key of chunk ``n`` is row ``n - 1`` of one growing float32 matrix.

    Chunks of a session are numbered from 1 without gaps and nearly all have a key, so a row per number wastes little
    and a range of chunks is a slice. Rows without a key are zero. Not thread-safe.
    """

    def __init__(self, dim: int) -> None:
        if dim < 1:
            raise ValueError(f"a key has at least one dimension, not {dim}")
        self.dim = dim
        self._rows: NDArray[np.float32] = np.zeros((0, dim), dtype=np.float32)
        self._has: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self._count = 0

    def __len__(self) -> int:
        """Chunks that have a key."""
        return self._count

    def add(self, numbers: ArrayLike | Sequence[int], rows: ArrayLike) -> None:
        """Set the keys of ``numbers`` (n,) to ``rows`` (n, dim); later rows replace earlier ones.

        Rows are L2-normalised if they are not; one that is zero or not finite becomes zero: it counts as present, so
        that it is not encoded again for ever, and scores 0. Raises ValueError for wrong shapes and numbers below 1.
        """
        index = np.asarray(numbers, dtype=np.int64)
        matrix = np.asarray(rows, dtype=np.float32)
        if matrix.shape != (len(index), self.dim):
            raise ValueError(f"{len(index)} keys of {self.dim} dimensions expected, not {matrix.shape}")
        if not len(index):
            return
        if index.min() < 1:
            raise ValueError("chunks are numbered from 1")
        self._reserve(int(index.max()))
        self._rows[index - 1] = unit_rows(matrix)
        self._has[index - 1] = True
        self._count = int(np.count_nonzero(self._has))

    def cosines(self, query: ArrayLike, numbers: ArrayLike | Sequence[int]) -> FloatArray:
        """(n,) cosines of ``query`` (dim,) to the keys of ``numbers`` (n,), ascending chunk numbers from 1.

        0 where a chunk has no key, where its key is zero, and everywhere for a zero or non-finite query.
        """
        index = np.asarray(numbers, dtype=np.int64)
        vector = np.asarray(query, dtype=np.float32)
        if vector.shape != (self.dim,):
            raise ValueError(f"a query of {self.dim} dimensions expected, not {vector.shape}")
        result = np.zeros(len(index), dtype=np.float64)
        known = int(np.searchsorted(index, len(self._rows), side="right"))
        if known:
            result[:known] = self._scan(unit_rows(vector[None, :])[0], index[:known])
        return np.clip(result, -1.0, 1.0)

    def rows(self, count: int) -> NDArray[np.float32]:
        """(count, dim) keys of the chunks 1 to ``count``, zero where one has none. A view: not to be written to."""
        self._reserve(count)
        return self._rows[:count]

    def adopt(self, matrix: NDArray[np.float32], numbers: IntArray) -> None:
        """Take ``matrix`` (capacity, dim) as it is: row n - 1 is the normalised key of chunk n, for each n in
        ``numbers``. Only where there are no keys so far."""
        if self._count or matrix.shape[1] != self.dim:
            raise ValueError("keys can be adopted once, and with the dimensions of this matrix")
        self._rows, self._has = matrix, np.zeros(len(matrix), dtype=np.bool_)
        self._has[numbers - 1] = True
        self._count = len(numbers)

    def has(self, count: int) -> NDArray[np.bool_]:
        """(count,) which of the chunks 1 to ``count`` have a key. A view: not to be written to."""
        self._reserve(count)
        return self._has[:count]

    def missing(self, numbers: ArrayLike | Sequence[int]) -> IntArray:
        """Those of ``numbers`` (ascending) that have no key."""
        index = np.asarray(numbers, dtype=np.int64)
        known = int(np.searchsorted(index, len(self._has), side="right"))
        lacking = np.ones(len(index), dtype=np.bool_)
        lacking[:known] = ~self._has[index[:known] - 1]
        return index[lacking]

    def _scan(self, query: NDArray[np.float32], index: IntArray) -> NDArray[np.float32]:
        first, last = int(index[0]) - 1, int(index[-1])
        if first < 0:
            raise ValueError("chunks are numbered from 1")
        if len(index) == last - first:
            return self._rows[first:last] @ query
        if len(index) > _DENSE * (last - first):
            return (self._rows[first:last] @ query)[index - 1 - first]
        return self._rows[index - 1] @ query

    def _reserve(self, rows: int) -> None:
        have = len(self._rows)
        if rows <= have:
            return
        size = max(rows, 2 * have, _FIRST_ROWS)
        grown = np.zeros((size, self.dim), dtype=np.float32)
        grown[:have] = self._rows
        has = np.zeros(size, dtype=np.bool_)
        has[:have] = self._has
        self._rows, self._has = grown, has


def unit_rows(matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows of length 1; zero where a row is zero or not finite. Rows that have length 1 already keep their bytes."""
    with np.errstate(all="ignore"):
        near = np.abs(np.einsum("ij,ij->i", matrix, matrix) - 1) < _NEAR
    if near.all():
        return matrix
    odd = matrix[~near].astype(np.float64)
    norms = np.linalg.norm(odd, axis=1)
    good = np.isfinite(norms) & (norms > 0)
    odd[~good] = 0.0
    odd[good] /= norms[good, None]
    result = matrix.copy()
    result[~near] = odd
    return result

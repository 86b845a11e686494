"""The similarities of a growing set of keys, kept up to date: all cosines while there are few, then the k nearest."""

from __future__ import annotations

from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memory.plan import FloatArray
from memory.selection.similarity import Cosines, Float32Array, Int32Array, Keys, Neighbours

NEIGHBOURS = 128
"""Neighbours kept of each item."""

DENSE_LIMIT = 2_048
"""Up to this pool all cosines are used."""

_BLOCK = 1 << 23
"""Cosines computed in one go when a graph is built from many keys."""

_Array = TypeVar("_Array", bound=NDArray[Any])


class SimilarityGraph:
    """Keys of items 0, 1, 2, … and who is near whom. Appending one key costs about one pass over the keys.

    Up to ``dense_limit`` items `view` gives all cosines; above, the exact ``k`` nearest of each: an item that comes
    later takes the place of the farthest. The one append that crosses the limit builds the graph and takes longer.
    Memory: n * (4 d + 8 k + 12) bytes, and 4 * dense_limit^2 while all cosines are kept. The same calls give the same
    bytes. Not thread-safe; a view is valid until the next append.
    """

    def __init__(self, dim: int, *, k: int = NEIGHBOURS, dense_limit: int = DENSE_LIMIT) -> None:
        if dim < 1 or k < 1:
            raise ValueError(f"a graph needs at least one dimension and one neighbour, not {dim} and {k}")
        if dense_limit < k:
            raise ValueError(f"dense_limit {dense_limit} is below the {k} neighbours of an item")
        self.dim, self.k, self.dense_limit = dim, k, dense_limit
        self._count = 0
        self._keys: Float32Array = np.zeros((0, dim), dtype=np.float32)
        self._own: FloatArray = np.zeros(0)
        self._cosines: Float32Array = np.zeros((0, 0), dtype=np.float32)
        self._near: Int32Array = np.zeros((0, k), dtype=np.int32)
        self._weights: Float32Array = np.zeros((0, k), dtype=np.float32)
        self._farthest: Float32Array = np.zeros(0, dtype=np.float32)
        self._view: Cosines | Neighbours | None = None

    def __len__(self) -> int:
        return self._count

    def append(self, key: ArrayLike) -> None:
        """Add the key (d,) of the next item: of length 1, or 0 for an item without one. Raises ValueError."""
        row = np.asarray(key, dtype=np.float32)
        if row.shape != (self.dim,):
            raise ValueError(f"a key of {self.dim} dimensions expected, not {row.shape}")
        self._add(Keys(row[None, :]))
        item = self._count - 1
        if item < self.dense_limit:
            cosines = _clipped(self._keys[: item + 1] @ row)
            self._cosines[item, : item + 1] = cosines
            self._cosines[: item + 1, item] = cosines
        elif item == self.dense_limit:
            self._build()
        else:
            self._link(item, _clipped(self._keys[:item] @ row))

    def extend(self, keys: Keys) -> None:
        """Add many keys (n, d) at once; much faster than one by one. Raises ValueError for another dimension."""
        if keys.rows.shape[1] != self.dim:
            raise ValueError(f"keys of {self.dim} dimensions expected, not {keys.rows.shape[1]}")
        if len(keys) * 8 < self._count:
            for row in keys.rows:
                self.append(row)
            return
        self._add(keys)
        if self._count <= self.dense_limit:
            rows = self._keys[: self._count]
            self._cosines[: self._count, : self._count] = _clipped(rows @ rows.T)
        else:
            self._build()

    def view(self) -> Cosines | Neighbours:
        """What selection takes. Valid until the next append."""
        if self._view is None:
            count = self._count
            self._view = (
                Cosines(self._cosines[:count, :count])
                if count <= self.dense_limit
                else _rows(self._near[:count], self._weights[:count], self._own[:count], self._keys[:count])
            )
        return self._view

    def _add(self, keys: Keys) -> None:
        first, self._count = self._count, self._count + len(keys)
        self._keys = _grown(self._keys, self._count)
        self._own = _grown(self._own, self._count)
        self._keys[first : self._count] = keys.rows
        self._own[first : self._count] = keys.rows.any(axis=1)
        self._view = None
        if self._count > self.dense_limit:
            self._cosines = np.zeros((0, 0), dtype=np.float32)
            self._near = _grown(self._near, self._count)
            self._weights = _grown(self._weights, self._count)
            self._farthest = _grown(self._farthest, self._count)
        elif self._count > len(self._cosines):
            size = min(self.dense_limit, max(self._count, 2 * len(self._cosines), 64))
            larger = np.zeros((size, size), dtype=np.float32)
            larger[:first, :first] = self._cosines[:first, :first]
            self._cosines = larger

    def _build(self) -> None:
        near, weights = _nearest(self._keys[: self._count], self.k)
        self._near[: self._count] = near
        self._weights[: self._count] = weights
        self._farthest[: self._count] = weights[:, -1]

    def _link(self, item: int, cosines: Float32Array) -> None:
        """Give ``item`` its nearest among the older ones, and let it into the rows of those that it is near to."""
        self._near[item], self._weights[item] = (part[0] for part in _top(cosines[None, :], self.k))
        self._farthest[item] = self._weights[item, -1]
        rows = np.flatnonzero(cosines > self._farthest[:item])
        weights, near = self._weights[rows], self._near[rows]
        places = (weights >= cosines[rows, None]).sum(axis=1)[:, None]
        column = np.arange(self.k)[None, :]
        source = np.where(column <= places, column, column - 1)
        weights, near = np.take_along_axis(weights, source, 1), np.take_along_axis(near, source, 1)
        np.put_along_axis(weights, places, cosines[rows, None], 1)
        np.put_along_axis(near, places, np.int32(item), 1)
        self._weights[rows], self._near[rows] = weights, near
        self._farthest[rows] = weights[:, -1]


def neighbours(keys: Keys, k: int = NEIGHBOURS) -> Neighbours:
    """The ``k`` nearest of each of n keys, from scratch: all n^2 cosines are computed, in blocks."""
    near, weights = _nearest(keys.rows, min(k, max(len(keys) - 1, 0)))
    return _rows(near, weights, np.asarray(keys.rows.any(axis=1), dtype=np.float64), keys.rows)


def _rows(near: Int32Array, weights: Float32Array, own: FloatArray, keys: Float32Array) -> Neighbours:
    starts = np.arange(len(near), dtype=np.int64) * near.shape[1]
    return Neighbours(starts, starts + near.shape[1], near.reshape(-1), weights.reshape(-1), own, keys)


def _nearest(rows: Float32Array, k: int) -> tuple[Int32Array, Float32Array]:
    """(n, k) nearest others of each key, and their cosines, nearest first."""
    count = len(rows)
    near = np.zeros((count, k), dtype=np.int32)
    weights = np.zeros((count, k), dtype=np.float32)
    step = max(1, _BLOCK // max(1, count))
    for first in range(0, count if k else 0, step):
        cosines = _clipped(rows[first : first + step] @ rows.T)
        own = np.arange(len(cosines))
        cosines[own, first + own] = -1.0
        near[first : first + step], weights[first : first + step] = _top(cosines, k)
    return near, weights


def _top(cosines: Float32Array, k: int) -> tuple[Int32Array, Float32Array]:
    """The ``k`` largest of each row, largest first; of equals that are taken the newer first."""
    index = np.argpartition(cosines, cosines.shape[1] - k, axis=1)[:, cosines.shape[1] - k :]
    index = np.sort(index, axis=1)[:, ::-1]
    order = np.argsort(-np.take_along_axis(cosines, index, 1), axis=1, kind="stable")
    index = np.take_along_axis(index, order, 1)
    return index.astype(np.int32), np.take_along_axis(cosines, index, 1)


def _clipped(cosines: Float32Array) -> Float32Array:
    return np.clip(cosines, 0.0, 1.0, out=cosines)


def _grown(array: _Array, rows: int) -> _Array:
    """``array`` with room for ``rows``."""
    if rows <= len(array):
        return array
    larger = np.zeros((max(rows, len(array) * 3 // 2, 64), *array.shape[1:]), dtype=array.dtype)
    larger[: len(array)] = array
    return cast(_Array, larger)

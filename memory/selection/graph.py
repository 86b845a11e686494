"""The similarities of a growing set of keys, kept up to date: all cosines while there are few, then the k nearest."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from memory.selection.similarity import Cosines, Float32Array, Keys, Neighbours

NEIGHBOURS = 128
_BLOCK = 1 << 23
"""Cosines computed in one go when a graph is built from many keys."""


class SimilarityGraph:
    """Keys of items 0, 1, 2, … and who is near whom. Appending one key costs a pass over the keys.

    Up to ``dense_limit`` items `view` gives all cosines; above, the ``k`` nearest of each (exactly: an item that comes
    later takes the place of the farthest). Memory: n * (4 d + 8 k) bytes, and 4 * dense_limit^2 while all cosines are
    kept. The same appends give the same bytes. Not thread-safe; a view is valid until the next append.
    """

    def __init__(self, dim: int, *, k: int = NEIGHBOURS, dense_limit: int = 2_048) -> None:
        if dim < 1 or k < 1 or dense_limit < 0:
            raise ValueError(f"no graph of {dim} dimensions, {k} neighbours, {dense_limit} dense items")
        self.dim, self.k, self.dense_limit = dim, k, dense_limit
        self._count = 0
        self._keys: Float32Array = np.zeros((0, dim), dtype=np.float32)
        self._cosines: Float32Array = np.zeros((0, 0), dtype=np.float32)
        self._near = np.zeros((0, k), dtype=np.int32)
        self._weights: Float32Array = np.zeros((0, k), dtype=np.float32)
        self._view: Cosines | Neighbours | None = None

    def __len__(self) -> int:
        return self._count

    def append(self, key: ArrayLike) -> None:
        """Add the key (d,) of the next item: of length 1, or 0 for an item without one. Raises ValueError."""
        row = Keys(np.asarray(key, dtype=np.float32)[None, :]).rows[0]
        if row.shape != (self.dim,):
            raise ValueError(f"a key of {self.dim} dimensions expected, not {row.shape}")
        item = self._count
        self._reserve(item + 1)
        self._keys[item] = row
        self._count += 1
        self._view = None
        cosines = np.clip(self._keys[: item + 1] @ row, 0.0, 1.0)
        if item < self.dense_limit:
            self._cosines[item, : item + 1] = cosines
            self._cosines[: item + 1, item] = cosines
            return
        if item == self.dense_limit:
            self._leave_dense()
        self._link(item, cosines)

    def extend(self, keys: Keys) -> None:
        """Add many keys (n, d) at once; much faster than one by one."""
        if keys.rows.shape[1] != self.dim:
            raise ValueError(f"keys of {self.dim} dimensions expected, not {keys.rows.shape[1]}")
        if self._count + len(keys) <= self.dense_limit or len(keys) * 8 < self._count:
            for row in keys.rows:
                self.append(row)
            return
        count = self._count + len(keys)
        self._reserve(count)
        self._keys[self._count : count] = keys.rows
        self._count = count
        self._view = None
        self._build()

    def view(self) -> Cosines | Neighbours:
        """What selection takes. Valid until the next append."""
        if self._view is None:
            self._view = self._cosines_view() if self._count <= self.dense_limit else self._neighbours_view(self.k)
        return self._view

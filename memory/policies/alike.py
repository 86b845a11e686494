"""How alike the chunks of a shortlist are, kept from plan to plan: most of them are in the next one again."""

from __future__ import annotations

import numpy as np

from memory.plan import BoolArray, IntArray, KeyArray
from memory.selection.similarity import Cosines, Float32Array, Keys

_SCALE = 4_000
"""Keys are rounded to whole numbers at this length. Then every partial sum of a product of two is a whole number below
2 ** 24, which float32 holds exactly: a cosine is the same to the bit, whatever else is computed with it, so what is
remembered cannot be told from what is not. The rounding costs about 1e-4."""


class Alike:
    """All cosines of some rows of a session's keys; those with a row that the last call did not have are computed.

    A chunk's key never changes, but can come late. Memory: 4 * n * (d + n) bytes. Not thread-safe.
    """

    def __init__(self) -> None:
        self._of: object = None
        self._rows: IntArray = np.zeros(0, dtype=np.int64)

    def cosines(self, keys: KeyArray | None, rows: IntArray) -> Cosines:
        """(n, n) cosines of ``keys[rows]``, ``rows`` (n,) ascending; 0 for a key that is zero, or not finite.

        Raises ValueError without keys, and for a key of another length than 1 or 0.
        """
        if keys is None:
            raise ValueError("this policy needs the keys of the pool")
        owner = keys if keys.base is None else keys.base
        if owner is not self._of or not len(self._rows):
            self._of = owner
            self._start(keys, rows)
        elif not np.array_equal(rows, self._rows) or not self._given.all():
            self._follow(keys, rows)
        return Cosines(self._cosines)

    def _start(self, keys: KeyArray, rows: IntArray) -> None:
        self._rows, self._whole = rows, rounded(keys[rows])
        self._given: BoolArray = np.asarray(self._whole.any(axis=1))
        self._cosines = products(self._whole, self._whole)

    def _follow(self, keys: KeyArray, rows: IntArray) -> None:
        places = np.minimum(np.searchsorted(self._rows, rows), len(self._rows) - 1)
        new = np.flatnonzero((self._rows[places] != rows) | ~self._given[places])
        whole = self._whole.take(places, axis=0)
        cosines = self._cosines.take(places, axis=0).take(places, axis=1)
        whole[new] = rounded(keys[rows[new]])
        cosines[new] = products(whole[new], whole)
        cosines[:, new] = cosines[new].T
        self._given = self._given[places]
        self._given[new] = whole[new].any(axis=1)
        self._rows, self._whole, self._cosines = rows, whole, cosines


def products(some: Float32Array, whole: Float32Array) -> Float32Array:
    """(m, n) cosines of keys that `rounded` gave, exact: the same whatever else is computed with them."""
    found: Float32Array = np.minimum(some @ whole.T * np.float32(_SCALE**-2), np.float32(1))
    return found


def rounded(keys: KeyArray) -> Float32Array:
    """(n, d) keys as whole numbers, zero where not finite. Raises ValueError for a length that is not 1 or 0."""
    finite = np.isfinite(keys.sum(axis=1))
    whole: Float32Array = np.rint(Keys(np.where(finite[:, np.newaxis], keys, np.float32(0))).rows * np.float32(_SCALE))
    return whole

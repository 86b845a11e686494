"""Keys as bits: what a search among very many of them looks at first.

The sketch of a key is the signs of its projections on `BITS` fixed directions, taken from the mean of the keys (random
hyperplanes: Charikar, STOC 2002). The query keeps two bits of each projection, which is most of what can be told of it
(asymmetric, as in RaBitQ: Gao and Long, SIGMOD 2024). A scan counts bits that differ; the keys that differ least are
candidates, to be compared exactly by whoever asks. Nothing is trained but the mean, and each key stands for itself:
rows can be added for ever, and a sketch that is wrong hides its chunk at worst.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import shake_256

import numpy as np
from numpy.typing import NDArray

from memory.plan import BoolArray, IntArray

BITS = 512
WORDS = BITS // 64
_BLOCK = 32_768
"""Rows counted at once: what is written on the way stays in the cache."""
_BATCH = 8_192
"""Rows sketched at once."""
_SAMPLE = 16_384
"""Keys that the mean is taken of."""
_NEVER = np.iinfo(np.uint16).max
_FIRST_ROWS = 1024


class Sketches:
    """Row r is the sketch of row r of a key matrix (`memory.index.keys`): `BITS` / 8 bytes each. Not thread-safe."""

    def __init__(self, mean: NDArray[np.float32]) -> None:
        """``mean`` (dim,): what keys are measured from; any will do, their own is best."""
        self.mean = mean
        self._planes: NDArray[np.uint64] = np.zeros((WORDS, 0), dtype=np.uint64)
        self._has: BoolArray = np.zeros(0, dtype=np.bool_)

    @classmethod
    def of(cls, keys: NDArray[np.float32], has: BoolArray) -> Sketches:
        """None so far, to be measured from the mean of ``keys`` (rows, dim), of those that there are."""
        rows = np.flatnonzero(has)
        sample = keys[rows[:: max(1, len(rows) // _SAMPLE)]]
        return cls(sample.mean(axis=0) if len(sample) else np.zeros(keys.shape[1], dtype=np.float32))

    @property
    def has(self) -> BoolArray:
        """(rows,) which rows have a sketch."""
        return self._has

    def __len__(self) -> int:
        return int(np.count_nonzero(self._has))

    def lacking(self, has: BoolArray) -> IntArray:
        """Rows that have a key (``has``, (rows,)) and no sketch."""
        without = has.copy()
        both = min(len(has), len(self._has))
        without[:both] &= ~self._has[:both]
        return np.flatnonzero(without)

    def put(self, rows: IntArray, keys: NDArray[np.float32]) -> None:
        """Sketch ``keys`` (n, dim) as ``rows`` (n,)."""
        if not len(rows):
            return
        self._reserve(int(rows.max()) + 1)
        for first in range(0, len(rows), _BATCH):
            part = rows[first : first + _BATCH]
            self._planes[:, part] = self.bits(keys[first : first + _BATCH]).T
        self._has[rows] = True

    def bits(self, keys: NDArray[np.float32]) -> NDArray[np.uint64]:
        """(n, WORDS) sketches of ``keys`` (n, dim)."""
        return _packed((keys - self.mean) @ directions(len(self.mean)) > 0)

    def planes(self, rows: int) -> NDArray[np.uint64]:
        """(WORDS, rows): word w of every sketch side by side. A view."""
        self._reserve(rows)
        return self._planes[:, :rows]

    def adopt(self, planes: NDArray[np.uint64], has: BoolArray) -> None:
        """Take ``planes`` (WORDS, rows) as they are."""
        self._planes, self._has = planes, has

    def nearest(self, query: NDArray[np.float32], count: int) -> IntArray:
        """The rows, ascending, of the ``count`` sketches that differ least from ``query`` (dim,); the earlier ones of
        those that differ alike. O(rows), about 10 ms for a million."""
        if len(self) <= count:
            return np.flatnonzero(self._has)
        # what the query shares with all keys tells none from another, and would drown what does
        along = float(query @ self.mean) / max(float(self.mean @ self.mean), 1e-12)
        differ = self._differ((query - np.float32(along) * self.mean) @ directions(len(self.mean)))
        cut = np.partition(differ, count - 1)[count - 1]
        nearer = np.flatnonzero(differ < cut)
        return np.sort(np.concatenate((nearer, np.flatnonzero(differ == cut)[: count - len(nearer)])))

    def _differ(self, projected: NDArray[np.float32]) -> NDArray[np.uint16]:
        """(rows,) weights of the bits that differ: 3 where the query's projection is large, else 1."""
        signs = _packed(projected[None, :] > 0)[0]
        sizes = np.abs(projected)
        large = _packed(sizes[None, :] > np.sqrt(np.mean(np.square(sizes))))[0]
        rows = len(self._has)
        total = np.zeros(rows, dtype=np.uint16)
        words, counts = np.empty(_BLOCK, dtype=np.uint64), np.empty(_BLOCK, dtype=np.uint8)
        for first in range(0, rows, _BLOCK):
            block = total[first : first + _BLOCK]
            word, count = words[: len(block)], counts[: len(block)]
            for plane in range(WORDS):
                np.bitwise_xor(self._planes[plane, first : first + len(block)], signs[plane], out=word)
                np.add(block, np.bitwise_count(word, out=count), out=block)
                np.bitwise_and(word, large[plane], out=word)
                np.left_shift(np.bitwise_count(word, out=count), 1, out=count)
                np.add(block, count, out=block)
        total[~self._has] = _NEVER
        return total

    def _reserve(self, rows: int) -> None:
        have = len(self._has)
        if rows <= have:
            return
        size = max(rows, have + have // 4, _FIRST_ROWS)
        planes, has = np.zeros((WORDS, size), dtype=np.uint64), np.zeros(size, dtype=np.bool_)
        planes[:, :have], has[:have] = self._planes, self._has
        self._planes, self._has = planes, has


@lru_cache(maxsize=4)
def directions(dim: int) -> NDArray[np.float32]:
    """(dim, BITS) the same on every machine but for rounding: orthogonal as far as ``dim`` allows."""
    blocks = []
    for number in range(-(-BITS // dim)):
        wide = min(dim, BITS - number * dim)
        random = shake_256(f"{dim} {number}".encode()).digest(dim * wide // 8 + 1)
        signs = np.unpackbits(np.frombuffer(random, dtype=np.uint8), count=dim * wide).reshape(dim, wide)
        blocks.append(np.linalg.qr(signs * 2.0 - 1.0)[0])
    found: NDArray[np.float32] = np.concatenate(blocks, axis=1).astype(np.float32)
    return found


def _packed(signs: BoolArray) -> NDArray[np.uint64]:
    """(n, WORDS) of (n, BITS)."""
    return np.packbits(signs, axis=1).view(np.uint64)

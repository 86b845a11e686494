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

from memory.index.keys import KeyMatrix
from memory.plan import BoolArray, FloatArray, IntArray

BITS = 512
WORDS = BITS // 64
_WIDER = 16
"""A scan looks at half of each sketch, then at all of so many times those that are asked for, or one in so many."""
_BEST, _STRETCH = 50, 500
"""Comparing ends at the first stretch of keys that has none of so many best."""
_BLOCK = 32_768
"""Rows counted at once: what is written on the way stays in the cache."""
_BATCH = 8_192
"""Rows sketched at once."""
_SAMPLE = 16_384
"""Keys that the mean is taken of."""
_NEVER = 1 << 15
"""More than a whole sketch can differ."""
_FIRST_ROWS = 1024


class Sketches:
    """Row r is the sketch of row r of a key matrix (`memory.index.keys`): `BITS` / 8 bytes each. Not thread-safe."""

    def __init__(self, mean: NDArray[np.float32]) -> None:
        """``mean`` (dim,): what keys are measured from; any will do, their own is best."""
        self.mean = mean
        self._planes: NDArray[np.uint64] = np.zeros((WORDS, 0), dtype=np.uint64)
        self._has: BoolArray = np.zeros(0, dtype=np.bool_)
        self._end = 0
        """Rows in use."""

    @classmethod
    def of(cls, keys: NDArray[np.float32], has: BoolArray) -> Sketches:
        """None so far, to be measured from the mean of ``keys`` (rows, dim), of those that there are."""
        rows = np.flatnonzero(has)
        sample = keys[rows[:: max(1, len(rows) // _SAMPLE)]]
        return cls(sample.mean(axis=0) if len(sample) else np.zeros(keys.shape[1], dtype=np.float32))

    @property
    def has(self) -> BoolArray:
        """(rows,) which rows have a sketch."""
        return self._has[: self._end]

    def __len__(self) -> int:
        return int(np.count_nonzero(self.has))

    def lacking(self, has: BoolArray) -> IntArray:
        """Rows that have a key (``has``, (rows,)) and no sketch."""
        without = has.copy()
        both = min(len(has), self._end)
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
        self._end = max(self._end, int(rows.max()) + 1)

    def bits(self, keys: NDArray[np.float32]) -> NDArray[np.uint64]:
        """(n, WORDS) sketches of ``keys`` (n, dim)."""
        return _packed((keys - self.mean) @ directions(len(self.mean)) > 0)

    @property
    def planes(self) -> NDArray[np.uint64]:
        """(WORDS, rows): word w of every sketch side by side. A view."""
        return self._planes[:, : self._end]

    def adopt(self, planes: NDArray[np.uint64], has: BoolArray) -> None:
        """Take ``planes`` (WORDS, rows) as they are."""
        self._planes, self._has, self._end = planes, has, len(has)

    def nearest(self, query: NDArray[np.float32], count: int) -> IntArray:
        """The rows of the ``count`` sketches that differ least from ``query`` (dim,), these first; of those that differ
        alike the earlier ones. O(rows), 6 to 8 ms for a million."""
        # what the query shares with all keys tells none from another, and would drown what does
        along = float(query @ self.mean) / max(float(self.mean @ self.mean), 1e-12)
        projected = (query - np.float32(along) * self.mean) @ directions(len(self.mean))
        sizes = np.abs(projected)
        large = _packed(sizes[None, :] > np.sqrt(np.mean(np.square(sizes))))[0]
        signs = _packed(projected[None, :] > 0)[0]
        differ = self._first_half(signs, large)
        rows = _least(differ, max(_WIDER * count, self._end // _WIDER))
        differ = differ[rows]
        for plane in range(WORDS // 2, WORDS):
            word = self._planes[plane].take(rows) ^ signs[plane]
            differ += np.bitwise_count(word)
            differ += 2 * np.bitwise_count(word & large[plane])
        least = _least(differ, min(count, len(self)))
        return rows[least[np.argsort(differ[least], kind="stable")]]

    def _first_half(self, signs: NDArray[np.uint64], large: NDArray[np.uint64]) -> NDArray[np.uint16]:
        """(rows,) weights of the bits in the first half of each sketch that differ from ``signs`` (WORDS,): 3 where
        ``large`` (WORDS,) is set, else 1."""
        total = np.zeros(self._end, dtype=np.uint16)
        words = np.empty(_BLOCK, dtype=np.uint64)
        ones, threes = np.empty(_BLOCK, dtype=np.uint8), np.empty(_BLOCK, dtype=np.uint8)
        for first in range(0, self._end, _BLOCK):
            block = total[first : first + _BLOCK]
            word, one, three = words[: len(block)], ones[: len(block)], threes[: len(block)]
            for plane in range(WORDS // 2):
                np.bitwise_xor(self._planes[plane, first : first + len(block)], signs[plane], out=word)
                np.bitwise_count(word, out=one)
                np.bitwise_count(np.bitwise_and(word, large[plane], out=word), out=three)
                # at most 64 + 2 * 64 of a word
                one += three
                one += three
                block += one
        if len(self) < self._end:
            total[~self.has] = _NEVER
        return total

    def _reserve(self, rows: int) -> None:
        have = len(self._has)
        if rows <= have:
            return
        size = max(rows, have + have // 4, _FIRST_ROWS)
        planes, has = np.zeros((WORDS, size), dtype=np.uint64), np.zeros(size, dtype=np.bool_)
        planes[:, :have], has[:have] = self._planes, self._has
        self._planes, self._has = planes, has


def compared(sketches: Sketches, keys: KeyMatrix, query: NDArray[np.float32], most: int) -> tuple[IntArray, FloatArray]:
    """(n,) rows, ascending, of the keys that are nearest to ``query`` (dim,) by their sketches, at most ``most``, with
    their cosines (n,). Keys are compared in stretches, those with the nearest sketches first, until a stretch brings
    none of the best `_BEST` so far: reading a key is what costs most where they are many and wide."""
    wanted = sketches.nearest(query, most)
    rows, cosines = [np.zeros(0, dtype=np.int64)], [np.zeros(0)]
    best = np.full(_BEST, -np.inf)
    for first in range(0, len(wanted), _STRETCH):
        part = np.sort(wanted[first : first + _STRETCH])
        found = keys.cosines(query, part + 1)
        rows.append(part)
        cosines.append(found)
        if found.max() <= best.min():
            break
        best = np.partition(np.concatenate((best, found)), len(found))[len(found) :]
    together = np.concatenate(rows)
    order = np.argsort(together)
    return together[order], np.concatenate(cosines)[order]


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


def _least(values: NDArray[np.uint16], count: int) -> IntArray:
    """(count,) where the least of ``values`` are, ascending; of equal ones the first."""
    if len(values) <= count:
        return np.arange(len(values))
    cut = np.partition(values, count - 1)[count - 1]
    found = np.flatnonzero(values <= cut)
    at_cut = np.flatnonzero(values[found] == cut)
    return np.delete(found, at_cut[len(at_cut) - (len(found) - count) :])


def _packed(signs: BoolArray) -> NDArray[np.uint64]:
    """(n, WORDS) of (n, BITS)."""
    return np.packbits(signs, axis=1).view(np.uint64)

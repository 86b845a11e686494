"""What planning needs of every chunk, in memory, as growing arrays: counts per level and one-line facts, no texts."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from memory.narrow import densities, is_large
from memory.plan import BoolArray, FloatArray, IntArray, LevelArray, Pool
from memory.records import Level
from memory.stored import ChunkFacts

_START = 256
ASSUMED = np.array([0.05, 0.35, 0.7, 1.0])
"""Fidelity of a level where none was measured, coarse to fine."""


class ChunkIndex:
    """Chunk n lives in row n - 1. ``raw`` (capacity, 4): tokens per `Level` as counted, 0 where a view is absent."""

    def __init__(self) -> None:
        self.facts: list[ChunkFacts] = []
        self._tools: dict[str, array[int]] = {}
        """Rows of the calls of each tool, ascending: what a range used is two bisections."""
        self.lines: dict[tuple[int, int, str], str] = {}
        """Range lines already rendered, by rows and nonce; kept by the renderer."""
        self._raw: IntArray = np.zeros((_START, 4), dtype=np.int64)
        self._cost: IntArray = np.zeros((_START, 4), dtype=np.int64)
        self._available: BoolArray = np.zeros((_START, 4), dtype=np.bool_)
        self._alias: LevelArray = np.zeros((_START, 4), dtype=np.int8)
        self._fidelity: FloatArray = np.tile(ASSUMED, (_START, 1))
        self._shares: FloatArray = np.tile(ASSUMED, (_START, 1))
        """What `fidelity` gives back."""
        self._densities: FloatArray = np.zeros((8, _START))
        self._changed: list[IntArray] = []
        """Rows whose `_densities` are old: only large pools have them looked at."""

    def __len__(self) -> int:
        return len(self.facts)

    def append(self, facts: ChunkFacts) -> None:
        """Add the next chunk; numbers are consecutive from 1."""
        self.extend([facts])

    def extend(self, chunks: Sequence[ChunkFacts]) -> None:
        """Add the next chunks; numbers are consecutive from 1."""
        first, count = len(self.facts), len(self.facts) + len(chunks)
        if first == count:
            return
        for row, facts in enumerate(chunks, start=first):
            if facts.number != row + 1:
                raise ValueError(f"chunk {facts.number} does not follow chunk {row}")
        self._reserve(count)
        for row, facts in enumerate(chunks, start=first):
            for name in facts.tools:
                self._tools.setdefault(name, array("l")).append(row)
        self.facts.extend(chunks)
        self._raw[first:count, Level.FULL] = [facts.tokens_full for facts in chunks]
        self._raw[first:count, Level.PLACEHOLDER] = [facts.tokens_placeholder for facts in chunks]
        self._refresh(np.arange(first, count))

    def _reserve(self, count: int) -> None:
        while len(self._raw) < count:
            row = len(self._raw)
            self._raw = _doubled(self._raw)
            self._cost = _doubled(self._cost)
            self._available = _doubled(self._available)
            self._alias = _doubled(self._alias)
            self._fidelity = np.concatenate((self._fidelity, np.tile(ASSUMED, (row, 1))))
            self._shares = _doubled(self._shares)
            self._densities = np.concatenate((self._densities, np.zeros_like(self._densities)), axis=1)

    def set_views(self, views: Iterable[tuple[int, Level, int, float | None]]) -> None:
        """Published views: (chunk, level, tokens, fidelity)."""
        given = list(views)
        if given:
            self.set_columns(*zip(*given, strict=True))

    def set_columns(
        self, chunks: Sequence[int], levels: Sequence[Level], tokens: Sequence[int], measured: Sequence[float | None]
    ) -> None:
        """`set_views`, by columns."""
        rows, columns = np.array(chunks, dtype=np.int64) - 1, np.fromiter(levels, dtype=np.int64, count=len(levels))
        sizes, shares = np.array(tokens, dtype=np.int64), np.array([math.nan if f is None else f for f in measured])
        known = (rows >= 0) & (rows < len(self.facts))
        rows, columns, sizes, shares = rows[known], columns[known], sizes[known], shares[known]
        # of several views of one level the last one given counts
        self._raw[rows, columns] = sizes
        self._fidelity[rows, columns] = np.where(np.isnan(shares), ASSUMED[columns], shares)
        touched = np.zeros(len(self.facts), dtype=np.bool_)
        touched[rows] = True
        self._refresh(np.flatnonzero(touched))

    def _refresh(self, rows: IntArray) -> None:
        """Resolve aliases: a level that is absent, or not shorter than the next finer one, is that finer one."""
        self._cost[rows, Level.FULL] = self._raw[rows, Level.FULL]
        self._alias[rows, Level.FULL] = Level.FULL
        self._available[rows, Level.FULL] = True
        for level in (Level.DETAILED, Level.BRIEF, Level.PLACEHOLDER):
            raw = self._raw[rows, level]
            finer = self._cost[rows, level + 1]
            present = raw > 0
            own = present & (raw < finer)
            self._cost[rows, level] = np.where(own, raw, finer)
            self._alias[rows, level] = np.where(own, int(level), self._alias[rows, level + 1])
            self._available[rows, level] = present
        self._available[rows, Level.PLACEHOLDER] = True
        own = np.take_along_axis(self._fidelity[rows], self._alias[rows].astype(np.int64), axis=1)
        self._shares[rows] = np.maximum.accumulate(own, axis=1)
        self._changed.append(rows)

    def tools_in(self, start: int, end: int) -> list[tuple[str, int]]:
        """Calls per tool in the rows [start, end), most first."""
        counts = ((name, bisect_left(rows, end) - bisect_left(rows, start)) for name, rows in self._tools.items())
        return sorted((item for item in counts if item[1]), key=lambda item: (-item[1], item[0]))

    def topics_in(self, start: int, end: int, count: int) -> list[str]:
        """Up to ``count`` different titles, taken at even distances from the rows [start, end)."""
        places = sorted({start + (end - 1 - start) * part // max(1, count - 1) for part in range(count)})
        titles = (self.facts[row].source_title for row in places)
        return list(dict.fromkeys(title for title in titles if title))

    def pool(self, count: int, cosines: FloatArray) -> Pool:
        """The first ``count`` chunks as a pool; ``cosines`` (count,)."""
        return Pool(
            ids=np.arange(1, count + 1, dtype=np.int64),
            tokens=self._cost[:count],
            available=self._available[:count],
            cosines=cosines,
            lines=self._raw[:count, Level.PLACEHOLDER],
            densities=self._dense(count) if is_large(count) else None,
        )

    def _dense(self, count: int) -> FloatArray:
        if self._changed:
            rows = np.unique(np.concatenate(self._changed))
            costs, available = self._cost[rows], self._available[rows]
            assumed = densities(costs, available, np.broadcast_to(ASSUMED, (len(rows), 4)))
            self._densities[:, rows] = np.maximum(assumed, densities(costs, available, self._shares[rows]))
            self._changed.clear()
        return self._densities[:, :count]

    def fidelity(self, count: int) -> FloatArray:
        """(count, 4) share of a chunk that each level preserves, the running maximum along a row."""
        return self._shares[:count]

    def shown_as(self, levels: LevelArray) -> LevelArray:
        """The level whose text stands for each planned level, aliases resolved, (M,)."""
        shown: LevelArray = self._alias[: len(levels), 0].copy()
        rows = np.flatnonzero(levels)
        shown[rows] = self._alias[rows, levels[rows]]
        return shown

    def has(self, level: Level, count: int) -> BoolArray:
        """Which of the first ``count`` chunks have the level, (count,)."""
        return self._available[:count, level]


S = TypeVar("S", bound=np.generic)


def _doubled(array: NDArray[S]) -> NDArray[S]:
    grown: NDArray[S] = np.concatenate((array, np.zeros_like(array)))
    return grown

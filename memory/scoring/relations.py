"""What chunks have to do with each other beside what they say: the same source, and neighbours in time."""

from __future__ import annotations

from array import array

import numpy as np

from memory.plan import FloatArray, IntArray
from memory.stored import ChunkFacts

NEIGHBOUR = 0.5
"""A neighbour in time counts so much of a chunk of the same source."""


class Sources:
    """Which chunks came from the same place: by address, else by title. Grows with the session."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._of = array("q")

    def add(self, facts: ChunkFacts) -> None:
        """The next chunk."""
        name = facts.source_url.partition("#")[0] or facts.source_title
        self._of.append(self._numbers.setdefault(name, len(self._numbers)) if name else -1)

    def groups(self, count: int) -> IntArray:
        """(count,) number of each chunk's source; -1 for one without, or one that was never added."""
        result = np.full(count, -1, dtype=np.int64)
        known = self._of[:count]
        result[: len(known)] = known
        return result


def with_relatives(values: FloatArray, groups: IntArray, strength: float) -> FloatArray:
    """(M,) values, each at least ``strength`` times that of the best chunk of its source, and half of that for its
    neighbours in time."""
    if not len(values) or strength == 0:
        return values
    best = np.zeros(len(values))
    known = groups >= 0
    if known.any():
        most = np.zeros(int(groups.max()) + 1)
        np.maximum.at(most, groups[known], values[known])
        best[known] = most[groups[known]]
    beside = np.zeros(len(values))
    beside[1:] = values[:-1]
    beside[:-1] = np.maximum(beside[:-1], values[1:])
    result: FloatArray = np.maximum(values, strength * np.maximum(best, NEIGHBOUR * beside))
    return result

"""An inverted index over FULL texts that grows by one chunk a step: BM25 of every old chunk for the terms of now."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable

import numpy as np

from memory.plan import FloatArray
from memory.text.words import tokenize

K1, B = 1.2, 0.75
MAX_TERMS = 64
"""Query terms that are looked up; the rarest are kept, since the common ones say little and cost most."""


class LexicalIndex:
    """Chunk n is the n-th text added."""

    def __init__(self) -> None:
        self._rows: dict[str, array[int]] = {}
        self._counts: dict[str, array[int]] = {}
        self._lengths = array("l")

    def __len__(self) -> int:
        return len(self._lengths)

    def add(self, text: str) -> None:
        """Index the next chunk."""
        row = len(self._lengths)
        words = tokenize(text)
        self._lengths.append(len(words))
        for word, count in Counter(words).items():
            if word not in self._rows:
                self._rows[word], self._counts[word] = array("l"), array("l")
            self._rows[word].append(row)
            self._counts[word].append(count)

    def scores(self, terms: Iterable[str], count: int) -> FloatArray:
        """(count,) BM25 of the first ``count`` chunks, 0 where no term occurs."""
        total = np.zeros(count)
        if count == 0:
            return total
        lengths = np.array(self._lengths[:count], dtype=np.float64)
        norm = K1 * (1 - B + B * lengths / max(1.0, float(lengths.mean())))
        known = sorted({term for term in terms if term in self._rows}, key=lambda term: (len(self._rows[term]), term))
        for term in known[:MAX_TERMS]:
            rows = np.array(self._rows[term], dtype=np.int64)
            inside = int(np.searchsorted(rows, count))
            if inside == 0:
                continue
            rows = rows[:inside]
            found = np.array(self._counts[term][:inside], dtype=np.float64)
            idf = np.log1p((count - inside + 0.5) / (inside + 0.5))
            total[rows] += idf * found * (K1 + 1) / (found + norm[rows])
        return total

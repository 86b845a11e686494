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


_MOST = 255
"""Largest count that is told apart: BM25 has long saturated there."""


class LexicalIndex:
    """Chunk n is the n-th text added.

    A posting is one number, row and count in one (four bytes), and a word that occurs in one chunk only has no array:
    a session of 10,000 pages has millions of postings.
    """

    def __init__(self) -> None:
        self._postings: dict[str, int | array[int]] = {}
        self._lengths = array("l")

    def __len__(self) -> int:
        return len(self._lengths)

    def add(self, text: str) -> None:
        """Index the next chunk."""
        row = len(self._lengths)
        words = tokenize(text)
        self._lengths.append(len(words))
        for word, count in Counter(words).items():
            posting = row << 8 | min(count, _MOST)
            known = self._postings.setdefault(word, posting)
            if isinstance(known, array):
                known.append(posting)
            elif known != posting:
                self._postings[word] = array("I", (known, posting))

    def scores(self, terms: Iterable[str], count: int) -> FloatArray:
        """(count,) BM25 of the first ``count`` chunks, 0 where no term occurs."""
        total = np.zeros(count)
        if count == 0:
            return total
        lengths = np.array(self._lengths[:count], dtype=np.float64)
        norm = K1 * (1 - B + B * lengths / max(1.0, float(lengths.mean())))
        known = sorted({term for term in terms if term in self._postings}, key=lambda term: (self._chunks(term), term))
        for term in known[:MAX_TERMS]:
            postings = np.atleast_1d(np.array(self._postings[term], dtype=np.int64))
            rows = postings >> 8
            inside = int(np.searchsorted(rows, count))
            if inside == 0:
                continue
            rows = rows[:inside]
            found = (postings[:inside] & _MOST).astype(np.float64)
            idf = np.log1p((count - inside + 0.5) / (inside + 0.5))
            total[rows] += idf * found * (K1 + 1) / (found + norm[rows])
        return total

    def _chunks(self, term: str) -> int:
        """Chunks that a known term occurs in."""
        known = self._postings[term]
        return len(known) if isinstance(known, array) else 1

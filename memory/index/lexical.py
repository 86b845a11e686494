"""An inverted index over FULL texts that grows by one chunk a step: BM25 of every old chunk for the terms of now."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable

import numpy as np

from memory.index.wordfile import NOTHING, Frozen, merged, word_hash
from memory.plan import FloatArray, IntArray
from memory.text.words import tokenize

K1, B = 1.2, 0.75
MAX_TERMS = 64
"""Query terms that are looked up; the rarest are kept, since the common ones say little and cost most."""


_MOST = 255
"""Largest count that is told apart: BM25 has long saturated there."""


class LexicalIndex:
    """Chunk n is the n-th text added.

    A posting is one number, row and count in one (four bytes), and a word that occurs in one chunk only has no array:
    a session of 10,000 pages has millions of postings. ``frozen``: of the first chunks, as a file kept them.
    """

    def __init__(self, frozen: Frozen = NOTHING) -> None:
        self._frozen = frozen
        self._postings: dict[str, int | array[int]] = {}
        self._lengths = array("l", frozen.lengths.tolist())

    @property
    def thawed(self) -> int:
        """Words of the texts that came after the frozen ones."""
        return sum(self._lengths[len(self._frozen.lengths) :])

    def frozen(self) -> Frozen:
        """All of it in a form that can be kept. O(postings)."""
        by_hash = sorted((word_hash(word), known) for word, known in self._postings.items())
        ends, postings = array("q"), array("I")
        for _, known in by_hash:
            postings.extend((known,) if isinstance(known, int) else known)
            ends.append(len(postings))
        late = Frozen(
            np.array([found for found, _ in by_hash], dtype=np.uint64),
            np.array(ends, dtype=np.int64),
            np.array(postings, dtype=np.uint32),
            np.array(self._lengths[len(self._frozen.lengths) :], dtype=np.int32),
        )
        return merged(self._frozen, late)

    def extend(self, texts: Iterable[str]) -> None:
        """Index the next chunks."""
        for text in texts:
            self.add(text)

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
        found_in = {term: self._found(term) for term in terms}
        known = sorted((term for term, found in found_in.items() if len(found)), key=lambda t: (len(found_in[t]), t))
        for term in known[:MAX_TERMS]:
            postings = found_in[term]
            rows = postings >> 8
            inside = int(np.searchsorted(rows, count))
            if inside == 0:
                continue
            rows = rows[:inside]
            found = (postings[:inside] & _MOST).astype(np.float64)
            idf = np.log1p((count - inside + 0.5) / (inside + 0.5))
            total[rows] += idf * found * (K1 + 1) / (found + norm[rows])
        return total

    def _found(self, term: str) -> IntArray:
        """Postings of a term, ascending."""
        early, late = self._frozen.of(term), self._postings.get(term)
        if late is None:
            return early.astype(np.int64)
        return np.concatenate((early.astype(np.int64), np.atleast_1d(np.array(late, dtype=np.int64))))

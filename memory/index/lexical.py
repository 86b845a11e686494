"""An inverted index over FULL texts that grows by one chunk a step: BM25 of every old chunk for the terms of now."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from memory.index.wordfile import NOTHING, Frozen, merged, word_hash
from memory.plan import FloatArray, IntArray
from memory.text.words import tokenize

K1, B = 1.2, 0.75
MAX_TERMS = 64
"""Query terms that are looked up; the rarest are kept, since the common ones say little and cost most."""


_MOST = 255
"""Largest count that is told apart: BM25 has long saturated there."""
_LOOKED_AT = 50_000
"""Postings that are looked at to find candidates among very many chunks."""


class LexicalIndex:
    """Chunk n is the n-th text added.

    A posting is one number, row and count in one (four bytes), and a word that occurs in one chunk only has no array:
    a session of 10,000 pages has millions of postings. ``frozen``: of the first chunks, as a file kept them.
    """

    def __init__(self, frozen: Frozen = NOTHING) -> None:
        self._frozen = frozen
        self._postings: dict[str, int | array[int]] = {}
        self._lengths = array("l", frozen.lengths.tolist())
        self._words = sum(self._lengths)

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
        self._words += len(words)
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

    def best(self, terms: Iterable[str], limit: int) -> IntArray:
        """Up to ``limit`` rows, ascending, of the chunks that the rarest of the terms speak for most: so many of these
        as have `_LOOKED_AT` postings together, one at least. O(`_LOOKED_AT`), whatever is common."""
        total, seen = np.zeros(len(self)), [np.zeros(0, dtype=np.int64)]
        left = _LOOKED_AT
        for parts in self._rarest(terms):
            holding = sum(map(len, parts))
            if holding > left < _LOOKED_AT:
                break
            left -= holding
            for part in parts:
                rows = (part >> 8).astype(np.int64)
                total[rows] += self._impact(rows, part & _MOST, holding)
                seen.append(rows)
        found = np.sort(np.concatenate(seen))
        found = found[np.diff(found, prepend=-1) > 0]
        if len(found) > limit:
            found = np.sort(found[np.argpartition(-total[found], limit)[:limit]])
        return found

    def scores_of(self, terms: Iterable[str], rows: IntArray) -> FloatArray:
        """(n,) BM25 of the chunks in ``rows`` (n,), ascending: what `scores` of all says of them, without the rest."""
        total = np.zeros(len(rows))
        for parts in self._rarest(terms):
            holding = sum(map(len, parts))
            for part in parts:
                # the first posting at or after (row, 0) is the row's, if it has one
                at = np.searchsorted(part, rows.astype(np.uint32) << 8)
                posting = part[np.minimum(at, len(part) - 1)]
                with_term = posting >> 8 == rows
                total[with_term] += self._impact(rows[with_term], posting[with_term] & _MOST, holding)
        return total

    def _impact(self, rows: IntArray, found: NDArray[np.integer], holding: int) -> FloatArray:
        """(n,) what a term that ``holding`` chunks have, and ``rows`` (n,) ``found`` (n,) times, adds to these."""
        count = len(self)
        lengths = np.frombuffer(self._lengths, dtype=f"i{self._lengths.itemsize}")[rows]
        norm = K1 * (1 - B + B * lengths / max(1.0, self._words / count))
        idf = np.log1p((count - holding + 0.5) / (holding + 0.5))
        impact: FloatArray = idf * found * (K1 + 1) / (found + norm)
        return impact

    def _rarest(self, terms: Iterable[str]) -> list[list[NDArray[np.uint32]]]:
        """Postings of the terms that occur, those of the rarest first, each as its frozen part and the later one."""
        found = {term: self._parts(term) for term in terms}
        known = sorted((term for term, parts in found.items() if parts), key=lambda t: (sum(map(len, found[t])), t))
        return [found[term] for term in known[:MAX_TERMS]]

    def _parts(self, term: str) -> list[NDArray[np.uint32]]:
        late = np.atleast_1d(np.array(self._postings.get(term, ()), dtype=np.uint32))
        return [part for part in (self._frozen.of(term), late) if len(part)]

    def _found(self, term: str) -> IntArray:
        """Postings of a term, ascending."""
        early, late = self._frozen.of(term), self._postings.get(term)
        if late is None:
            return early.astype(np.int64)
        return np.concatenate((early.astype(np.int64), np.atleast_1d(np.array(late, dtype=np.int64))))

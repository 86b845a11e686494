"""BM25 lexical scores (Robertson and Zaragoza 2009; the non-negative idf of Lucene)."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from memory.text.words import tokenize

K1 = 1.2
B = 0.75


class Bm25:
    """An index over documents that can grow. Document i is the i-th one given."""

    def __init__(self, documents: Iterable[str] = (), *, k1: float = K1, b: float = B) -> None:
        self.k1 = k1
        self.b = b
        self._lengths = array("q")
        self._postings: dict[str, tuple[array[int], array[int]]] = {}
        for document in documents:
            self.add(document)

    def __len__(self) -> int:
        return len(self._lengths)

    def add(self, document: str) -> None:
        """Append a document."""
        number = len(self._lengths)
        terms = tokenize(document)
        for term, count in Counter(terms).items():
            ids, counts = self._postings.setdefault(term, (array("q"), array("q")))
            ids.append(number)
            counts.append(count)
        self._lengths.append(len(terms))

    def idf(self, term: str) -> float:
        """Inverse document frequency of a term as `tokenize` gives it; positive, highest for an unknown one."""
        known = self._postings.get(term)
        frequency = len(known[0]) if known else 0
        return math.log1p((len(self) - frequency + 0.5) / (frequency + 0.5))

    def scores(self, query: str) -> NDArray[np.float64]:
        """(len(self),) scores, 0 where no term is shared. A term repeated in the query counts once for each."""
        result = np.zeros(len(self), dtype=np.float64)
        if not len(self):
            return result
        lengths = np.array(self._lengths, dtype=np.float64)
        norm = self.k1 * (1 - self.b + self.b * lengths / max(float(lengths.mean()), 1e-9))
        for term, weight in Counter(tokenize(query)).items():
            known = self._postings.get(term)
            if known is None:
                continue
            ids = np.array(known[0], dtype=np.int64)
            counts = np.array(known[1], dtype=np.float64)
            result[ids] += weight * self.idf(term) * counts * (self.k1 + 1) / (counts + norm[ids])
        return result


def scores(query: str, documents: Sequence[str]) -> NDArray[np.float64]:
    """(len(documents),) BM25 of the query against each, with statistics of these documents alone."""
    return Bm25(documents).scores(query)

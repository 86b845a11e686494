"""Lexical vectors: hashed words, word beginnings and CJK bigrams, weighted without a corpus.

Their cosine is a lexical score in [0, 1] up to hashing noise of about 1 / sqrt(dim).
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from memory.encoders.vectors import unit_rows
from memory.text.words import tokenize

VERSION = 1
"""Raised whenever a text would get another vector: it is part of every id."""
_STEM_CHARS = 5
_STEM_WEIGHT = 0.6
_COMMON_WEIGHT = 0.2
_COMMON_WORDS = (
    "a about after all also am an and any are as at be been before being but by can could did do does doing for from "
    "get had has have he her here him his how i if in into is it its just me more most my no not now of on one only or "
    "other our out over she should so some such than that the their them then there these they this those through to "
    "under up us use used using very was we were what when where which while who whom whose why will with would you "
    "your"
)
_COMMON = frozenset(_COMMON_WORDS.split())


class HashingEncoder:
    """Deterministic, without weights or dependencies: for tests, as last resort, and as half of `LexicalFusion`.

    Reads the whole of a document. ``max_tokens`` bounds state texts only (see `memory.encoders.windows.state_text`):
    a bag of words in which the question is a thousandth would not be about the question.
    """

    max_tokens = 512

    def __init__(self, dim: int = 256) -> None:
        if dim < 1:
            raise ValueError(f"dim must be at least 1, not {dim}")
        self.dim = dim
        self.id = f"hashing{VERSION}-{dim}"

    def encode_query(self, text: str) -> NDArray[np.float32]:
        """(dim,) float32."""
        row: NDArray[np.float32] = self.encode_documents([text])[0]
        return row

    def encode_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(len(texts), dim) float32."""
        rows = np.zeros((len(texts), self.dim), dtype=np.float64)
        for position, text in enumerate(texts):
            slots: list[int] = []
            values: list[float] = []
            for word, count in Counter(tokenize(text)).items():
                frequency = 1.0 + math.log(count)
                for slot, value in _features(word, self.dim):
                    slots.append(slot)
                    values.append(frequency * value)
            if slots:
                rows[position] = np.bincount(slots, weights=values, minlength=self.dim)
        return unit_rows(rows)


@lru_cache(maxsize=1 << 16)
def _features(word: str, dim: int) -> tuple[tuple[int, float], ...]:
    """(slot, signed weight) of a word and of its beginning, which stands for its stem."""
    weight = _weight(word)
    features = [_hashed(word, weight, dim)]
    if len(word) >= _STEM_CHARS and word.isalpha():
        features.append(_hashed("^" + word[:_STEM_CHARS], weight * _STEM_WEIGHT, dim))
    return tuple(features)


def _weight(word: str) -> float:
    """Rarity guessed from the word alone: common words hardly count, longer words are rarer."""
    return _COMMON_WEIGHT if word in _COMMON else 0.5 + 0.05 * min(len(word), 10)


def _hashed(feature: str, weight: float, dim: int) -> tuple[int, float]:
    digest = hashlib.blake2b(feature.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    number = int.from_bytes(digest, "little")
    # the sign makes collisions cancel on average, so that dot products are unbiased
    return number % dim, weight if number >> 63 else -weight

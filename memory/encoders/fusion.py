"""Lexical fusion: one vector space in which the plain cosine is a mixture of meaning and of words."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from memory.encoders.hashing import HashingEncoder
from memory.encoders.vectors import unit_rows
from memory.ports import Encoder


class LexicalFusion:
    """An encoder extended by hashed words: cos = (1 - weight) * inner cosine + weight * lexical cosine.

    Rows are the concatenation of sqrt(1 - weight) * inner and sqrt(weight) * lexical, so whatever compares keys by
    cosine needs to know nothing of it. It gives names, numbers and rare words their due, and lets an English encoder
    find CJK text. The mixture is exact for texts that have both parts; a text with one part only is that part alone.
    """

    def __init__(self, inner: Encoder, weight: float = 0.4, *, dim: int = 1024) -> None:
        """``weight`` in (0, 1); ``dim``: lexical dimensions, added to the inner ones."""
        if not 0.0 < weight < 1.0:
            raise ValueError(f"the lexical weight must be between 0 and 1, not {weight}")
        self.inner = inner
        self.weight = weight
        self.lexical = HashingEncoder(dim)
        self.id = f"{inner.id}+{self.lexical.id}x{weight:g}"
        self.dim = inner.dim + dim
        self.max_tokens = inner.max_tokens

    def encode_query(self, text: str) -> NDArray[np.float32]:
        """(dim,) float32."""
        row: NDArray[np.float32] = self._fuse(
            self.inner.encode_query(text)[None, :], self.lexical.encode_query(text)[None, :]
        )[0]
        return row

    def encode_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(len(texts), dim) float32."""
        return self._fuse(self.inner.encode_documents(texts), self.lexical.encode_documents(texts))

    def _fuse(self, dense: NDArray[np.float32], lexical: NDArray[np.float32]) -> NDArray[np.float32]:
        return unit_rows(np.hstack([math.sqrt(1.0 - self.weight) * dense, math.sqrt(self.weight) * lexical]))

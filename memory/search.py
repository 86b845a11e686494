"""Searching a session: chunks that speak to a query, whatever the last context showed of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memory.chunking import full_text
from memory.errors import EncoderFault
from memory.index.keys import KeyMatrix
from memory.index.lexical import LexicalIndex
from memory.ports import ChunkStore, Encoder
from memory.text.fusion import reciprocal_rank
from memory.text.passages import best_passages
from memory.text.words import tokenize

MAX_FOUND = 50
PASSAGE_CHARS = 600
PAGE = 256
"""Texts read at once while the index catches up."""
_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Found:
    """A chunk that speaks to a query. ``score`` orders and means nothing else; ``passage`` is a part of its text."""

    chunk: int
    score: float
    placeholder: str
    passage: str


class Search:
    """Over a store that may grow: BM25 over the whole texts and cosine of the keys, fused by rank.

    The word index is built by the first search, which reads every text once (about 1 s for 1,000 chunks of 4,000
    characters); later ones read what is new. Keys that are missing are made, and kept in memory only.
    """

    def __init__(self, store: ChunkStore, encoder: Encoder) -> None:
        self._store = store
        self._encoder = encoder
        self._words = LexicalIndex()
        self._keys = KeyMatrix(encoder.dim)
        self._turn = asyncio.Lock()
        self._reading: asyncio.Task[None] | None = None

    async def find(self, query: str, count: int = 5) -> list[Found]:
        """The best ``count`` chunks (at most `MAX_FOUND`), best first; those that share nothing with the query are left
        out. Raises ValueError for an empty query."""
        if not query.strip():
            raise ValueError("the query is empty")
        async with self._turn:
            if self._reading is None or self._reading.done():
                self._reading = asyncio.create_task(self._catch_up())
            # who gives up waiting must not leave half of it to the next one
            await asyncio.shield(self._reading)
            scores, relevant = await asyncio.to_thread(self._scored, query)
        best = [int(row) for row in np.argsort(-scores, kind="stable") if relevant[row]][: min(count, MAX_FOUND)]
        chunks = await self._store.chunks([row + 1 for row in best])
        found = []
        for row, chunk in zip(best, chunks, strict=True):
            text = full_text(chunk.step)
            passages = await asyncio.to_thread(best_passages, query, text, limit_chars=PASSAGE_CHARS)
            found.append(Found(row + 1, float(scores[row]), chunk.placeholder, "\n…\n".join(passages)))
        return found

    async def _catch_up(self) -> None:
        last = await self._store.last_step()
        if len(self._words) == last:
            return
        known = await self._store.keys(self._encoder.id)
        if len(known.numbers):
            self._keys.add(known.numbers, known.matrix)
        for first in range(len(self._words) + 1, last + 1, PAGE):
            numbers = range(first, min(first + PAGE, last + 1))
            texts = [full_text(chunk.step) for chunk in await self._store.chunks(numbers)]
            await asyncio.to_thread(self._take, numbers, texts)

    def _take(self, numbers: Sequence[int], texts: Sequence[str]) -> None:
        for text in texts:
            self._words.add(text)
        missing = self._keys.missing(np.asarray(numbers)).tolist()
        if not missing:
            return
        try:
            rows = self._encoder.encode_documents([texts[number - numbers[0]] for number in missing])
        except EncoderFault as fault:
            _LOGGER.warning("%d chunks are found by their words only: %s", len(missing), fault)
            return
        self._keys.add(missing, rows)

    def _scored(self, query: str) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """(M,) fused scores, and which chunks share a word with the query or point its way."""
        count = len(self._words)
        words = self._words.scores(tokenize(query), count)
        try:
            vector = self._encoder.encode_query(query)
        except EncoderFault as fault:
            _LOGGER.warning("found by words only: %s", fault)
            return words, words > 0
        cosines = np.asarray(self._keys.cosines(vector, np.arange(1, count + 1)), dtype=np.float64)
        return reciprocal_rank(words, cosines), (words > 0) | (cosines > 0)

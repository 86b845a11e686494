"""Searching a session: chunks that speak to a query, whatever the last context showed of them."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memory.chunking import full_text
from memory.errors import EncoderFault, StoreFault
from memory.index.keys import KeyMatrix
from memory.index.lexical import LexicalIndex
from memory.index.sketch import Sketches, compared
from memory.index.sketchfile import SUFFIX, read_sketches, write_sketches
from memory.load import load_keys, load_words, put_words
from memory.plan import FloatArray, IntArray
from memory.ports import ChunkStore, Encoder
from memory.records import Chunk
from memory.text.fusion import reciprocal_rank
from memory.text.passages import best_passages
from memory.text.words import tokenize

MAX_FOUND = 50
PASSAGE_CHARS = 600
PAGE = 256
"""Texts read at once while the index catches up."""
SKETCHED_FROM = 100_000
"""Chunks from which on sketches say which keys are compared; fewer are all compared within some milliseconds."""
RANKED = 100
"""Ranks by words and by key that count: the same chunks are the best, whether all are scored or only candidates."""
NEAREST, WORDIEST = 3_000, 200
"""Candidates then, at most: chunks whose sketches are nearest, chunks that share most with the query's words."""
_AT_ONCE = 1_024
"""New keys that a search sketches on its way; more are, in the background."""
_STRETCH = 8_192
"""Keys sketched between two looks at whether it is time to close."""
_WORTH = 16
"""The file of sketches is written anew when this fraction of them has come since."""
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

    The first search takes what was put down of words and keys (`memory.load`), and reads every text that is not among
    it once (about 1 s for 1,000 chunks of 4,000 characters); later ones read what is new. Keys that are missing are
    made, and kept in memory only.

    From `SKETCHED_FROM` chunks on only candidates are scored, exactly: sketches of the keys (`memory.index.sketch`) and
    the rarest of the query's words say which. While sketches are being made, in the background, every chunk is scored.
    """

    def __init__(self, store: ChunkStore, encoder: Encoder, *, own: bool = False) -> None:
        """``own``: whoever opened the store is the session's owner, so that files may be put down beside it."""
        self._store = store
        self._encoder = encoder
        self._own = own
        self._words = LexicalIndex()
        self._keys = KeyMatrix(encoder.dim)
        self._loaded = False
        self._sketches: Sketches | None = None
        self._in_file = 0
        """Sketches in the file."""
        self._making: asyncio.Task[None] | None = None
        self._closing = threading.Event()
        self._turn = asyncio.Lock()

    async def find(self, query: str, count: int = 5) -> list[Found]:
        """The best ``count`` chunks (at most `MAX_FOUND`), best first; those that share nothing with the query are left
        out. Raises ValueError for an empty query."""
        if not query.strip():
            raise ValueError("the query is empty")
        # who gives up waiting must not leave half of it to the next one
        best = await asyncio.shield(asyncio.create_task(self._best(query, min(count, MAX_FOUND))))
        chunks = await self._store.chunks([row + 1 for row, _ in best])
        return await asyncio.to_thread(_shown, query, best, chunks)

    async def aclose(self) -> None:
        """End what is made in the background, and put down what makes the next first search quick. The store stays
        open. A fault is logged: it loses nothing."""
        self._closing.set()
        async with self._turn:
            if self._making is not None:
                await asyncio.wait([self._making])
            if not self._own or not self._loaded:
                return
            try:
                await put_words(self._store, self._words)
                await self._put_sketches()
            except (StoreFault, OSError) as fault:
                _LOGGER.warning("the next first search will take longer: %s", fault)

    async def _best(self, query: str, count: int) -> list[tuple[int, float]]:
        """(row, score) of the best, best first."""
        async with self._turn:
            await self._catch_up()
            near = await self._near(query)
            sketched = near is None and await self._sketch()
            return await asyncio.to_thread(self._ranked, query, count, sketched, near)

    async def _near(self, query: str) -> IntArray | None:
        """Rows whose keys are nearest, in a long session whose store finds them by itself."""
        if len(self._words) <= SKETCHED_FROM:
            return None
        try:
            vector = await asyncio.to_thread(self._encoder.encode_query, query)
        except EncoderFault:
            return None
        found = await self._store.nearest(self._encoder.id, vector, NEAREST)
        return None if found is None else found.numbers[found.numbers <= len(self._words)] - 1

    # -- what is known of the chunks

    async def _catch_up(self) -> None:
        last = await self._store.last_step()
        if not self._loaded:
            wanted = await self._load(last)
        else:
            wanted = list(range(len(self._words) + 1, last + 1))
            known = await self._store.keys(self._encoder.id, wanted) if wanted else None
            if known is not None and len(known.numbers):
                self._keys.add(known.numbers, known.matrix)
        for first in range(0, len(wanted), PAGE):
            numbers = wanted[first : first + PAGE]
            texts = [full_text(chunk.step) for chunk in await self._store.chunks(numbers)]
            await asyncio.to_thread(self._take, numbers, texts)

    async def _load(self, last: int) -> list[int]:
        """Take what was put down; returns the chunks whose texts are still needed, ascending."""
        words, keys = await load_words(self._store, last), KeyMatrix(self._encoder.dim)
        await load_keys(self._store, self._encoder, keys)
        path = self._store.beside(SUFFIX)
        if path is not None and last > SKETCHED_FROM:
            known = await asyncio.to_thread(read_sketches, path, self._encoder.id, keys.rows(last), keys.has(last))
            self._sketches, self._in_file = known, len(known) if known else 0
        self._words, self._keys, self._loaded = words, keys, True
        keyless = keys.missing(np.arange(1, len(words) + 1)).tolist()
        return [*keyless, *range(len(words) + 1, last + 1)]

    def _take(self, numbers: Sequence[int], texts: Sequence[str]) -> None:
        text_of = dict(zip(numbers, texts, strict=True))
        for number, text in text_of.items():
            if number > len(self._words):
                self._words.add(text)
        missing = self._keys.missing(np.asarray(numbers)).tolist()
        if not missing:
            return
        try:
            rows = self._encoder.encode_documents([text_of[number] for number in missing])
        except EncoderFault as fault:
            _LOGGER.warning("%d chunks are found by their words only: %s", len(missing), fault)
            return
        self._keys.add(missing, rows)

    # -- sketches of the keys

    async def _sketch(self) -> bool:
        """Sketch the keys that came since; whether every key has its sketch now."""
        count = len(self._words)
        if count <= SKETCHED_FROM:
            return False
        if self._making is not None:
            if not self._making.done():
                return False
            made, self._making = self._making, None
            made.result()
        keys, has = self._keys.rows(count), self._keys.has(count)
        if self._sketches is None:
            self._sketches = await asyncio.to_thread(Sketches.of, keys, has)
        lacking = self._sketches.lacking(has)
        if len(lacking) > _AT_ONCE:
            self._making = asyncio.create_task(self._make(self._sketches, lacking, keys), name="sketches")
            return False
        if len(lacking):
            await asyncio.to_thread(self._sketches.put, lacking, keys[lacking])
        return True

    async def _make(self, sketches: Sketches, rows: IntArray, keys: NDArray[np.float32]) -> None:
        """Until it is done nobody else looks at ``sketches``."""

        def put() -> None:
            for first in range(0, len(rows), _STRETCH):
                if self._closing.is_set():
                    return
                part = rows[first : first + _STRETCH]
                sketches.put(part, keys[part])

        await asyncio.to_thread(put)
        if self._own and not self._closing.is_set():
            try:
                await self._put_sketches()
            except OSError as fault:
                _LOGGER.warning("sketches of keys cannot be put down: %s", fault)

    async def _put_sketches(self) -> None:
        path, made = self._store.beside(SUFFIX), self._sketches
        if path is None or made is None or len(made) - self._in_file <= len(made) // _WORTH:
            return
        await asyncio.to_thread(write_sketches, path, self._encoder.id, made)
        self._in_file = len(made)

    # -- scores

    def _ranked(self, query: str, count: int, sketched: bool, near: IntArray | None = None) -> list[tuple[int, float]]:
        """(row, fused score) of the best chunks that share a word with the query or point its way, best first."""
        terms = tokenize(query)
        try:
            vector = self._encoder.encode_query(query)
        except EncoderFault as fault:
            _LOGGER.warning("found by words only: %s", fault)
            vector = None
        if near is not None and vector is not None:
            rows = np.union1d(self._words.best(terms, WORDIEST), near)
            cosines = self._keys.cosines(vector, rows + 1)
            scores = self._words.scores_of(terms, rows)
        elif sketched and self._sketches is not None:
            rows, cosines = self._candidates(self._sketches, terms, vector)
            scores = self._words.scores_of(terms, rows)
        else:
            rows = np.arange(len(self._words))
            cosines = self._keys.cosines(vector, rows + 1) if vector is not None else np.zeros(len(rows))
            scores = self._words.scores(terms, len(rows))
        relevant = (scores > 0) | (cosines > 0)
        if vector is not None:
            scores = reciprocal_rank(scores, cosines, window=RANKED)
        order = np.argsort(-scores, kind="stable")
        return [(int(rows[at]), float(scores[at])) for at in order[relevant[order]][:count]]

    def _candidates(
        self, sketches: Sketches, terms: Sequence[str], vector: NDArray[np.float32] | None
    ) -> tuple[IntArray, FloatArray]:
        """(n,) rows, ascending, that are worth being scored, with their cosines (n,)."""
        wordiest = self._words.best(terms, WORDIEST)
        if vector is None:
            return wordiest, np.zeros(len(wordiest))
        near, cosines = compared(sketches, self._keys, vector, NEAREST)
        more = np.setdiff1d(wordiest, near, assume_unique=True)
        rows = np.concatenate((near, more))
        order = np.argsort(rows)
        return rows[order], np.concatenate((cosines, self._keys.cosines(vector, more + 1)))[order]


def _shown(query: str, best: Sequence[tuple[int, float]], chunks: Sequence[Chunk]) -> list[Found]:
    """What is told of the best ``chunks``."""
    found = []
    for (row, score), chunk in zip(best, chunks, strict=True):
        passages = best_passages(query, full_text(chunk.step), limit_chars=PASSAGE_CHARS)
        found.append(Found(row + 1, score, chunk.placeholder, "\n…\n".join(passages)))
    return found

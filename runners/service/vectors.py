"""What the service keeps warm: the keys of candidates it has seen, and how alike those of recent pools are."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from memory.policies.alike import products, rounded
from memory.ports import Encoder, TokenCounter
from memory.selection.similarity import Float32Array

_ENTRY = 200
"""Bytes of an entry besides its key: digest, tuple, dictionary."""
_POOLS = 8
Digest = bytes


@dataclass(frozen=True, slots=True)
class CacheFigures:
    """``hits`` and ``misses`` count candidates; ``bytes`` is what the entries take now."""

    hits: int
    misses: int
    entries: int
    bytes: int


class WarmKeys:
    """Keys (rounded to whole numbers, see `memory.policies.alike`) and token counts by text, least recently used first
    out. ``max_bytes`` bounds what they take. Thread-safe; blocking."""

    def __init__(self, encoder: Encoder, counter: TokenCounter, max_bytes: int) -> None:
        self._encoder = encoder
        self._counter = counter
        self._max_bytes = max_bytes
        self._entry = 4 * encoder.dim + _ENTRY
        self._known: OrderedDict[Digest, tuple[Float32Array, int]] = OrderedDict()
        self._hits = self._misses = 0
        self._lock = threading.Lock()

    def keys(self, texts: Sequence[str], digests: Sequence[Digest]) -> tuple[Float32Array, int]:
        """(n, d) keys of the texts, and how many were known. Raises EncoderFault."""
        found = self._known_of(digests)
        missing = {digest: text for digest, text, entry in zip(digests, texts, found, strict=True) if entry is None}
        warm = sum(entry is not None for entry in found)
        fresh: dict[Digest, Float32Array] = {}
        if missing:
            rows = rounded(self._encoder.encode_documents(list(missing.values())))
            fresh = dict(zip(missing, rows, strict=True))
            tokens = [self._counter.count(text) for text in missing.values()]
            self._keep(list(zip(missing, rows, tokens, strict=True)))
        with self._lock:
            self._hits += warm
            self._misses += len(found) - warm
        whole = np.zeros((len(texts), self._encoder.dim), dtype=np.float32)
        for position, (digest, entry) in enumerate(zip(digests, found, strict=True)):
            whole[position] = fresh[digest] if entry is None else entry[0]
        return whole, warm

    def tokens(self, texts: Sequence[str], digests: Sequence[Digest]) -> list[int]:
        """Tokens of each text."""
        found = self._known_of(digests)
        return [
            self._counter.count(text) if entry is None else entry[1] for text, entry in zip(texts, found, strict=True)
        ]

    def reset(self) -> None:
        """Forget everything."""
        with self._lock:
            self._known.clear()

    def figures(self) -> CacheFigures:
        with self._lock:
            count = len(self._known)
            return CacheFigures(self._hits, self._misses, count, count * self._entry)

    def _known_of(self, digests: Sequence[Digest]) -> list[tuple[Float32Array, int] | None]:
        with self._lock:
            for digest in digests:
                if digest in self._known:
                    self._known.move_to_end(digest)
            return [self._known.get(digest) for digest in digests]

    def _keep(self, entries: Sequence[tuple[Digest, Float32Array, int]]) -> None:
        with self._lock:
            for digest, row, tokens in entries:
                self._known[digest] = (row.copy(), tokens)
            while len(self._known) * self._entry > self._max_bytes:
                self._known.popitem(last=False)


class WarmPools:
    """All cosines of the last few pools: one that was seen is taken as it is, one that grew is completed. The cosines
    are exact, so what is remembered cannot be told from what is computed. Thread-safe."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._pools: list[tuple[tuple[Digest, ...], dict[Digest, int], Float32Array]] = []
        """Newest last."""
        self._lock = threading.Lock()

    def cosines(self, digests: Sequence[Digest], whole: Float32Array) -> Float32Array:
        """(n, n) cosines of the keys ``whole`` (n, d), which belong to ``digests``. Not to be written to."""
        wanted = tuple(digests)
        with self._lock:
            pools = list(self._pools)
        same = next((matrix for known, _, matrix in pools if known == wanted), None)
        if same is not None:
            return same
        matrix = self._completed(wanted, whole, pools)
        with self._lock:
            self._pools.append((wanted, {digest: place for place, digest in enumerate(wanted)}, matrix))
            while len(self._pools) > _POOLS or sum(kept.nbytes for _, _, kept in self._pools) > self._max_bytes:
                self._pools.pop(0)
        return matrix

    def reset(self) -> None:
        with self._lock:
            self._pools.clear()

    @staticmethod
    def _completed(
        wanted: Sequence[Digest],
        whole: Float32Array,
        pools: Sequence[tuple[tuple[Digest, ...], dict[Digest, int], Float32Array]],
    ) -> Float32Array:
        best, most = None, len(wanted) // 2
        for pool in pools:
            shared = sum(digest in pool[1] for digest in wanted)
            if shared > most:
                best, most = pool, shared
        if best is None:
            return products(whole, whole)
        places = np.array([best[1].get(digest, -1) for digest in wanted])
        new = np.flatnonzero(places < 0)
        held = np.maximum(places, 0)
        cosines: Float32Array = best[2].take(held, axis=0).take(held, axis=1)
        cosines[new] = products(whole[new], whole)
        cosines[:, new] = cosines[new].T
        return cosines


def digest_of(text: str) -> Digest:
    """What a text is known by."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()

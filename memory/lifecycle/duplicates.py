"""Identical and nearly identical observations: found by what they share, proved on the whole texts.

A text is a set of pieces (between sentence ends, commas and line breaks). The sixteen smallest of their hashes are its
sketch (bottom-k min-hash, Broder 1997): two texts that share most pieces share most of their sketches, so candidates
are a few dictionary look-ups, however long the session. What is called alike has then been compared whole.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

SKETCH = 16
SHARED = 6
"""Hashes of a sketch that a candidate shares. At 90 % alike 15 of 16 are expected."""
CANDIDATES = 4
"""Candidates that are compared whole, most shared first."""
MIN_CHARS = 400
"""Shorter texts are left alone: a line saying that they are copies is as long."""
_PIECES = re.compile(r"[^\n.!?,;。！？，；]+")


@dataclass(frozen=True, slots=True)
class Duplicate:
    """Chunk ``chunk`` observed what ``of``, an earlier one, had observed. ``alike``: 1.0 word for word, else the share
    of characters in pieces that both have. ``own``: the pieces that only it has, in order."""

    chunk: int
    of: int
    alike: float
    own: tuple[str, ...] = ()


@dataclass(slots=True)
class Finder:
    """Fed with texts in order; remembers sketches, not texts. ``text_of`` reads an earlier text again."""

    text_of: Callable[[int], str]
    similar: float = 0.9
    _exact: dict[bytes, int] = field(default_factory=dict)
    _sketches: dict[int, list[int]] = field(default_factory=dict)

    def add(self, chunk: int, text: str) -> Duplicate | None:
        """What ``text`` is a copy of; texts that are copies of none are what later ones are compared with."""
        if len(text) < MIN_CHARS:
            return None
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        first = self._exact.setdefault(digest, chunk)
        if first != chunk:
            return Duplicate(chunk, first, 1.0)
        mine = pieces(text)
        sketch = sorted({hashed(piece) for piece in mine})[:SKETCH]
        shared = Counter(other for value in sketch for other in self._sketches.get(value, ()))
        enough = min(SHARED, len(sketch))
        for other, count in shared.most_common(CANDIDATES):
            if count < enough:
                break
            theirs = pieces(self.text_of(other))
            share = alike(mine, theirs)
            if share >= self.similar:
                known = set(theirs)
                return Duplicate(chunk, other, share, tuple(piece for piece in mine if piece not in known))
        for value in sketch:
            self._sketches.setdefault(value, []).append(chunk)
        return None


def pieces(text: str) -> list[str]:
    """The different pieces of a text, in order."""
    return list(dict.fromkeys(piece for match in _PIECES.findall(text) if (piece := match.strip())))


def hashed(piece: str) -> int:
    """32 bits of a piece."""
    return zlib.crc32(piece.encode("utf-8", "surrogatepass"))


def alike(mine: Iterable[str], theirs: Iterable[str]) -> float:
    """Weighted Jaccard: characters in common pieces over characters in all, in [0, 1]."""
    a, b = set(mine), set(theirs)
    every = sum(map(len, a | b))
    return sum(map(len, a & b)) / every if every else 0.0

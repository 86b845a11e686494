"""The words of a long session as a file: an inverted index over its texts need not be made again when it is opened.

A derivative of the texts in the store, written when a session is closed, and believed when it bears the token that the
store noted then and its checksum holds. Layout: HEAD bytes of JSON, padded, then `Frozen` array by array.
"""

from __future__ import annotations

import json
import os
import secrets
import zlib
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memory.index.keyfile import HEAD, fresh_file

SUFFIX = "words"
_FORM = 1
"""Grows when words, or how a text is taken apart, change."""


@dataclass(frozen=True, slots=True)
class Frozen:
    """Postings by word: those of word i are ``postings[ends[i - 1] : ends[i]]``, ascending."""

    hashes: NDArray[np.uint64]
    """(V,) of the words, ascending (`word_hash`)."""
    ends: NDArray[np.int64]
    postings: NDArray[np.uint32]
    """(P,) row and count in one, as in `memory.index.lexical`."""
    lengths: NDArray[np.int32]
    """(rows,) words of each text."""

    def of(self, word: str) -> NDArray[np.uint32]:
        """Postings of a word; empty where it does not occur."""
        wanted = np.uint64(word_hash(word))
        at = int(np.searchsorted(self.hashes, wanted))
        if at == len(self.hashes) or self.hashes[at] != wanted:
            return self.postings[:0]
        return self.postings[self.ends[at - 1] if at else 0 : self.ends[at]]

    @property
    def counts(self) -> NDArray[np.int64]:
        """(V,) postings of each word."""
        return np.diff(self.ends, prepend=0)


NOTHING = Frozen(*(np.zeros(0, dtype=kind) for kind in (np.uint64, np.int64, np.uint32, np.int32)))  # type: ignore[arg-type]


def word_hash(word: str) -> int:
    """64 bits: among ten million words two are the same once in a hundred thousand sessions."""
    return int.from_bytes(blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def merged(first: Frozen, second: Frozen) -> Frozen:
    """Both as one; the rows of ``second`` come after those of ``first``."""
    hashes = np.union1d(first.hashes, second.hashes)
    parts = [(part, np.searchsorted(hashes, part.hashes)) for part in (first, second)]
    counts = np.zeros(len(hashes), dtype=np.int64)
    for part, at in parts:
        counts[at] += part.counts
    ends = np.cumsum(counts)
    free = ends - counts
    postings = np.zeros(int(ends[-1]) if len(ends) else 0, dtype=np.uint32)
    for part, at in parts:
        moved = np.repeat(free[at] - (part.ends - part.counts), part.counts)
        postings[moved + np.arange(len(part.postings))] = part.postings
        free[at] += part.counts
    return Frozen(hashes, ends, postings, np.concatenate((first.lengths, second.lengths)))


def write_words(path: Path, words: Frozen) -> str:
    """Write the file, whole or not at all; returns the token to note in the store. Raises OSError."""
    token = secrets.token_hex(8)
    parts = [np.ascontiguousarray(part.astype(part.dtype.newbyteorder("<"))) for part in _arrays(words)]
    head = {"form": _FORM, "token": token, "sizes": [len(part) for part in parts], "check": _check(parts)}
    with fresh_file(path, token) as file:
        file.write(json.dumps(head).encode().ljust(HEAD))
        for part in parts:
            file.write(part.data)
    return token


def read_words(path: Path, token: str) -> Frozen | None:
    """The words in ``path``, or None where there are none that can be believed."""
    try:
        with path.open("rb") as file:
            head = json.loads(file.read(HEAD))
            if [head["form"], head["token"]] != [_FORM, token]:
                return None
            left = os.fstat(file.fileno()).st_size - HEAD
            kinds = [part.dtype for part in _arrays(NOTHING)]
            if left != sum(size * kind.itemsize for size, kind in zip(head["sizes"], kinds, strict=True)):
                return None
            parts = [
                np.fromfile(file, dtype=kind.newbyteorder("<"), count=size)
                for size, kind in zip(head["sizes"], kinds, strict=True)
            ]
        if _check(parts) != head["check"]:
            return None
        native = [part.astype(kind, copy=False) for part, kind in zip(parts, kinds, strict=True)]
        return Frozen(*native)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _arrays(words: Frozen) -> list[NDArray[np.generic]]:
    return [words.hashes, words.ends, words.postings, words.lengths]


def _check(parts: list[NDArray[np.generic]]) -> int:
    found = 0
    for part in parts:
        found = zlib.crc32(part.data, found)
    return found

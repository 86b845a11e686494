"""Summaries kept between replays: a bounded file, read and written whole.

Derived data: a damaged or foreign file is begun anew, and a lost write costs time only.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
import tempfile
import zlib
from pathlib import Path
from typing import TypeAlias

from memory.summaries.extractive import VERSION

Key: TypeAlias = tuple[object, ...]
Pair: TypeAlias = tuple[str, str]


class ViewCache:
    """(DETAILED, BRIEF) texts of one recording by the hash of what they were made from."""

    def __init__(self, folder: Path, name: str, *, max_files: int = 4_000) -> None:
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:24]
        self._path = folder / f"{digest}.json.gz"
        self._max_files = max_files
        self._pairs, self._fidelity = self._read()
        self._fresh = False

    def get(self, key: Key) -> Pair | None:
        """The pair made from ``key``, if it is known."""
        return self._pairs.get(_digest(key))

    def put(self, key: Key, pair: Pair) -> None:
        """Keep a pair; written by `save`."""
        self._pairs[_digest(key)] = pair
        self._fresh = True

    def fidelity(self, key: Key) -> tuple[float, ...] | None:
        """What was measured for ``key``, if it is known."""
        return self._fidelity.get(_digest(key))

    def put_fidelity(self, key: Key, values: tuple[float, ...]) -> None:
        """Keep what was measured; written by `save`."""
        self._fidelity[_digest(key)] = values
        self._fresh = True

    def save(self) -> None:
        """Write what is new, whole or not at all; the files unused for longest make room."""
        if not self._fresh:
            with contextlib.suppress(OSError):
                os.utime(self._path)
            return
        body = gzip.compress(
            json.dumps({"views": self._pairs, "fidelity": self._fidelity}).encode(), compresslevel=1, mtime=0
        )
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self._path.parent, suffix=".part")
            with os.fdopen(handle, "wb") as file:
                file.write(body)
            Path(name).replace(self._path)
            self._make_room()

    def _make_room(self) -> None:
        files = sorted(self._path.parent.glob("*.json.gz"), key=lambda file: file.stat().st_mtime)
        for file in files[: max(0, len(files) - self._max_files)]:
            file.unlink(missing_ok=True)

    def _read(self) -> tuple[dict[str, Pair], dict[str, tuple[float, ...]]]:
        try:
            kept = json.loads(gzip.decompress(self._path.read_bytes()))
            pairs = {str(key): (str(pair[0]), str(pair[1])) for key, pair in kept["views"].items()}
            return pairs, {str(key): tuple(float(v) for v in values) for key, values in kept["fidelity"].items()}
        except (OSError, EOFError, zlib.error, ValueError, AttributeError, LookupError, TypeError):
            return {}, {}


def _digest(key: Key) -> str:
    return hashlib.sha256(json.dumps([VERSION, *key]).encode()).hexdigest()[:32]

"""The sketches of a long session's keys as a file: searching one of a million chunks begins with reading 64 MB.

A derivative of the keys. It is believed when its checksum holds and some of its rows are the sketches of the keys that
there are; else it is as if it were not there. Layout: HEAD bytes of JSON, padded, then the mean (float32), which rows
there are (a bit each), the planes (`memory.index.sketch`), as they are in memory.
"""

from __future__ import annotations

import json
import os
import secrets
import zlib
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from memory.index.keyfile import HEAD, fresh_file
from memory.index.sketch import BITS, WORDS, Sketches
from memory.plan import BoolArray

SUFFIX = "sketch"
_Parts: TypeAlias = tuple[NDArray[np.float32], NDArray[np.uint8], NDArray[np.uint64]]
_MEAN = np.dtype("<f4")
_FORM = 1
"""Grows when what a sketch is changes."""
_PROBES = 256
"""Rows that are sketched anew and compared."""
_ROUNDING = BITS // 16
"""Bits of a sketch that may come out otherwise on another machine."""


def write_sketches(path: Path, encoder_id: str, sketches: Sketches) -> None:
    """Write the file, whole or not at all. Raises OSError."""
    rows = len(sketches.has)
    parts: _Parts = (
        sketches.mean.astype(_MEAN),
        np.packbits(sketches.has),
        np.ascontiguousarray(sketches.planes),
    )
    head = {"form": _FORM, "encoder": encoder_id, "dim": len(sketches.mean), "rows": rows, "check": _check(parts)}
    with fresh_file(path, secrets.token_hex(8)) as file:
        file.write(json.dumps(head).encode().ljust(HEAD))
        for part in parts:
            file.write(part.data)


def read_sketches(path: Path, encoder_id: str, keys: NDArray[np.float32], has: BoolArray) -> Sketches | None:
    """The sketches in ``path``, or None where there are none that can be believed of ``keys`` (rows, dim), ``has``
    (rows,) of which there are."""
    dim = keys.shape[1]
    try:
        with path.open("rb") as file:
            head = json.loads(file.read(HEAD))
            rows, flags = int(head["rows"]), -(-int(head["rows"]) // 8)
            if [head["form"], head["encoder"], head["dim"]] != [_FORM, encoder_id, dim] or rows < 1:
                return None
            if os.fstat(file.fileno()).st_size != HEAD + 4 * dim + flags + 8 * WORDS * rows:
                return None
            parts: _Parts = (
                np.fromfile(file, dtype=_MEAN, count=dim),
                np.fromfile(file, dtype=np.uint8, count=flags),
                np.fromfile(file, dtype=np.uint64, count=WORDS * rows),
            )
            if _check(parts) != head["check"]:
                return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    sketches = Sketches(parts[0].astype(np.float32))
    sketches.adopt(parts[2].reshape(WORDS, rows), np.unpackbits(parts[1], count=rows).astype(np.bool_))
    return sketches if _true(sketches, keys, has) else None


def _true(sketches: Sketches, keys: NDArray[np.float32], has: BoolArray) -> bool:
    """Whether there is a key for every sketch, and some of them are what these keys give."""
    rows = np.flatnonzero(sketches.has)
    if not len(rows) or rows[-1] >= len(has) or not has[rows].all():
        return False
    probes = rows[np.unique(np.linspace(0, len(rows) - 1, _PROBES).astype(np.int64))]
    held = sketches.planes[:, probes].T
    differ = np.bitwise_count(held ^ sketches.bits(keys[probes])).sum(axis=1)
    return bool((differ <= _ROUNDING).all())


def _check(parts: _Parts) -> int:
    found = 0
    for part in parts:
        found = zlib.crc32(part.data, found)
    return found

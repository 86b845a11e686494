"""The key matrix of a long session as a file that is mapped, not read: an open session is ready at once.

A derivative of the keys in the store. It is written when a session is closed, and believed when it bears the token that
the store noted then and some of its rows are those of the store; else it is as if it were not there. Layout: HEAD bytes
of JSON, padded, then ``rows`` rows of float32, little-endian; the rest of the file is a hole into which a session's new
keys can grow without moving the old ones.
"""

from __future__ import annotations

import contextlib
import glob
import json
import mmap
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from memory.plan import IntArray

SUFFIX = "keys"
HEAD = 4096
LEAST_BYTES = 32 * 1024 * 1024
"""A smaller matrix is read from the store quickly enough, and need not take its room on the disk twice."""
_SPARE, _SPARE_SHARE = 1024, 4
"""Rows to grow into: so many, or this fraction of those that are there."""
_MISSING = 256
"""Most chunks without a key among those in the file."""


@dataclass(frozen=True, slots=True)
class MappedKeys:
    """``matrix`` (capacity, dim): row n - 1 is the key of chunk n; private to this process, so it may be written to.
    The first ``rows`` rows came from the file; ``missing`` of them have no key."""

    matrix: NDArray[np.float32]
    rows: int
    missing: IntArray

    def numbers(self) -> IntArray:
        """Chunks whose keys came from the file, ascending."""
        return np.setdiff1d(np.arange(1, self.rows + 1), self.missing, assume_unique=True)


def map_keys(path: Path, encoder_id: str, dim: int, token: str) -> MappedKeys | None:
    """The matrix in ``path``, or None where there is none that can be believed."""
    try:
        with path.open("rb") as file:
            head = json.loads(file.read(HEAD))
            size = os.fstat(file.fileno()).st_size - HEAD
            if [head["encoder"], head["dim"], head["token"]] != [encoder_id, dim, token] or _is_big():
                return None
            rows, row_bytes = int(head["rows"]), 4 * dim
            if not 0 < rows <= size // row_bytes:
                return None
            mapped = mmap.mmap(file.fileno(), HEAD + size, access=mmap.ACCESS_COPY)
        matrix = np.frombuffer(mapped, dtype=np.float32, count=size // row_bytes * dim, offset=HEAD)
        return MappedKeys(matrix.reshape(-1, dim), rows, np.array(head["missing"], dtype=np.int64))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def is_worth_it(matrix: NDArray[np.float32], has: NDArray[np.bool_]) -> bool:
    """Whether these keys (rows, dim) should stand in a file; ``has`` (rows,) which of them there are."""
    return matrix.nbytes >= LEAST_BYTES and int(np.count_nonzero(~has)) <= _MISSING and not _is_big()


def write_keys(path: Path, encoder_id: str, matrix: NDArray[np.float32], has: NDArray[np.bool_], kept: int) -> str:
    """Write (rows, dim) keys, or only those after the first ``kept`` rows where those are in the file already; returns
    the token to note in the store. Raises OSError.

    Rows are on the disk before the head says that they are there.
    """
    rows, dim = matrix.shape
    missing = (np.flatnonzero(~has) + 1).tolist()
    token = secrets.token_hex(8)
    head = {"encoder": encoder_id, "dim": dim, "rows": rows, "missing": missing, "token": token}
    if not kept:
        # a file that is mapped somewhere must not shrink
        with fresh_file(path, token) as file:
            _fill(file, head, matrix, 0)
        return token
    with path.open("r+b") as file:
        _fill(file, head, matrix, kept)
    return token


def _fill(file: BinaryIO, head: Mapping[str, object], matrix: NDArray[np.float32], kept: int) -> None:
    rows, dim = matrix.shape
    file.truncate(max(os.fstat(file.fileno()).st_size, HEAD + 4 * dim * (rows + max(_SPARE, rows // _SPARE_SHARE))))
    file.seek(HEAD + 4 * dim * kept)
    file.write(np.ascontiguousarray(matrix[kept:]).data)
    file.flush()
    os.fsync(file.fileno())
    file.seek(0)
    file.write(json.dumps(head).encode().ljust(HEAD))
    file.flush()
    os.fsync(file.fileno())


@contextlib.contextmanager
def fresh_file(path: Path, token: str) -> Iterator[BinaryIO]:
    """A file to be written that takes the place of ``path`` once it is whole and on the disk. Nothing is left of one
    that does not get there, nor of one that a process was killed in: only the owner of a session writes here."""
    for left in path.parent.glob(f"{glob.escape(path.name)}.*"):
        left.unlink(missing_ok=True)
    target = path.with_name(f"{path.name}.{token}")
    try:
        with target.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        target.replace(path)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def _is_big() -> bool:
    """Whether this machine writes numbers the other way round."""
    return bool(np.dtype("=f4").newbyteorder("<") != np.dtype("=f4"))

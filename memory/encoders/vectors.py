"""Unit vectors, and the two things that an encoder must never return: a row of another length, and NaN."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from memory.errors import EncoderFault


def unit_rows(rows: NDArray[np.floating]) -> NDArray[np.float32]:
    """(n, d) rows divided by their L2 norms; a zero row stays zero."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: NDArray[np.float32] = np.zeros(rows.shape, dtype=np.float32)
    np.divide(rows, norms, out=unit, where=norms > 0, casting="same_kind")
    return unit


def checked_rows(rows: NDArray[np.floating], count: int, dim: int, source: str) -> NDArray[np.float32]:
    """Rows as an encoder promises them: (count, dim), finite, unit length. Raises EncoderFault naming ``source``."""
    if rows.shape != (count, dim):
        raise EncoderFault(f"{source} gave vectors of shape {rows.shape}, expected ({count}, {dim})")
    if not np.isfinite(rows).all():
        raise EncoderFault(f"{source} gave vectors that are not finite")
    return unit_rows(rows)

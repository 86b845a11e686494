"""PACE's predictive attention (section 3.2): cosine -> low-temperature softmax -> relative weight -> level."""

from __future__ import annotations

import numpy as np

from memory.plan import FloatArray, LevelArray
from memory.records import Level

BASE_THRESHOLDS: tuple[float, float, float] = (0.4, 0.8, 1.5)
TIE = 1e-9
"""A weight within this of a threshold counts as on it: equal scores must not fall on a side by rounding."""


def relative_weights(cosines: FloatArray, tau: float) -> FloatArray:
    """W_i = M * softmax(s / tau)_i, shape (M,), mean 1. The maximum is subtracted before exp.

    With no positive cosine at all there is nothing to attend to, and recency decides: the newest chunk scores 1, the
    oldest 1/M.
    """
    count = len(cosines)
    if count == 0:
        return np.zeros(0)
    scores = cosines if np.isfinite(cosines.sum()) else np.nan_to_num(cosines, nan=0.0)
    if not (scores > 0).any():
        scores = np.arange(1, count + 1, dtype=np.float64) / count
    weights = np.exp((scores - scores.max()) / tau)
    result: FloatArray = weights * (count / weights.sum())
    return result


def calibrated(cosines: FloatArray, reference: float) -> FloatArray:
    """Cosines stretched about their mean to the spread ``reference``, so that tau means the same for every encoder.

    Fewer than three scores, or equal ones, carry no spread and are returned as they are.
    """
    spread = float(cosines.std()) if len(cosines) >= 3 else 0.0
    if spread < 1e-6:
        return cosines
    mean = float(cosines.mean())
    result: FloatArray = mean + (cosines - mean) * (reference / spread)
    return result


def thresholds(
    pressure: float, strength: float, base: tuple[float, float, float] = BASE_THRESHOLDS
) -> tuple[float, float, float]:
    """(alpha, beta, gamma)_t = base * (1 + lambda * P_t); ``strength`` is lambda."""
    scale = 1.0 + strength * pressure
    return (base[0] * scale, base[1] * scale, base[2] * scale)


def assign_levels(weights: FloatArray, limits: tuple[float, float, float]) -> LevelArray:
    """W > gamma FULL; beta < W <= gamma DETAILED; alpha < W <= beta BRIEF; else PLACEHOLDER. Shape (M,)."""
    alpha, beta, gamma = limits
    levels = np.full(len(weights), int(Level.PLACEHOLDER), dtype=np.int8)
    levels[weights > alpha + TIE] = int(Level.BRIEF)
    levels[weights > beta + TIE] = int(Level.DETAILED)
    levels[weights > gamma + TIE] = int(Level.FULL)
    return levels

"""What an old chunk is worth for the next step, without training: PACE's attention, calibrated, and recency."""

from __future__ import annotations

import numpy as np

from memory.plan import FloatArray
from memory.scoring.attention import relative_weights

NARROW = 0.02
"""Spreads of cosines below this are noise, and are not stretched further."""


def attention_values(cosines: FloatArray, tau: float, recency: float) -> FloatArray:
    """PACE's relative weight at a temperature of ``tau`` times the measured spread, times a factor of recency, (M,).

    One constant temperature cannot serve encoders of different spread, nor next steps and old facts alike (section
    3.2 of the paper uses 0.3 for cosines whose spread it does not state). ``recency`` is the exponent of
    `recency_factors`. Mean 1.
    """
    count = len(cosines)
    if count == 0:
        return np.zeros(0)
    scores = np.nan_to_num(cosines, nan=0.0)
    spread = float(scores.std()) if count >= 3 else 1.0
    values = relative_weights(scores, tau * max(spread, NARROW)) * recency_factors(count, recency)
    return scaled_to_mean_one(values)


def recency_factors(count: int, exponent: float) -> FloatArray:
    """(count,) age ** -exponent; the newest old chunk has age 1."""
    ages = np.arange(count, 0, -1, dtype=np.float64)
    result: FloatArray = ages**-exponent
    return result


def scaled_to_mean_one(values: FloatArray) -> FloatArray:
    """Values divided by their mean; unchanged where all are 0."""
    mean = float(values.mean()) if len(values) else 0.0
    return values / mean if mean > 0 else values

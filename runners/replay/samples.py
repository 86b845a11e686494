"""Values to be averaged, with intervals by bootstrap over their units; and differences of variants, paired by unit."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 2_000
CONFIDENCE = 0.95
KEPT_UNITS = 1_000
"""Resamples of up to so many units are kept: 8 MB each at most."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One unit's value of a measure: a run, a task of a chained session, a probe, a question."""

    measure: str
    stratum: str
    unit: str
    value: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over ``n`` units; ``low`` and ``high`` (95 %) are None for a single unit."""

    n: int
    value: float
    low: float | None
    high: float | None


def estimate(values: Sequence[float], seed: int, name: str) -> Estimate:
    """Percentile bootstrap of the mean. The same seed and name give the same interval, whatever else is computed."""
    data = np.asarray(values, dtype=np.float64)
    if len(data) < 2:
        return Estimate(len(data), float(data.mean()), None, None)
    drawn = _kept_draws(seed, name, len(data)) if len(data) <= KEPT_UNITS else _draws(seed, name, len(data))
    means = np.concatenate([data[rows].mean(axis=1) for rows in drawn])
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return Estimate(len(data), float(data.mean()), float(low), float(high))


def _draws(seed: int, name: str, count: int) -> Iterator[NDArray[np.int32]]:
    """Resamples of ``count`` units, a hundred at a time."""
    digest = hashlib.sha256(f"{seed} {name}".encode()).digest()
    rng = np.random.default_rng(int.from_bytes(digest[:8], "big"))
    for _ in range(RESAMPLES // 100):
        yield rng.integers(0, count, (100, count)).astype(np.int32)


@lru_cache(maxsize=32)
def _kept_draws(seed: int, name: str, count: int) -> tuple[NDArray[np.int32], ...]:
    """Drawing takes most of the time: a report asks for the same resamples again and again."""
    return tuple(_draws(seed, name, count))


def paired(ours: Mapping[str, float], theirs: Mapping[str, float], seed: int, name: str) -> Estimate | None:
    """Mean of the differences over the units that both have; None when there is none."""
    units = sorted(set(ours) & set(theirs))
    return estimate([ours[unit] - theirs[unit] for unit in units], seed, name) if units else None

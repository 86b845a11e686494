"""Calibration: how far stated confidence is from accuracy."""

from __future__ import annotations

from collections.abc import Sequence

BINS = 5


def calibration_error(confidences: Sequence[float | None], correct: Sequence[bool]) -> float | None:
    """Expected calibration error in five bins of 20 percent, weighted by size (BrowseComp-ZH's evaluation), in [0, 1].

    ``confidences`` in percent; None counts as 0, as upstream has it. None without an answer.
    """
    bins: list[list[tuple[float, bool]]] = [[] for _ in range(BINS)]
    for confidence, right in zip(confidences, correct, strict=True):
        value = confidence or 0.0
        bins[min(int(value // (100 / BINS)), BINS - 1)].append((value / 100, right))
    total = sum(map(len, bins))
    if not total:
        return None
    return sum(abs(sum(c for c, _ in each) - sum(r for _, r in each)) for each in bins) / total

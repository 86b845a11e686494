"""PACE's equations against values computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from memory.records import Level
from memory.scoring.attention import assign_levels, calibrated, relative_weights, thresholds


def test_weights_by_hand() -> None:
    """s = (0.3, 0, -0.3), tau 0.3: exp(s/tau) = e, 1, 1/e; their sum 4.08616; W = 3 * share."""
    weights = relative_weights(np.array([0.3, 0.0, -0.3]), 0.3)
    total = math.e + 1 + 1 / math.e
    assert weights == pytest.approx([3 * math.e / total, 3 / total, 3 / math.e / total])
    assert weights == pytest.approx([1.99573, 0.73419, 0.27009], abs=1e-5)
    assert weights.mean() == pytest.approx(1.0)


def test_weights_at_the_edges() -> None:
    assert relative_weights(np.zeros(0), 0.3).shape == (0,)
    assert relative_weights(np.array([0.7]), 0.3) == pytest.approx([1.0])
    assert relative_weights(np.array([0.4, 0.4, 0.4]), 0.3) == pytest.approx([1.0, 1.0, 1.0])


def test_weights_do_not_overflow() -> None:
    weights = relative_weights(np.array([1.0, -1.0]), 0.001)
    assert np.isfinite(weights).all() and weights[0] == pytest.approx(2.0)


def test_recency_decides_without_a_positive_cosine() -> None:
    weights = relative_weights(np.array([0.0, -0.2, -0.9, 0.0]), 0.3)
    assert (np.diff(weights) > 0).all()
    assert weights[3] / weights[2] == pytest.approx(math.exp(0.25 / 0.3))


def test_a_nan_score_counts_as_zero() -> None:
    assert np.isfinite(relative_weights(np.array([np.nan, 0.5]), 0.3)).all()


@pytest.mark.parametrize(
    ("pressure", "expected"),
    [(0.0, (0.4, 0.8, 1.5)), (0.5, (0.5, 1.0, 1.875)), (1.0, (0.6, 1.2, 2.25))],
)
def test_thresholds_by_hand(pressure: float, expected: tuple[float, float, float]) -> None:
    assert thresholds(pressure, 0.5) == pytest.approx(expected)


def test_lambda_zero_ignores_pressure() -> None:
    assert thresholds(1.0, 0.0) == (0.4, 0.8, 1.5)


def test_levels_by_hand() -> None:
    weights = np.array([1.51, 1.5, 0.81, 0.8, 0.41, 0.4, 0.0])
    levels = assign_levels(weights, (0.4, 0.8, 1.5))
    assert levels.tolist() == [3, 2, 2, 1, 1, 0, 0]


@pytest.mark.parametrize(("pressure", "level"), [(0.49, Level.DETAILED), (0.5, Level.BRIEF), (1.0, Level.BRIEF)])
@pytest.mark.parametrize("count", [1, 3, 7, 1000])
def test_equal_scores_fall_on_one_side(pressure: float, level: Level, count: int) -> None:
    """W = 1 exactly; beta reaches 1.0 at P = 0.5, and W <= beta is BRIEF whatever the rounding of the softmax."""
    weights = relative_weights(np.full(count, 0.123456789), 0.3)
    assert set(assign_levels(weights, thresholds(pressure, 0.5)).tolist()) == {int(level)}


def test_calibrated_spread() -> None:
    cosines = np.array([0.50, 0.52, 0.54])
    stretched = calibrated(cosines, 0.1)
    assert stretched.std() == pytest.approx(0.1) and stretched.mean() == pytest.approx(cosines.mean())
    assert calibrated(np.array([0.5, 0.5, 0.5]), 0.1) == pytest.approx([0.5, 0.5, 0.5])

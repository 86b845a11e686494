"""Values without training: PACE's weights at a calibrated temperature, times recency."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.scoring.attention import relative_weights
from memory.scoring.values import attention_values, recency_factors, scaled_to_mean_one


def test_without_recency_it_is_the_papers_weight_at_tau_sigma() -> None:
    cosines = np.array([0.1, 0.3, 0.2, 0.6])
    assert attention_values(cosines, 0.3, 0.0) == pytest.approx(relative_weights(cosines, 0.3 * cosines.std()))


def test_spread_of_the_encoder_does_not_matter() -> None:
    wide = np.array([0.1, 0.5, 0.3, 0.9])
    narrow = 0.4 + 0.25 * (wide - wide.mean())
    assert attention_values(wide, 0.3, 0.5) == pytest.approx(attention_values(narrow, 0.3, 0.5))


def test_equal_scores_are_decided_by_age() -> None:
    values = attention_values(np.full(4, 0.4), 0.3, 1.0)
    assert values == pytest.approx(np.array([3, 4, 6, 12]) / 6.25)
    assert recency_factors(3, 1.0).tolist() == pytest.approx([1 / 3, 1 / 2, 1.0])


def test_nothing_to_scale() -> None:
    assert attention_values(np.zeros(0), 0.3, 0.5).shape == (0,)
    assert scaled_to_mean_one(np.zeros(3)).tolist() == [0, 0, 0]


@given(st.lists(st.floats(-1, 1) | st.just(float("nan")), min_size=1, max_size=30), st.floats(0, 2))
def test_finite_not_negative_mean_one(cosines: list[float], recency: float) -> None:
    values = attention_values(np.array(cosines), 0.3, recency)
    assert np.isfinite(values).all() and (values >= 0).all()
    assert values.mean() == pytest.approx(1.0)

from __future__ import annotations

import pytest

from memory.scoring.pressure import pressure


@pytest.mark.parametrize(
    ("step", "t_max", "previous", "budget", "expected"),
    [
        (1, 200, 0, 1000, 0.005),
        (100, 200, 100, 1000, 0.5),
        (10, 200, 700, 1000, 0.7),
        (200, 200, 0, 1000, 1.0),
        (5000, 200, 0, 1000, 1.0),
        (1, 200, 5000, 1000, 1.0),
    ],
)
def test_by_hand(step: int, t_max: int, previous: int, budget: int, expected: float) -> None:
    assert pressure(step, t_max, previous, budget) == pytest.approx(expected)


def test_zero_t_max_is_an_error() -> None:
    with pytest.raises(ValueError, match="t_max must be positive"):
        pressure(1, 0, 0, 1000)
    with pytest.raises(ValueError, match="budget must be positive"):
        pressure(1, 200, 0, 0)

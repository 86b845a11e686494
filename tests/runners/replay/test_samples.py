"""Intervals by bootstrap: seeded, around the mean, narrower with more units."""

from __future__ import annotations

import pytest

from runners.replay.samples import estimate, paired


def test_the_same_seed_gives_the_same_interval() -> None:
    values = [0.0, 1.0, 0.51, 0.27, 0.93, 0.08, 0.61]
    assert estimate(values, 1, "a") == estimate(values, 1, "a")
    assert estimate(values, 1, "a") != estimate(values, 2, "a")


def test_an_interval_holds_the_mean_and_narrows() -> None:
    few, many = estimate([0.0, 1.0] * 10, 0, "x"), estimate([0.0, 1.0] * 1000, 0, "x")
    assert few.low is not None and few.high is not None and many.low is not None and many.high is not None
    assert few.low < 0.5 < few.high
    # the standard error of 20 draws is .112, of 2,000 .0112
    assert few.high - few.low == pytest.approx(4 * 0.112, rel=0.25)
    assert many.high - many.low == pytest.approx(4 * 0.0112, rel=0.25)


def test_one_unit_has_no_interval() -> None:
    found = estimate([0.5], 0, "x")
    assert (found.n, found.value, found.low, found.high) == (1, 0.5, None, None)


def test_differences_are_paired_by_unit() -> None:
    ours, theirs = {"a": 1.0, "b": 0.6, "c": 0.0}, {"a": 0.9, "b": 0.5, "d": 1.0}
    found = paired(ours, theirs, 0, "x")
    assert found is not None
    assert found.n == 2
    assert found.value == pytest.approx(0.1)
    assert found.low == pytest.approx(0.1)
    assert paired(ours, {}, 0, "x") is None

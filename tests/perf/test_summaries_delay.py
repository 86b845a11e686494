"""The promise that summaries never delay a step, on the clock."""

from __future__ import annotations

import os

import pytest

from tests.perf import bench_summaries_delay
from tests.support.load import slack


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.skipif(os.name != "posix", reason="the busy child is stopped and continued by signals")
def test_a_dead_or_busy_summariser_costs_at_most_one_percent(capsys: pytest.CaptureFixture[str]) -> None:
    """Sixty interleaved rounds of steps with a model reply of 500 ms: absent, blocked for ever, busy.

    Noise of a shared machine is about as large as the bound, so a measurement over it is taken again, twice at most; a
    delay that is really there is over it every time.
    """
    for _ in range(3):
        with capsys.disabled():
            found = bench_summaries_delay.run(60)
        if max(found.values()) <= 0.01:
            return
    if slack() > 2:
        pytest.skip(f"TOO BUSY A MACHINE to measure one percent: {found}")
    raise AssertionError(f"summaries delay steps: {found}")


def test_the_median_is_of_paired_differences() -> None:
    seconds = {"absent": [1.0, 2.0, 1.0], "blocked": [1.1, 2.0, 1.3], "busy": [1.0, 2.5, 1.02]}
    found = bench_summaries_delay.differences(seconds)
    assert found == pytest.approx({"blocked": 0.1, "busy": 0.02})

"""A long session is open at once. What counts is the work of this process: other work on the machine says nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory.encoders.hashing import HashingEncoder
from tests.perf.bench_opening import opening
from tests.perf.stores import fill

STEPS, DIM = 100_000, 256
LIMIT_S = 2.0


@pytest.mark.nightly
@pytest.mark.timeout(900)
async def test_a_hundred_thousand_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From a store that was closed in order to the first context: under two CPU seconds, the best of four."""
    encoder = HashingEncoder(DIM)
    await fill(tmp_path / "s.db", STEPS, encoder.id, DIM)
    before = await opening(tmp_path / "s.db", encoder)
    times = [await opening(tmp_path / "s.db", encoder) for _ in range(4)]
    best = min(time.first_cpu_s for time in times)
    with capsys.disabled():
        print(f"\nto the first context: {best:.2f} s CPU, before {before.first_cpu_s:.2f}; {times}", end="")  # noqa: T201
    assert best < LIMIT_S

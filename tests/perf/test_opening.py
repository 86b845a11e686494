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
@pytest.mark.timeout(1200)
async def test_a_hundred_thousand_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From a store that was closed in order to the first context: under two CPU seconds, the best of three; also under
    a policy that looks at the words of every text. Some 60 seconds."""
    encoder, path = HashingEncoder(DIM), tmp_path / "s.db"
    await fill(path, STEPS, encoder.id, DIM)
    for policy in ("pace", "mosaic"):
        before = await opening(path, encoder, policy)
        times = [(await opening(path, encoder, policy)).first_cpu_s for _ in range(3)]
        with capsys.disabled():
            print(f"\n{policy}, first context: {min(times):.2f} s CPU, before {before.first_cpu_s:.2f}", end="")  # noqa: T201
        assert min(times) < LIMIT_S

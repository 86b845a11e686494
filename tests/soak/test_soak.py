"""Thousands of steps with large observations: memory, descriptors, threads, time and store stay within bounds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.soak.run import KEY_BYTES, Sample, Soak
from tests.support.load import slack

ROOT = Path(__file__).parent.parent.parent
MB = 1 << 20
pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")


def soaked(steps: int, chars: int, *, within: float) -> Soak:
    """A soak in a process of its own, so that nothing but the session is in it; where the machine is so busy that it
    takes longer than ``within`` seconds, of fewer steps."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.soak.run", str(steps), str(chars), f"--within={within}", "--json"]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    made = Soak(**json.loads(ended.stdout))
    made.samples = [Sample(**row) for row in made.samples]  # type: ignore[arg-type]
    return made


def check(made: Soak, wanted: int, since: int, growth: int) -> None:
    """``growth``: bytes of memory that may be added after step ``since``, beside the keys."""
    steps = len(made.seconds)
    if steps < 2 * since:
        pytest.skip(f"TOO BUSY A MACHINE: {steps} of {wanted} steps were taken, which shows nothing")
    first = next(one for one in made.samples if one.step == since)
    later = [one for one in made.samples if one.step > since]
    keys = KEY_BYTES * 2 * steps  # the matrix grows by doubling
    assert max(one.rss for one in later) - first.rss <= growth + keys
    assert {one.descriptors for one in later} == {first.descriptors}
    assert {one.threads for one in later} == {first.threads}
    assert made.store_bytes <= 1.3 * (made.text_bytes + KEY_BYTES * steps)
    assert made.busy_p95(500) <= 0.1 * min(2.0, slack())


@pytest.mark.timeout(300)
def test_a_thousand_steps() -> None:
    check(soaked(1_000, 15_000, within=120), 1_000, since=250, growth=32 * MB)


@pytest.mark.nightly
@pytest.mark.timeout(3000)
def test_ten_thousand_steps(capsys: pytest.CaptureFixture[str]) -> None:
    """Of 50 KB each. Some 8 minutes, at most 15 for the steps."""
    made = soaked(10_000, 50_000, within=900)
    with capsys.disabled():
        rss = [one.rss // MB for one in made.samples]
        print(  # noqa: T201
            f"\n{len(made.seconds):,} steps: p95 of a step at the end {made.p95(1000) * 1000:.0f} ms, in the quietest "
            f"hundred {made.quietest(1000) * 1000:.0f} ms, busy {made.busy_p95(1000) * 1000:.0f} ms; memory {rss} MB; "
            f"store {made.store_bytes // MB} MB of {made.text_bytes // MB} MB"
        )
    check(made, 10_000, since=1000, growth=64 * MB)
    # on a machine that is busy with something else, the clock says nothing about us
    if os.getloadavg()[0] <= 2 * (os.cpu_count() or 1):
        assert made.quietest(1000) <= 0.1
    if len(made.seconds) < 10_000:
        pytest.skip(f"TOO BUSY A MACHINE: what holds was shown for {len(made.seconds)} of 10,000 steps")

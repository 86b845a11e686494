"""Thousands of steps over real pages, killed once: nothing over the budget, a flat context, what is far is found."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from runners.stress.recorder import read_rows
from tests.runners.command import Command

STEPS, BUDGET = 2_000, 16_000


@pytest.mark.nightly  # half a minute to three
@pytest.mark.timeout(900)
def test_thousands_of_steps(
    command: Command, data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    arguments = (
        *(
            "stress",
            str(data_dir / "multihop" / "unified"),
            "--out",
            str(out),
            "-q",
            "--workload",
            "visits",
            "--no-read",
        ),
        *("--steps", str(STEPS), "--budget", str(BUDGET), "--every", "8", "--probe-every", "50", "--distance", "1000"),
        *("--also", "last-k,keep-last-k,pace"),
    )
    rows = out / f"mosaic-{BUDGET}" / "steps.csv"
    process = command.start(*arguments)
    deadline = time.monotonic() + 600
    while not rows.exists() or rows.read_bytes().count(b"\n") < STEPS // 2:
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    ended = command(*arguments)
    (cell,) = ended.report["cells"]
    shown = {row["policy"]: row["shown"] for row in ended.report["recall"]}
    with capsys.disabled():
        print(  # noqa: T201
            f"\n{cell['steps']:,} steps, largest {cell['tokens_max']:,.0f} of {BUDGET:,}, shown 1,000 steps later "
            f"(n={shown['mosaic']['n']}): " + ", ".join(f"{name} {row['value']:.2f}" for name, row in shown.items())
        )
    assert read_rows(rows)["step"].tolist() == list(range(1, STEPS + 1))
    assert (cell["over"], cell["contexts"]) == (0, STEPS // 8)
    tokens = read_rows(rows)["tokens"][7::8]
    assert tokens[-20:].mean() <= 1.1 * tokens[80:100].mean()
    assert cell["glimpse_p50_s"] < 0.05
    # how far ahead of pace it is grows with the session: docs/stress.md
    value = {name: row["value"] for name, row in shown.items()}
    assert value["mosaic"] >= 0.75
    assert value["mosaic"] >= value["pace"] + 0.1
    assert value["mosaic"] >= 2 * max(value["last-k"], value["keep-last-k"])

"""Trials on a Ray cluster of two workers, started here. Needs the extra ``ray``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runners.bench import made
from tests.runners.bench.test_kills import multihop_run, outcomes
from tests.runners.command import ROOT, Command

pytest.importorskip("ray", reason="NO EXTRA: ray is not installed")


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_two_workers_give_what_one_process_gives(command: Command, tmp_path: Path) -> None:
    """The same results; a second run over them does nothing."""
    data, out = made.multihop(tmp_path / "data", 6), tmp_path / "out"
    policies = ("--policy", "react,pace")
    assert command(*multihop_run(data, tmp_path / "alone", *policies)).code == 0
    environment = {**os.environ, "LONGSTRIDE_HOME": str(command.home), "PYTHONPATH": str(ROOT), "RAY_TMPDIR": "/tmp"}
    ray = [sys.executable, "-m", "longstride", *multihop_run(data, out, *policies), "--executor", "ray"]
    for _ in range(2):
        ended = subprocess.run(
            [*ray, "--json", str(tmp_path / "r.json")], env=environment, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stderr[-3000:]
        assert json.loads((tmp_path / "r.json").read_text())["done"] == 12
    assert len(made.rows_of(out)) == 12
    assert outcomes(out) == outcomes(tmp_path / "alone")

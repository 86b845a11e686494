"""Figures are files that a viewer opens; without matplotlib the reason is said before anything is replayed."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from runners.cli.app import main

HAS_PLOTS = importlib.util.find_spec("matplotlib") is not None


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    steps = [{"action": "a", "args": {"q": f"N{at - 4}X"}, "observation": f"N{at}X is here " * 30} for at in range(9)]
    path = tmp_path / "runs.jsonl"
    path.write_text(json.dumps({"id": "r", "task": "t", "steps": steps}) + "\n")
    return path


@pytest.mark.skipif(not HAS_PLOTS, reason="needs the extra 'plots'")
@pytest.mark.filterwarnings("default")
def test_figures_are_written(runs: Path, tmp_path: Path) -> None:
    options = ["--policy", "last-k,react", "--budget", "100,1000", "-c", "encoder.kind=hashing", "--workers", "1"]
    assert main(["replay", str(runs), *options, "--figures", str(tmp_path / "out")]) == 0
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"runs-next_step_recall.png", "runs-next_step_recall.svg", "runs-r-context.svg"} <= names
    assert (tmp_path / "out" / "runs-r-context.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.skipif(HAS_PLOTS, reason="matplotlib is installed")
def test_without_matplotlib_the_extra_is_named(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(runs), "--figures", str(tmp_path / "out"), "--json", str(tmp_path / "o.json")]) == 2
    assert "longstride[plots]" in capsys.readouterr().err
    assert not (tmp_path / "o.json").exists()

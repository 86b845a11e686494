"""Killed with -9 at random moments and begun again: the results are those of a run that was left alone.

About two and a half minutes on two busy cores.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from runners.devserver.model_server import ModelServer, ScriptedTurn, WireRequest
from tests.runners.bench import made
from tests.runners.command import ROOT, Command


def kill_around(command: Command, results: Path, kills: int, most: int, linger: float, *arguments: str) -> Any:
    """Run in a nursery; its report."""
    spec: dict[str, Any] = {"arguments": arguments, "kills": kills, "seed": 7, "most": most, "linger": linger}
    spec["results"] = str(results)
    environment = {**os.environ, "LONGSTRIDE_HOME": str(command.home), "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        [sys.executable, "-m", "tests.runners.bench.killing", json.dumps(spec)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    return json.loads(ended.stdout)


def outcomes(out: Path) -> list[dict[str, Any]]:
    """What every finished trial came to, in one order."""
    rows = [made.outcome_of(row) for row in made.rows_of(out) if row["status"] == "completed"]
    return sorted(rows, key=lambda row: (row["policy"], row["task"], row["rollout"]))


def multihop_run(data: Path, out: Path, *more: str) -> tuple[str, ...]:
    return ("bench", "run", "multihop", "--data", str(data), "--out", str(out), "-q", "--concurrency", "2", *more)


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_multihop_killed_ten_times(command: Command, tmp_path: Path, data_dir: Path) -> None:
    """Real questions under four policies; ten kills."""
    data = data_dir / "multihop" / "unified"
    options = ("--policy", "react,pace,pacms,mosaic", "--limit", "15", "--seed", "3", "-c", "memory.budget=8000")
    assert command(*multihop_run(data, tmp_path / "alone", *options)).code == 0
    report = kill_around(
        command, tmp_path / "out" / "results.jsonl", 10, 3, 0.3, *multihop_run(data, tmp_path / "out", *options)
    )
    assert (report["kills"], report["code"], report["finished"]) == (10, 0, 60)
    assert report["interrupted"] >= 5
    assert outcomes(tmp_path / "out") == outcomes(tmp_path / "alone")


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_two_hundred_questions_and_fifty_kills(command: Command, tmp_path: Path) -> None:
    """Each question takes two calls of the model. A kill may cost one call of each question that was under way, and
    no more: a step that was done is not done again, and a question with a result is never asked about again."""
    data, out = made.multihop(tmp_path / "data", 200), tmp_path / "out"
    results = out / "results.jsonl"
    answers = {f"Who built the lighthouse of {made.town(at)}?": f"{made.town(at)} Andersen" for at in range(200)}
    late: list[str] = []
    stepped: set[str] = set()
    undone: list[str] = []

    class Watching(made.Answering):
        def __call__(self, request: WireRequest) -> ScriptedTurn:
            turn = super().__call__(request)
            name = f"q{list(self.answers).index(self.asked[-1])}"
            text = results.read_text("ascii") if results.exists() else ""
            if f'"task": "{name}", "rollout": 1, "status": "completed"' in text:
                late.append(name)
            messages: Any = request.body["messages"]
            if any(message["role"] == "tool" for message in messages):
                stepped.add(name)
            elif name in stepped:
                undone.append(name)
            return turn

    answering = Watching(answers)
    with ModelServer(answering) as server:
        served = ("--backbone", str(made.backbone(tmp_path, server.url)), "-c", "python.enabled=false")
        report = kill_around(command, results, 50, 3, 0.2, *multihop_run(data, out, *served))
    assert (report["code"], report["finished"]) == (0, 200)
    assert report["kills"] == 50
    assert late == []
    assert undone == []
    rows = made.rows_of(out)
    assert len(rows) == 200
    assert all(row["measures"]["exact_match"] == 1 and row["steps"] == 2 for row in rows)
    assert report["interrupted"] >= 25, "hardly a kill fell into a trial: the test shows nothing"
    assert 2 * 200 <= len(answering.asked) <= 2 * 200 + report["interrupted"]
    assert max(Counter(answering.asked).values()) <= 4

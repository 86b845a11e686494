"""Inspect: our runs as its logs, our agent as its solver. Needs the extra ``inspect``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.runners.bench import made
from tests.runners.command import ROOT, Command

pytest.importorskip("inspect_ai", reason="NO EXTRA: inspect-ai is not installed")

READ = """
import json, sys, warnings
from inspect_ai.log import read_eval_log
log = read_eval_log(sys.argv[1])
print(json.dumps({
    "status": log.status, "task": log.eval.task, "ids": log.eval.dataset.sample_ids,
    "scores": {score.name: score.metrics["mean"].value for score in log.results.scores},
    "samples": [
        {"id": s.id, "epoch": s.epoch, "input": s.input, "target": s.target, "answer": s.output.completion,
         "roles": [m.role for m in s.messages], "calls": sum(len(m.tool_calls or []) for m in s.messages
         if m.role == "assistant"), "f1": s.scores["f1"].value} for s in log.samples],
}))
"""


@pytest.mark.nightly
def test_a_run_opens_with_its_own_log_reader(command: Command, tmp_path: Path) -> None:
    import json

    data, out, to = made.multihop(tmp_path / "data"), tmp_path / "out", tmp_path / "to"
    run = ("bench", "run", "multihop", "--data", str(data), "--out", str(out), "--limit", "2", "-q")
    assert command(*run, "--policy", "react,pace", "--rollouts", "2").code == 0
    export = [sys.executable, "-m", "longstride", "bench", "export", str(out), "--format", "inspect", "--to", str(to)]
    subprocess.run(export, cwd=ROOT, check=True, capture_output=True)
    assert {path.name for path in to.iterdir()} == {"react.eval", "pace.eval"}
    reader = [sys.executable, "-c", READ, str(to / "pace.eval")]
    log = json.loads(subprocess.run(reader, check=True, capture_output=True, text=True).stdout)
    assert (log["status"], log["task"], log["ids"]) == ("success", "longstride/multihop", ["q0", "q1"])
    assert log["scores"] == {"exact_match": 1, "f1": 1, "supporting_recall": 1}
    assert [(s["id"], s["epoch"]) for s in log["samples"]] == [("q0", 1), ("q1", 1), ("q0", 2), ("q1", 2)]
    first = log["samples"][0]
    assert first["target"] == ["Alvik Andersen"]
    assert first["answer"].startswith("Alvik Andersen")
    assert first["roles"][:3] == ["user", "assistant", "tool"]
    assert first["calls"] >= 1


SOLVE = """
import asyncio, json, sys
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import includes
from runners.bench.inspect_solver import agent
outputs = [
    ModelOutput.for_tool_call("mockllm/model", "search", {"queries": ["lighthouse of Alvik"]}),
    ModelOutput.from_content("mockllm/model", "Alvik Andersen [c1]"),
]
for output in outputs:  # without it the tokens would be counted by a file from the network
    output.usage = ModelUsage(input_tokens=10, output_tokens=5, total_tokens=15)
task = Task(dataset=[Sample("Who built the lighthouse of Alvik?", target="Alvik Andersen")], scorer=includes())
model = get_model("mockllm/model", custom_outputs=outputs)
(log,) = eval(task, model=model, solver=agent(corpus=sys.argv[1]),
              log_dir=sys.argv[2], display="none")
sample = log.samples[0]
(score,) = sample.scores.values()
print(json.dumps({"status": log.status, "score": score.value, "about": sample.metadata,
                  "calls": sum(event.event == "model" for event in sample.events),
                  "error": str(log.error or sample.error or "")}))
"""


@pytest.mark.nightly
def test_our_agent_solves_its_tasks(tmp_path: Path) -> None:
    import json

    data = made.multihop(tmp_path / "data")
    solve = [sys.executable, "-c", SOLVE, str(data / "pages.jsonl"), str(tmp_path / "logs")]
    ended = subprocess.run(solve, cwd=ROOT, check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout.splitlines()[-1])
    assert (found["status"], found["score"], found["error"]) == ("success", "C", "")
    assert found["about"]["longstride"] == {"status": "completed", "steps": 2, "message": ""}
    assert found["calls"] == 2

"""What a run is given by mistake: told in one line, with what to do, and nothing is lost."""

from __future__ import annotations

import errno
import json
import time
from pathlib import Path

import pytest

from memory.errors import StoreFull
from runners.bench import trial
from runners.bench.datasets.registry import benchmark
from runners.bench.harness import Job, _trials
from runners.bench.places import Shelf
from runners.bench.rows import RunPlan, TrialKey, TrialRow, Variant
from runners.bench.tasks import Dataset, Task
from runners.bench.trial import Trial
from runners.devserver.model_server import ModelServer
from runners.environment import Environment
from tests.runners.bench import made
from tests.runners.command import Command


def test_ids_as_a_long_list_and_as_a_file(command: Command, tmp_path: Path) -> None:
    data = made.multihop(tmp_path / "data", 100)
    run = ("bench", "run", "multihop", "--data", str(data), "-q", "--max-seconds", "0")
    names = [f"q{at}" for at in range(100)]
    assert len(",".join(names)) > 255  # no file may have such a name
    assert command(*run, "--out", str(tmp_path / "a"), "--ids", ",".join(names)).report["planned"] == 100
    (tmp_path / "ids.txt").write_text("\n".join(names[:7]))
    assert command(*run, "--out", str(tmp_path / "b"), "--ids", str(tmp_path / "ids.txt")).report["planned"] == 7
    (tmp_path / "ids.txt").write_bytes("q1".encode("utf-16"))
    ended = command(*run, "--out", str(tmp_path / "c"), "--ids", str(tmp_path / "ids.txt"), report=False)
    assert (ended.code, "cannot be read as a list of ids" in ended.error) == (2, True)


def test_ids_that_begin_alike_have_sessions_of_their_own(command: Command, tmp_path: Path) -> None:
    """Long, in any script, with slashes: one session must never answer for another question."""
    data = made.multihop(tmp_path / "data", 4)
    ids = ["研究" * 30 + "一", "研究" * 30 + "二", "a/../../b", "x" * 300]
    rows = [json.loads(line) for line in (data / "questions.jsonl").read_text().splitlines()]
    made.write_lines(data / "questions.jsonl", [{**row, "id": name} for row, name in zip(rows, ids, strict=True)])
    answers = {str(row["question"]): str(row["answer"]) for row in rows}
    with ModelServer(made.Answering(answers)) as server:
        served = ("--backbone", str(made.backbone(tmp_path, server.url)), "--concurrency", "1")
        ended = command("bench", "run", "multihop", "--data", str(data), "--out", str(tmp_path / "out"), "-q", *served)
    assert (ended.code, ended.report["scores"]) == (0, {"pace": 1.0})
    assert [row["task"] for row in made.rows_of(tmp_path / "out")] == ids
    assert len(list((tmp_path / "out" / "sessions" / "pace").iterdir())) == 4


def test_a_submission_of_half_a_run_says_so(command: Command, tmp_path: Path) -> None:
    data, out, to = made.multihop(tmp_path / "data"), tmp_path / "out", tmp_path / "answers.jsonl"
    run = ("bench", "run", "multihop", "--data", str(data), "--out", str(out), "-q")
    assert command(*run, "--limit", "1").code == 0
    submit = ("bench", "submit", str(out), "--policy", "pace", "--to", str(to))
    assert "no result" not in command(*submit, report=False).out
    assert command(*run, "--max-seconds", "0").code == 1
    assert "1 answers" in command(*submit, report=False).out
    assert "3 of its trials have no result" in command(*submit, report=False).out


@pytest.mark.parametrize("fault", [StoreFull("no room left"), OSError(errno.ENOSPC, "No space left on device")])
async def test_a_full_disk_is_told_as_such_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    """Wherever a session first meets it: the run stops at once, and the trial is taken up again later."""

    async def full(*_: object, **__: object) -> TrialRow:
        raise fault

    monkeypatch.setattr(trial, "_work", full)
    given = Trial(TrialKey("pace", "q1", 1), "Who?", {}, str(tmp_path / "session"))
    row = await trial.run_trial(given, Environment(tmp_path))
    assert (row.status, row.finished) == ("storage_full", False)


def test_many_questions_begin_at_once(tmp_path: Path) -> None:
    """Time grows with the questions, not with their square: that took minutes for a hundred thousand."""
    tasks = tuple(Task(f"q{at}", "Who?", "Who?", ("me",)) for at in range(20_000))
    plan = RunPlan("multihop", "", "d", {}, (Variant("pace", "h", "{}"),), tuple(task.id for task in tasks))
    job = Job(tmp_path, plan, benchmark("multihop"), Dataset(tasks, "d"), Environment(tmp_path))
    started = time.process_time()
    assert len(_trials(job, list(plan.trial_keys()), Shelf(tmp_path))) == 20_000
    assert time.process_time() - started < 3

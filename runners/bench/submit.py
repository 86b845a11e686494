"""Submissions: answers in the form that a leaderboard or an official scorer takes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from memory.records import JsonValue, Step
from runners.bench.render import write
from runners.bench.rows import TrialRow
from runners.bench.secrecy import Sealer, gives_away
from runners.bench.tally import Tally, Trials
from runners.bench.tasks import Task
from runners.bench.trajectories import Trails
from runners.errors import UsageFault

WITHHELD = "[withheld: it repeats the question]"


def submit(tally: Tally, trails: Trails, policy: str, to: Path) -> int:
    """Write the answers of one policy; their number. Raises UsageFault: an encrypted set has no place to hand them to.

    A gated set's answers are handed over in plaintext, as they must; its questions are not, wherever they stand.
    """
    which = tally.benchmark
    if which.privacy == "encrypted":
        raise UsageFault(
            f"{which.name} has no leaderboard that takes a file, and its answers are not for spreading",
            hint="`bench export` writes sealed trajectories, `bench report` the scores",
        )
    trials = next((each for each in tally.trials if each.label == policy), None)
    if trials is None:
        raise UsageFault(f"--policy {policy}: not among {', '.join(each.label for each in tally.trials)}")
    lines = _LINES.get(which.name, _plain)(tally, trials, _Traces(tally, trails))
    write(to, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), "--to")
    return len(lines)


class _Traces:
    """The reasoning of trials, as a list of what was done."""

    def __init__(self, tally: Tally, trails: Trails) -> None:
        self._tally = tally
        self._trails = trails

    def of(self, task: Task, row: TrialRow) -> str:
        sealer = Sealer.of(task, self._tally.dataset, private=self._tally.benchmark.private)
        try:
            steps = self._trails.steps(row, sealer)
        except UsageFault:
            return ""
        lines = [_said(step) for step in steps]
        if self._tally.benchmark.private:
            lines = [WITHHELD if gives_away(line, [task]) else line for line in lines]
        return "\n".join(lines)


def _said(step: Step) -> str:
    calls = "; ".join(f"{call.name} {json.dumps(dict(call.arguments), ensure_ascii=False)}" for call in step.calls)
    return f"{step.number}. {' '.join(part for part in (step.thought, calls, step.answer) if part)}"


def _gaia(tally: Tally, trials: Trials, traces: _Traces) -> Sequence[Mapping[str, JsonValue]]:
    """The leaderboard's ``task_id, model_answer, reasoning_trace``; of several rollouts the first."""
    tasks = tally.tasks()
    return [
        {
            "task_id": row.task,
            "model_answer": tally.benchmark.final(row.answer),
            "reasoning_trace": traces.of(tasks[row.task], row),
        }
        for row in trials.rows
        if row.rollout == 1
    ]


def _widesearch(tally: Tally, trials: Trials, traces: _Traces) -> Sequence[Mapping[str, JsonValue]]:
    """What the official evaluation reads."""
    return [{"instance_id": row.task, "response": row.answer, "trial_idx": row.rollout - 1} for row in trials.rows]


def _plain(tally: Tally, trials: Trials, traces: _Traces) -> Sequence[Mapping[str, JsonValue]]:
    return [
        {"id": row.task, "rollout": row.rollout, "prediction": tally.benchmark.final(row.answer), "status": row.status}
        for row in trials.rows
    ]


_LINES: Mapping[str, Callable[[Tally, Trials, _Traces], Sequence[Mapping[str, JsonValue]]]] = {
    "gaia": _gaia,
    "widesearch": _widesearch,
}

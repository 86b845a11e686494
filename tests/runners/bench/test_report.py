"""Reports: figures worked out by hand, every form of them, exports that are read back."""

from __future__ import annotations

import csv
import json
from dataclasses import fields, replace
from itertools import combinations
from pathlib import Path

import pytest

from agent.errors import Status
from memory.records import Usage
from runners.bench.datasets.registry import BENCHMARKS, benchmark, load
from runners.bench.figures import draw
from runners.bench.render import grids, markdown, page, show, tables_of
from runners.bench.report import BenchReport, EffortRow, PairRow, RepeatRow, ScoreRow, pass_at, report, to_json
from runners.bench.results import Results
from runners.bench.rows import RunPlan, TrialRow, Variant
from runners.bench.tally import majority, tally
from runners.errors import UsageFault
from runners.replay.readers.files import read_files
from tests.runners.bench import made
from tests.runners.command import ROOT, Command

TASKS = ("q0", "q1", "q2", "q3")
RIGHT = {"react": (1, 0, 0, 0), "pace": (1, 1, 0, 0)}


def recorded(folder: Path, rollouts: int = 1) -> Path:
    """A run whose outcomes are known: right answers by `RIGHT`, one trial without a result; dollars, tokens, errors."""
    data = made.multihop(folder / "data")
    dataset = load(benchmark("multihop"), data, {})
    variants = tuple(Variant(label, label, '{"backbone": {"model": "m"}}') for label in RIGHT)
    plan = RunPlan("multihop", str(data), dataset.hash, {}, variants, TASKS, rollouts)
    results = Results(folder / "out", plan)
    golds = {task.id: task.gold for task in dataset.tasks}
    for key in plan.trial_keys():
        lost = key.policy == "react" and key.task == "q3"
        right = RIGHT[key.policy][TASKS.index(key.task)] and (key.rollout == 1)
        status: Status = "model_unavailable" if lost else "completed"
        row = TrialRow(
            key.policy,
            key.task,
            key.rollout,
            status,
            answer="" if lost else golds[key.task] if right else f"nobody {key.rollout}",
            steps=3,
            tool_calls=4,
            tool_errors=1,
            usage=Usage(input_total=1000, cache_read=250, output=100, cost=0.5),
            context_tokens=2000,
            peak_tokens=900,
            prefix_tokens=500,
            seconds=2.0,
        )
        results.append(row)
    results.close()
    return folder / "out"


def reported(out: Path) -> BenchReport:
    which = benchmark("multihop")
    return report(tally(out, which, load(which, out.parent / "data", {})))


def test_scores_pairs_and_effort(tmp_path: Path) -> None:
    made_report = reported(recorded(tmp_path))
    scores = {(s.policy, s.measure, s.stratum): s for s in made_report.scores}
    assert scores["react", "exact_match", "all"].value == 0.25  # the trial without a result is in the denominator
    assert scores["pace", "exact_match", "all"].value == 0.5
    assert scores["pace", "exact_match", "all"].n == 4
    low, high = scores["pace", "exact_match", "all"].low, scores["pace", "exact_match", "all"].high
    assert low is not None and high is not None and 0 <= low < 0.5 < high <= 1
    assert scores["pace", "exact_match", "made"].n == 2
    (pair,) = [p for p in made_report.pairs if (p.measure, p.stratum) == ("exact_match", "all")]
    assert (pair.policy, pair.against, pair.value, pair.wins, pair.losses) == ("pace", "react", 0.25, 1, 0)
    react, pace = made_report.efforts
    assert (react.without_result, react.terminations) == (1, {"completed": 3, "model_unavailable": 1})
    assert (pace.cost, pace.cost_per_question, pace.cached_share, pace.prefix_share) == (2.0, 0.5, 0.25, 0.25)
    assert (pace.tool_error_rate, pace.steps, pace.input_tokens) == (0.25, 3, 1000)
    assert made_report.repeats == ()


def test_rollouts(tmp_path: Path) -> None:
    """pace: two of four questions right in the first of two rollouts, wrong in the second."""
    made_report = reported(recorded(tmp_path, rollouts=2))
    rows = {(r.policy, r.k): r for r in made_report.repeats}
    assert (rows["pace", 1].passed, rows["pace", 2].passed) == (0.25, 0.5)
    assert (rows["pace", 1].average, rows["pace", 2].average) == (0.5, 0.25)
    assert rows["pace", 2].best == 0.5
    assert rows["pace", 2].voted == 0.5  # one vote each: the earlier answer


@pytest.mark.parametrize(("k", "n", "right"), [(1, 5, 2), (2, 5, 2), (3, 5, 2), (5, 5, 1), (2, 4, 0), (4, 5, 2)])
def test_pass_at_k_is_what_drawing_gives(k: int, n: int, right: int) -> None:
    draws = list(combinations([True] * right + [False] * (n - right), k))
    assert pass_at(k, n, right) == pytest.approx(sum(map(any, draws)) / len(draws))


def test_majority() -> None:
    assert majority([("a", 0.0), ("b", 1.0), ("b", 1.0)]) == 1
    assert majority([("a", 0.0), ("b", 1.0)]) == 0
    assert majority([("", 0.0), ("", 0.0), ("b", 1.0)]) == 1
    assert majority([("", 0.0)]) == 0


def test_forms_of_a_report(command: Command, tmp_path: Path) -> None:
    out = recorded(tmp_path, rollouts=2)
    made_report = reported(out)
    text = markdown(made_report)
    assert "| pace | 0.250 [" in text
    assert text.count("\n## ") == len(grids(made_report)) == 6
    html = page(made_report)
    assert html.count("<table>") == 6
    rows = list(csv.DictReader(tables_of(made_report)["scores.csv"].splitlines()))
    assert len(rows) == len(made_report.scores)
    assert json.loads(json.dumps(to_json(made_report)))["baseline"] == "react"
    files = ("--markdown", "r.md", "--html", "deep/r.html", "--csv", "csv", "--baseline", "pace")
    ended = command("bench", "report", str(out), *files)
    assert (ended.code, ended.report["baseline"]) == (0, "pace")
    assert "Less pace, same questions" in (tmp_path / "r.md").read_text()
    assert (tmp_path / "deep" / "r.html").is_file()
    assert {path.name for path in (tmp_path / "csv").iterdir()} == set(tables_of(made_report))
    assert "What it took" in ended.out
    assert "not among react, pace" in command("bench", "report", str(out), "--baseline", "x", report=False).error


def test_the_same_report_twice(tmp_path: Path) -> None:
    out = recorded(tmp_path)
    assert reported(out) == reported(out)


def test_figures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    drawn = draw(reported(recorded(tmp_path, rollouts=2)), tmp_path / "figures")
    assert {path.stem for path in drawn} == {"scores", "differences", "score-context", "pass-at-k"}
    assert all(path.stat().st_size > 1000 for path in drawn)
    assert "<svg" in page(reported(tmp_path / "out"), drawn)
    whole = reported(tmp_path / "out")
    dollars = replace(whole, scores=tuple(replace(s, stratum=rf"$\frac$ {s.stratum}") for s in whole.scores))
    dollars = replace(dollars, scores=(*whole.scores, *dollars.scores))
    assert draw(dollars, tmp_path / "more")


def test_runs_side_by_side(command: Command, tmp_path: Path) -> None:
    out = recorded(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    (other / "results.jsonl").write_bytes((out / "results.jsonl").read_bytes())
    ended = command("bench", "compare", str(out), str(other), "--baseline", "out/pace")
    assert ended.code == 0
    assert [effort["policy"] for effort in ended.report["efforts"]] == [
        "out/react",
        "out/pace",
        "other/react",
        "other/pace",
    ]
    same = [
        p for p in ended.report["pairs"] if (p["policy"], p["measure"], p["stratum"]) == ("other/pace", "f1", "all")
    ]
    assert [p["value"] for p in same] == [0.0]


def test_runs_in_folders_of_one_name_are_told_apart(command: Command, tmp_path: Path) -> None:
    first, second = recorded(tmp_path / "a"), recorded(tmp_path / "b", rollouts=2)
    report = command("bench", "compare", str(first), str(second)).report
    scores = {s["policy"]: s["value"] for s in report["scores"] if (s["measure"], s["stratum"]) == ("f1", "all")}
    assert scores == {"a/out/react": 0.25, "a/out/pace": 0.5, "b/out/react": 0.125, "b/out/pace": 0.25}
    twice = command("bench", "compare", str(first), str(tmp_path / "b" / ".." / "a" / "out"), report=False)
    assert (twice.code, "the same run stands twice" in twice.error) == (2, True)


def test_names_out_of_the_data_are_shown_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not as markup of a terminal, of Markdown or of HTML, nor as a formula."""
    hostile = "[/b] <script>x</script> | $a$ $\\frac$"
    whole = reported(recorded(tmp_path))
    odd = replace(
        whole, scores=tuple(replace(s, stratum=hostile if s.stratum == "made" else s.stratum) for s in whole.scores)
    )
    show(odd)
    assert "[/b]" in capsys.readouterr().out
    assert "| policy | [/b] &lt;script>x&lt;/script> \\| $a$" in markdown(odd)
    assert "<script>" not in page(odd)


def test_nothing_to_report(command: Command, tmp_path: Path) -> None:
    assert "no results in it" in command("bench", "report", str(tmp_path), report=False).error
    out = tmp_path / "out"
    arguments = ("--data", str(made.multihop(tmp_path / "data")), "--out", str(out), "--max-seconds", "0", "-q")
    assert command("bench", "run", "multihop", *arguments, report=False).code == 1
    ended = command("bench", "report", str(out), report=False)
    assert (ended.code, "no trial has ended yet" in ended.error) == (2, True)
    with pytest.raises(UsageFault, match="no grades by nobody"):
        tally(
            recorded(tmp_path / "more"),
            benchmark("multihop"),
            load(benchmark("multihop"), tmp_path / "data", {}),
            "nobody",
        )


def test_exports_are_read_back(command: Command, tmp_path: Path) -> None:
    data, out, to = made.multihop(tmp_path / "data"), tmp_path / "out", tmp_path / "to"
    run = ("bench", "run", "multihop", "--data", str(data), "--out", str(out), "--limit", "2", "-q")
    assert command(*run).code == 0
    for form in ("alibaba", "openai", "atif"):
        assert command("bench", "export", str(out), "--format", form, "--to", str(to), report=False).code == 0
    rows = {row["task"]: row for row in made.rows_of(out)}
    lines = [json.loads(line) for line in (to / "pace" / "iter1.jsonl").read_text().splitlines()]
    assert [line["question"] for line in lines] == [f"Who built the lighthouse of {made.town(at)}?" for at in (0, 1)]
    assert [line["answer"] for line in lines] == ["Alvik Andersen", "Borgund Andersen"]
    assert [(line["prediction"], line["termination"]) for line in lines] == [
        (rows[q]["answer"], "answer") for q in sorted(rows)
    ]
    assert len((to / "pace" / "messages.jsonl").read_text().splitlines()) == 2
    atif = sorted((to / "pace").glob("*.atif.json"))
    assert [path.name for path in atif] == ["q0-r1.atif.json", "q1-r1.atif.json"]
    assert json.loads(atif[0].read_text())["schema_version"] == "ATIF-v1.7"
    for files in ([to / "pace" / "iter1.jsonl"], [to / "pace" / "messages.jsonl"], atif):
        assert len(read_files(files).recordings) == 2
    inside = command("bench", "export", str(out), "--to", str(out / "x"), report=False)
    assert (inside.code, "is inside the run" in inside.error) == (2, True)


@pytest.mark.parametrize("kind", [BenchReport, ScoreRow, PairRow, RepeatRow, EffortRow])
def test_every_field_is_documented(kind: type) -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    assert not [field.name for field in fields(kind) if f"`{field.name}" not in page]


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_and_option_is_documented(name: str) -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    assert f"`{name}`" in page
    assert not [option for option in BENCHMARKS[name].options if f"`{option}=" not in page]

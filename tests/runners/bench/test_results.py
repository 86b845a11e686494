"""The results file: one writer, whole lines, nothing replaced, nothing mixed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from memory.records import Usage
from runners.bench.journal import Journal, read_journal
from runners.bench.results import Results, read_results, result_files
from runners.bench.rows import GradeRow, RunPlan, TrialKey, TrialRow, Variant
from runners.bench.scores import Scores, read_grades
from runners.errors import UsageFault

PACE = Variant("pace", "h1", '{"policy": {"name": "pace", "tau": 0.3}}')
REACT = Variant("react", "h2", '{"policy": {"name": "react"}}')
PLAN = RunPlan("multihop", "/data", "d1", {}, (PACE, REACT), ("a", "b", "c"), rollouts=2)
DONE = TrialRow("pace", "a", 1, "completed", answer="x", measures={"f1": 1.0})


def test_what_is_written_is_read(tmp_path: Path) -> None:
    results = Results(tmp_path, PLAN)
    results.append(DONE)
    results.close()
    recorded = read_results(result_files(tmp_path))
    assert recorded.plans == (PLAN,)
    assert recorded.rows == {DONE.key: DONE}
    assert len(recorded.expected()) == 12
    assert recorded.labels() == ["pace", "react"]


def test_a_finished_trial_is_final_and_a_failed_one_is_not(tmp_path: Path) -> None:
    results = Results(tmp_path, PLAN)
    failed = replace(DONE, status="model_unavailable", answer="")
    results.append(failed)
    assert not results.finished(DONE.key)
    results.append(DONE)
    assert results.finished(DONE.key)
    with pytest.raises(ValueError, match="pace/a#1 has its result already"):
        results.append(replace(DONE, answer="y"))
    results.close()
    with (tmp_path / "results.jsonl").open("a") as file:  # a hand that writes where it should not
        file.write((tmp_path / "results.jsonl").read_text().splitlines()[1] + "\n")
    assert read_results(result_files(tmp_path)).rows == {DONE.key: DONE}


def test_of_several_grades_the_last_that_is_one_counts_and_all_are_paid_for(tmp_path: Path) -> None:
    def graded(grade: str, reason: str, answer: str = "h1") -> GradeRow:
        return GradeRow("pace", "a", 1, "j", grade, reason=reason, answer_hash=answer, usage=Usage(cost=0.25))

    scores = Scores(tmp_path)
    for row, grade, reason, cost in (
        (graded("ungraded", "refused"), "ungraded", "refused", 0.25),
        (graded("ungraded", "no verdict"), "ungraded", "no verdict", 0.5),
        (graded("correct", "same"), "correct", "same", 0.75),
        (graded("ungraded", "refused"), "correct", "same", 1.0),
        (graded("incorrect", "other"), "incorrect", "other", 1.25),
        (graded("ungraded", "refused", "h2"), "ungraded", "refused", 1.5),
    ):
        scores.append(row)
        (kept,) = read_grades(tmp_path).values()
        assert (kept.grade, kept.reason, kept.usage.cost) == (grade, reason, cost)
        assert list(scores.grades.values()) == [kept]
    scores.close()


def test_two_writers(tmp_path: Path) -> None:
    first = Results(tmp_path, PLAN)
    with pytest.raises(UsageFault, match="another process is writing it") as caught:
        Results(tmp_path, PLAN)
    assert "--out" in caught.value.hint
    first.close()
    Results(tmp_path, PLAN).close()


def test_shards_have_files_of_their_own_and_cover_the_work_once(tmp_path: Path) -> None:
    shards = [replace(PLAN, shard=(place, 3)) for place in (1, 2, 3)]
    opened = [Results(tmp_path, shard) for shard in shards]
    for results in opened:
        results.close()
    keys = [key for shard in shards for key in shard.trial_keys()]
    assert sorted(map(str, keys)) == sorted(map(str, PLAN.trial_keys()))
    assert len(read_results(result_files(tmp_path)).expected()) == 12
    for shard in shards:  # the policies of one question stay together
        assert len({(key.task, key.rollout) for key in shard.trial_keys()}) * 2 == len(list(shard.trial_keys()))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"dataset": "d2"}, "the dataset has changed: d1 then, d2 now"),
        ({"benchmark": "gaia"}, "holds results of multihop, not of gaia"),
        ({"corpus": "pages"}, "the corpus was None, now pages"),
        ({"options": {"set": "musique"}}, "options of the dataset"),
        (
            {"variants": (replace(PACE, config_hash="h9", config='{"policy": {"name": "pace", "tau": 0.5}}'),)},
            "policy pace was configured otherwise: policy.tau",
        ),
    ],
)
def test_what_cannot_be_joined(tmp_path: Path, change: dict[str, object], said: str) -> None:
    Results(tmp_path, PLAN).close()
    before = (tmp_path / "results.jsonl").read_bytes()
    with pytest.raises(UsageFault, match=said) as caught:
        Results(tmp_path, replace(PLAN, **change))  # type: ignore[arg-type]
    assert "--out" in caught.value.hint
    assert (tmp_path / "results.jsonl").read_bytes() == before
    Results(tmp_path, PLAN).close()  # and the file was let go


def test_more_policies_questions_and_rollouts_may_be_added(tmp_path: Path) -> None:
    Results(tmp_path, PLAN).close()
    mosaic = Variant("mosaic", "h3", "{}")
    Results(tmp_path, replace(PLAN, variants=(mosaic,), tasks=("a", "d"), rollouts=3)).close()
    recorded = read_results(result_files(tmp_path))
    assert recorded.labels() == ["pace", "react", "mosaic"]
    assert TrialKey("mosaic", "d", 3) in recorded.expected()
    assert len(recorded.expected()) == 12 + 6


@pytest.mark.parametrize("cut", range(1, 40, 6))
def test_half_a_line_is_cut_off(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "results.jsonl"
    results = Results(tmp_path, PLAN)
    results.append(DONE)
    results.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    assert read_results([path]).rows == {}
    again = Results(tmp_path, PLAN)
    again.append(DONE)
    again.close()
    assert path.read_bytes() == whole


def test_a_damaged_line_in_the_middle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    Results(tmp_path, PLAN).close()
    path.write_text("{broken\n" + path.read_text())
    with pytest.raises(UsageFault, match=r"results.jsonl:1: not JSON"):
        Results(tmp_path, PLAN)
    path.write_text('{"kind": "result", "policy": "pace"}\n')
    with pytest.raises(UsageFault, match=r"results.jsonl:1: .*required"):
        read_results([path])


def test_a_full_disk_leaves_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    path = tmp_path / "some.jsonl"
    write = os.write
    with Journal(path) as journal:
        journal.append({"a": 1})
        monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:5]))
        with pytest.raises(UsageFault, match="no space left"):
            journal.append({"b": 2})
        monkeypatch.undo()
        journal.append({"c": 3})
    assert [value for _, value in read_journal(path)] == [{"a": 1}, {"c": 3}]

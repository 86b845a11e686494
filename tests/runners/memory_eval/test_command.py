"""``longstride memory-eval`` end to end on small sets of both kinds."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from runners.memory_eval.command import chosen
from runners.replay.dialogues import read_all
from tests.runners.command import Command, Ended
from tests.runners.memory_eval.sets import LONG_MEM, chatter, locomo, long_mem

SMALL = ("-c", "encoder.kind=hashing", "--workers", "1")
GRID = (
    "--selectors",
    "last-k,top-k,mosaic",
    "--budget-share",
    "20,100",
    "--budget-tokens",
    "80",
    "--redundancy",
    "0,2",
)


def run(command: Command, kind: str, data: Path, *arguments: str) -> Ended:
    ended = command("memory-eval", kind, "--data", str(data), *SMALL, *arguments)
    assert (ended.code, ended.err) == (0, "")
    return ended


def row(
    report: Mapping[str, Any], selector: str, budget: str, redundancy: int = 0, stratum: str = "all"
) -> dict[str, Any]:
    (found,) = [
        one
        for one in report["rows"]
        if (one["selector"], one["budget"], one["redundancy"], one["stratum"])
        == (selector, budget, redundancy, stratum)
    ]
    return dict(found)


def test_long_mem_eval(command: Command, tmp_path: Path) -> None:
    ended = run(command, "longmemeval", long_mem(tmp_path), *GRID)
    report = ended.report
    assert (report["questions"], report["computed"]) == (4, 4 * 3 * 3 * 2)
    strata = {one["stratum"] for one in report["rows"]}
    assert strata == {*(str(one["question_type"]) for one in LONG_MEM), "all", "type-averaged", "abstention"}
    whole, newest, best = row(report, "top-k", "100%"), row(report, "last-k", "80"), row(report, "top-k", "80")
    # the unanswerable question has no place to find, the preference no gold to the letter
    assert (whole["recall_all"]["n"], whole["answer_visible"]["n"], whole["qa"]["n"]) == (3, 2, 3)
    assert whole["recall_all"]["value"] == whole["recall_any"]["value"] == whole["answer_visible"]["value"] == 1.0
    assert newest["recall_any"]["value"] == newest["ndcg"]["value"] == 0.0
    assert best["recall_any"]["value"] > 0.5
    assert best["tokens"] <= best["budget_tokens"] == 80
    assert whole["budget_tokens"] == pytest.approx(5 * row(report, "top-k", "20%")["budget_tokens"], rel=0.01)
    # fillers make the dialogue longer, and so its share
    assert row(report, "top-k", "20%", 2)["budget_tokens"] > row(report, "top-k", "20%")["budget_tokens"]
    assert whole["qa_judged"] is None and whole["ungraded"] == whole["unread"] == 0
    pair = next(one for one in report["differences"] if one["selector"] == "top-k" and one["budget"] == "80")
    assert (pair["against"], pair["measure"], pair["n"]) == ("last-k", "recall_any", 3)
    assert "longmemeval, R = 2" in ended.out and "answer visible" in ended.out


def test_types_weigh_the_same_in_their_average(command: Command, tmp_path: Path) -> None:
    report = run(command, "longmemeval", long_mem(tmp_path), "--budget-share", "100", "--selectors", "top-k").report
    by_type = [
        one["qa"]["value"]
        for one in report["rows"]
        if one["qa"] and one["stratum"] not in ("all", "type-averaged", "abstention")
    ]
    average = row(report, "top-k", "100%", stratum="type-averaged")["qa"]["value"]
    assert average == pytest.approx(sum(by_type) / len(by_type))


def test_locomo(command: Command, tmp_path: Path) -> None:
    pytest.importorskip("snowballstemmer")
    report = run(command, "locomo", locomo(tmp_path), "--selectors", "top-k", "--budget-tokens", "60,400").report
    assert report["questions"] == 5
    assert report["notes"] == [
        "conv-1/q3: evidence 'D' names no turn",
        "2 answerable questions have no evidence: they have no recall",
    ]
    assert report["unresolved"] == 1
    whole = row(report, "top-k", "400")
    # recall of the adversarial question too, an answer of every one
    assert (whole["recall_share"]["n"], whole["answer_visible"]["n"], whole["qa"]["n"]) == (3, 2, 5)
    assert whole["recall_share"]["value"] == 1.0
    assert whole["qa"] == whole["qa_f1"]
    assert row(report, "top-k", "400", stratum="category-4")["qa"]["value"] > 0


def test_results_are_computed_once(command: Command, tmp_path: Path) -> None:
    data, rows = long_mem(tmp_path), tmp_path / "rows.jsonl"
    first = run(command, "longmemeval", data, *GRID, "--rows", str(rows)).report
    before = rows.read_bytes()
    again = run(command, "longmemeval", data, *GRID, "--rows", str(rows)).report
    assert again["computed"] == 0
    assert rows.read_bytes() == before
    assert {**again, "computed": 0, "seconds": 0} == {**first, "computed": 0, "seconds": 0}
    wider = run(
        command, "longmemeval", data, *GRID, "--rows", str(rows), "--selectors", "last-k,top-k,mosaic,rag"
    ).report
    assert wider["computed"] == 4 * 3 * 2
    assert rows.read_bytes().startswith(before)
    other = run(command, "longmemeval", data, *GRID, "--rows", str(rows), "-c", "policy.recency=0.4").report
    assert other["computed"] == 4 * 3 * 2


def test_a_killed_run_ends_in_what_an_unkilled_one_finds(command: Command, tmp_path: Path) -> None:
    data = long_mem(tmp_path)
    paths = [tmp_path / name for name in ("whole.jsonl", "cut.jsonl")]
    grid = (*GRID, "--selectors", "last-k,top-k", "--reader", "none")
    whole = run(command, "longmemeval", data, *grid, "--rows", str(paths[0])).report
    text = paths[0].read_bytes()
    for cut in (len(text) // 3, len(text) // 2, len(text) - 5):
        paths[1].write_bytes(text[:cut])
        report = run(command, "longmemeval", data, *grid, "--rows", str(paths[1])).report
        assert 0 < report["computed"] < 4 * 2 * 3 * 2
        assert report["rows"] == whole["rows"]


def test_processes_change_nothing(command: Command, tmp_path: Path) -> None:
    data = long_mem(tmp_path)
    arguments = (*GRID, "--selectors", "top-k", "--reader", "none")
    one, two = (run(command, "longmemeval", data, *arguments, "--workers", count).report for count in ("1", "2"))
    assert one["rows"] == two["rows"]
    assert one["rows"][0]["qa"] is None


@pytest.mark.parametrize(
    ("replies", "value", "ungraded"), [(["yes"], 1.0, 0), (["no"], 0.0, 0), (["well", "hm"], 0.0, 1)]
)
def test_a_judge(command: Command, tmp_path: Path, replies: list[str], value: float, ungraded: int) -> None:
    judge = tmp_path / "judge.yaml"
    judge.write_text(json.dumps({"backbone": {"kind": "scripted", "model": "judge", "replies": replies}}))
    data = long_mem(tmp_path, [LONG_MEM[2]])
    ended = run(command, "longmemeval", data, "--selectors", "top-k", "--budget-tokens", "80", "--judge", str(judge))
    found = row(ended.report, "top-k", "80")
    # a rubric has no score but the judge's, and what is not graded stays in the denominator
    assert (found["qa"], found["qa_judged"]["n"], found["qa_judged"]["value"]) == (None, 1, value)
    assert found["ungraded"] == ungraded
    assert (f"ungraded: {ungraded}" in ended.out) == bool(ungraded)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--data", "nowhere"], "no such file or folder"),
        (["--data", "notes"], "no questions of LongMemEval or LoCoMo"),
        (["--data", "broken.jsonl"], "broken.jsonl:1: question: field required"),
        (["--data", "locomo.json"], "longstride memory-eval locomo reads it"),
        (["--data", "empty.json"], "no questions in it"),
        (["--data", "twice.json"], "the id q1 stands twice"),
        (["--selectors", "top_k"], "top-k"),
        (["--selectors", ","], "--selectors: name at least one"),
        (["--budget-share", "0"], "--budget-share 0: a percentage"),
        (["--budget-share", "1e9"], "a percentage"),
        (["--budget-share", "many"], "--budget-share many: not a list of numbers"),
        (["--budget-tokens", "0"], "--budget-tokens: must be positive"),
        (["--redundancy", "-1"], "--redundancy -1: fillers"),
        (["--redundancy", "99"], "0 to 64"),
        (["--reader", "embeded"], "embedded"),
        (["--reader", "openai"], "OPENAI_API_KEY"),
        (["-c", "policy.nothing=1"], "policy.nothing"),
        (["--rows", "notes/readme.txt"], "no results of memory-eval"),
    ],
)
def test_bad_input_is_one_line_that_says_what_to_do(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    data = long_mem(tmp_path)
    locomo(tmp_path)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "readme.txt").write_text('{"form": "notes"}\n')
    (tmp_path / "broken.jsonl").write_text('{"question_id": "q1", "text": "?"}\n')
    (tmp_path / "empty.json").write_text("[]")
    (tmp_path / "twice.json").write_text(json.dumps([LONG_MEM[0], {**LONG_MEM[1], "question_id": "q1"}]))
    ended = command("memory-eval", "longmemeval", "--data", str(data), *SMALL, *arguments)
    assert ended.code == 2
    assert said in ended.error
    assert not (command.home / "cache" / "readers").exists()


def test_a_gold_that_is_none_and_an_id_with_half_a_character(command: Command, tmp_path: Path) -> None:
    rows = [{**LONG_MEM[0], "question_id": "q\ud800", "answer": None}, {**LONG_MEM[1], "answer": 7}]
    data = long_mem(tmp_path, rows)
    assert [item.answer for one in read_all(data) for item in one.asked] == ["", "7"]
    ended = command("memory-eval", "longmemeval", "--data", str(data), *SMALL)
    assert (ended.code, ended.report["questions"]) == (0, 2)


def test_questions_are_chosen_evenly(tmp_path: Path) -> None:
    given = [*read_all(long_mem(tmp_path)), *read_all(locomo(tmp_path))]
    assert chosen(given, 3) == {("q1", "q1"), ("q4_abs", "q4_abs"), ("conv-1", "q2")}
    assert len(chosen(given, None)) == len(chosen(given, 99)) == 9


def test_fewer_questions_have_the_same_fillers(command: Command, tmp_path: Path) -> None:
    data = locomo(tmp_path)
    grid = ("--selectors", "top-k", "--budget-tokens", "60", "--redundancy", "4", "--reader", "none")
    rows = [tmp_path / f"{name}.jsonl" for name in ("all", "some")]
    run(command, "locomo", data, *grid, "--rows", str(rows[0]))
    some = run(command, "locomo", data, *grid, "--rows", str(rows[1]), "--limit", "2").report
    assert some["questions"] == 2
    whole, part = (
        {line["question"]: line for row in path.read_text().splitlines()[1:] for line in json.loads(row)["lines"]}
        for path in rows
    )
    assert len(part) == 2 and part.items() <= whole.items()


def test_a_folder_by_reference(command: Command, tmp_path: Path) -> None:
    sessions = [{"ref": f"r{at}", "turns": chatter(6, at)} for at in range(2)]
    first = dict(LONG_MEM[0])
    told = first.pop("haystack_sessions")
    assert isinstance(told, list)
    sessions.append({"ref": "told", "turns": told[1]})
    question = {**first, "haystack_refs": ["r0", "told", "r1"]}
    folder = tmp_path / "set"
    folder.mkdir()
    for name, lines in (("s_questions", [question]), ("s_sessions", sessions)):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"{name}.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    report = run(command, "longmemeval", folder, "--selectors", "top-k", "--budget-tokens", "200").report
    assert row(report, "top-k", "200")["recall_all"]["value"] == 1.0

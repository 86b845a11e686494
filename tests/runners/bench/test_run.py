"""Runs over the command line: several policies, going on, limits, bad input, faults of single trials."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memory.records import Reply, Usage
from runners.devserver.model_server import ModelServer, ScriptedTurn, WireRequest
from runners.devserver.wire import Turn
from tests.runners.bench import made
from tests.runners.command import Command, interrupt

QUESTIONS = {f"Who built the lighthouse of {made.town(at)}?": f"{made.town(at)} Andersen" for at in range(4)}


def arguments(data: Path, out: Path, *more: str) -> tuple[str, ...]:
    return ("bench", "run", "multihop", "--data", str(data), "--out", str(out), "-q", *more)


def test_policies_side_by_side_and_nothing_twice(command: Command, tmp_path: Path) -> None:
    data, out = made.multihop(tmp_path / "data"), tmp_path / "out"
    ended = command(*arguments(data, out, "--policy", "react,pace", "--limit", "2"))
    assert (ended.code, ended.report["done"], ended.report["planned"]) == (0, 4, 4)
    assert ended.report["scores"] == {"react": 1.0, "pace": 1.0}
    rows = made.rows_of(out)
    assert {(row["policy"], row["task"]) for row in rows} == {(p, q) for p in ("react", "pace") for q in ("q0", "q1")}
    assert all(row["status"] == "completed" and row["steps"] >= 2 and row["tool_calls"] >= 1 for row in rows)
    assert all(row["measures"] == {"exact_match": 1, "f1": 1, "supporting_recall": 1} for row in rows)
    before = (out / "results.jsonl").read_bytes()
    assert command(*arguments(data, out, "--policy", "react,pace", "--limit", "2")).code == 0
    assert command("bench", "resume", str(out), "-q").report["done"] == 4
    assert (out / "results.jsonl").read_bytes() == before
    # lockstep by default, and said in the plan
    (plan,) = made.rows_of(out, "plan")
    configs = [json.loads(variant["config"]) for variant in plan["variants"]]
    assert [config["summaries"]["publish"] for config in configs] == ["lockstep", "lockstep"]


def test_which_questions(command: Command, tmp_path: Path) -> None:
    data = made.multihop(tmp_path / "data", 12)

    def tasks(name: str, *more: str) -> list[str]:
        out = tmp_path / name
        assert command(*arguments(data, out, "--max-seconds", "0", *more)).code == 1
        return list(made.rows_of(out, "plan")[0]["tasks"])

    assert tasks("first", "--limit", "3") == ["q0", "q1", "q2"]
    drawn = tasks("drawn", "--limit", "3", "--seed", "5")
    assert drawn == tasks("again", "--limit", "3", "--seed", "5")
    assert drawn != ["q0", "q1", "q2"]
    assert tasks("ids", "--ids", "q7,q2,q7") == ["q7", "q2"]
    file = tmp_path / "ids.txt"
    file.write_text("q3\nq4\n")
    assert tasks("file", "--ids", str(file)) == ["q3", "q4"]
    assert len(tasks("set", "-o", "set=made")) == 6


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--ids", "q99"), "there is no task 'q99'"),
        (("--shard", "3/2"), "--shard 3/2: must look like 1/4"),
        (("-o", "level=1"), "multihop has no option 'level'; there are: set"),
        (("-o", "level"), "must look like key=value"),
        (("--policy", "pace,pace"), "a name stands twice"),
        (("--policy", "pase"), "did you mean 'pace'"),
        (("--corpus", "/nowhere"), "no such corpus"),
        (("-o", "set=hotpotqa"), "the data has made, other"),
    ],
)
def test_bad_input(command: Command, tmp_path: Path, more: tuple[str, ...], said: str) -> None:
    ended = command(*arguments(made.multihop(tmp_path / "data"), tmp_path / "out", *more), report=False)
    assert (ended.code, said in ended.error) == (2, True), ended.error


def test_an_unknown_benchmark_wrong_columns_and_no_run(command: Command, tmp_path: Path) -> None:
    data = made.multihop(tmp_path / "data")
    ended = command("bench", "run", "gaja", "--data", str(data), "--out", str(tmp_path / "o"), report=False)
    assert "did you mean 'gaia'" in ended.error
    made.write_lines(data / "questions.jsonl", [{"id": "a", "text": "?"}])
    ended = command(*arguments(data, tmp_path / "o"), report=False)
    assert "wrong columns: question, answer, supporting_pages missing; there are id, text" in ended.error
    assert "no run to go on with" in command("bench", "resume", str(tmp_path / "o"), report=False).error


def test_a_dataset_that_changed_halfway(command: Command, tmp_path: Path) -> None:
    data, out = made.multihop(tmp_path / "data"), tmp_path / "out"
    assert command(*arguments(data, out, "--limit", "1")).code == 0
    made.multihop(data, 5)
    for again in (arguments(data, out, "--limit", "1"), ("bench", "resume", str(out))):
        ended = command(*again, report=False)
        assert ended.code == 2
        assert "dataset has changed" in ended.error


def test_rollouts_and_shards_together_are_the_whole(command: Command, tmp_path: Path) -> None:
    data, out = made.multihop(tmp_path / "data"), tmp_path / "out"
    for shard in ("1/2", "2/2"):
        ended = command(*arguments(data, out, "--limit", "2", "--rollouts", "2", "--shard", shard))
        assert (ended.report["done"], ended.report["planned"]) == (2, 2)
    rows = [row for part in (1, 2) for row in made.rows_of(out, name=f"results-{part}of2.jsonl")]
    assert sorted((row["task"], row["rollout"]) for row in rows) == [("q0", 1), ("q0", 2), ("q1", 1), ("q1", 2)]


class Flaky(made.Answering):
    """Fails the first call for one question."""

    def __call__(self, request: WireRequest) -> ScriptedTurn:
        question = "Who built the lighthouse of Borgund?"  # the name alone may stand in other questions' results
        if question in made.texts_of(request) and question not in self.asked:
            self.asked.append(question)
            return Turn(status=500, error="overloaded")
        return super().__call__(request)


def test_a_trial_without_a_result_is_counted_and_taken_up_again(command: Command, tmp_path: Path) -> None:
    data, out = made.multihop(tmp_path / "data"), tmp_path / "out"
    with ModelServer(Flaky(QUESTIONS)) as server:
        served = arguments(data, out, "--backbone", str(made.backbone(tmp_path, server.url)), "--limit", "3")
        first = command(*served)
        assert (first.code, first.report["done"], first.report["without_result"]) == (1, 2, 1)
        assert [row["task"] for row in made.rows_of(out) if row["status"] == "model_unavailable"] == ["q1"]
        again = command("bench", "resume", str(out), "-q")
        assert (again.code, again.report["done"], again.report["without_result"]) == (0, 3, 0)
    usage = made.rows_of(out)[-1]["usage"]
    assert (usage["input_total"], usage["output"], usage["cache_read"]) == (200, 20, 80)


def test_a_provider_that_stays_away_stops_the_run(command: Command, tmp_path: Path) -> None:
    data, out = made.multihop(tmp_path / "data", 12), tmp_path / "out"
    with ModelServer(lambda _: Turn(status=500, error="down")) as server:
        served = ("--backbone", str(made.backbone(tmp_path, server.url)), "--concurrency", "1")
        ended = command(*arguments(data, out, *served))
    assert ended.report["stopped"] == "5 trials in a row gave no result (model_unavailable)"
    assert len(made.rows_of(out)) == 5


def test_a_key_that_is_not_accepted_stops_the_run(command: Command, tmp_path: Path) -> None:
    data, out = made.multihop(tmp_path / "data", 4), tmp_path / "out"
    with ModelServer(lambda _: Turn(status=401, error="bad key")) as server:
        served = ("--backbone", str(made.backbone(tmp_path, server.url)), "--concurrency", "1")
        ended = command(*arguments(data, out, *served))
    assert (ended.code, ended.report["stopped"]) == (1, "the provider does not accept the key")
    assert [row["status"] for row in made.rows_of(out)] == ["auth"]


def test_ctrl_c_says_how_to_go_on(command: Command, tmp_path: Path) -> None:
    data, out = made.multihop(tmp_path / "data"), tmp_path / "out"
    with ModelServer(lambda _: Turn(Reply("x"), hang_after=0), allow_unused=True) as server:
        served = ("--backbone", str(made.backbone(tmp_path, server.url)))
        process = command.start(*arguments(data, out, *served))
        assert server.reached.wait(60)
        ended = interrupt(process)
    assert ended.code == 130
    assert f"longstride bench resume {out}" in ended.err
    assert made.rows_of(out) == []


def test_the_limit_of_money(command: Command, tmp_path: Path) -> None:
    data, out = made.multihop(tmp_path / "data"), tmp_path / "out"
    command.home.mkdir()
    (command.home / "prices.yaml").write_text("prices:\n  scripted: {input: 1000, output: 1000}\n")

    def reply(request: WireRequest) -> ScriptedTurn:
        return Reply("Alvik Andersen", usage=Usage(input_total=1000, output=1000))

    with ModelServer(reply) as server:
        served = ("--backbone", str(made.backbone(tmp_path, server.url)), "--concurrency", "1", "--max-cost", "3")
        ended = command(*arguments(data, out, *served))
        assert ended.code == 1
        assert "limit of 3 US dollars is reached: 4.0000 spent" in ended.report["stopped"]
        assert (ended.report["done"], ended.report["cost"]) == (2, 4.0)
        assert command(*arguments(data, out, *served)).report["done"] == 2  # its earlier money counts


def test_a_run_that_was_cut_short_goes_on_mid_trajectory(command: Command, tmp_path: Path) -> None:
    """The first process is killed while the model is asked for its second step; the second asks for that step only."""
    data, out = made.multihop(tmp_path / "data"), tmp_path / "out"
    asking: list[bool] = []

    def hang(request: WireRequest) -> ScriptedTurn:
        messages: Any = request.body["messages"]
        acted = any(message["role"] == "tool" for message in messages)
        asking.append(acted)
        turn = answering(request)
        return Turn(turn, hang_after=0) if acted and asking.count(True) == 1 and isinstance(turn, Reply) else turn

    answering = made.Answering(QUESTIONS)
    with ModelServer(hang) as server:
        served = arguments(data, out, "--backbone", str(made.backbone(tmp_path, server.url)), "--limit", "1")
        process = command.start(*served)
        assert server.reached.wait(60)
        process.kill()
        process.communicate()
        assert made.rows_of(out) == []
        assert command("bench", "resume", str(out), "-q").code == 0
    assert asking == [False, True, True]
    (row,) = made.rows_of(out)
    assert (row["status"], row["steps"], row["attempts"], row["measures"]["exact_match"]) == ("completed", 2, 2, 1)


def test_a_result_lost_on_the_way_is_not_worked_for_again(command: Command, tmp_path: Path) -> None:
    """Killed between the end of a session and its line: the session gives its outcome again, without a call."""
    data, out = made.multihop(tmp_path / "data"), tmp_path / "out"
    answering = made.Answering(QUESTIONS)
    with ModelServer(answering) as server:
        served = ("--backbone", str(made.backbone(tmp_path, server.url)), "-c", "limits.max_steps=1", "--limit", "1")
        assert command(*arguments(data, out, *served)).code == 0
        (before,) = made.rows_of(out)
        assert before["status"] == "budget"
        path = out / "results.jsonl"
        path.write_text("".join(line + "\n" for line in path.read_text().splitlines() if '"plan"' in line))
        assert command("bench", "resume", str(out), "-q").code == 0
        (after,) = made.rows_of(out)
    assert len(answering.asked) == 1
    assert {**after, "ended": 0} == {**before, "ended": 0}


def test_a_session_that_was_never_whole_is_begun_anew(command: Command, tmp_path: Path) -> None:
    data, out = made.multihop(tmp_path / "data"), tmp_path / "out"
    folder = out / "sessions" / "pace" / "q0-r1"
    folder.mkdir(parents=True)
    (folder / "session.sqlite").write_bytes(b"")
    assert command(*arguments(data, out, "--limit", "1")).code == 0


def test_a_crash_of_one_trial_does_not_end_the_others(command: Command, tmp_path: Path) -> None:
    data, out = made.multihop(tmp_path / "data"), tmp_path / "out"
    folder = out / "sessions" / "pace" / "q0-r1"
    folder.mkdir(parents=True)
    (folder / "session.sqlite").write_bytes(b"this is no database" * 100)
    (folder / "config.yaml").write_text("")
    ended = command(*arguments(data, out, "--limit", "2", "--log-level", "error"))
    assert (ended.code, ended.report["done"], ended.report["without_result"]) == (1, 1, 1)
    crashed = next(row for row in made.rows_of(out) if row["status"] == "crashed")
    assert "StoreCorrupt" in crashed["message"]
    assert "crashed" in ended.err


def test_progress_is_shown(command: Command, tmp_path: Path) -> None:
    data = made.multihop(tmp_path / "data")
    ended = command("bench", "run", "multihop", "--data", str(data), "--out", str(tmp_path / "o"), "--limit", "1")
    assert "1 of 1 trials have a result" in ended.out

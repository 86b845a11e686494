"""Benchmarks of private sets from the data to the submission, against a model server; nothing of them gets out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory.records import Reply, Usage
from runners.bench.cipher import unseal
from runners.bench.datasets.registry import benchmark, load
from runners.bench.secrecy import TMPFS, private_folder, scan
from runners.devserver.model_server import ModelServer, ScriptedTurn, WireRequest
from runners.devserver.wire import Turn
from tests.runners.bench import made
from tests.runners.command import Command

GAIA = {
    "attached price list of the chandlery": "The list says it [c1].\nFINAL ANSWER: 30",
    "coastal ferry of the northern line": "FINAL ANSWER: Borgund, Alvik",
    "What does nobody know": "FINAL ANSWER: this",
}
BROWSE = {
    question: f"Explanation: found it\nExact Answer: {answer}\nConfidence: 80%"
    for question, answer in (*list(made.SECRETS.items())[:1], (list(made.SECRETS)[1], "green"))
}


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "page.md").write_text("# Almanac\n\nAn almanac of the harbour.\n", "utf-8")
    return folder


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """The private folder of the run in ``out``, gone afterwards."""
    folder = private_folder(tmp_path / "out")
    yield folder
    if folder.exists():
        import shutil

        shutil.rmtree(folder)


def judging(request: WireRequest) -> ScriptedTurn:
    """A judge for BrowseComp: right where the response has the gold in it."""
    said = made.texts_of(request)
    response, _, gold = said.partition("[correct_answer]: ")[0], "", said.partition("[correct_answer]: ")[2]
    right = gold.split("\\n")[0] in response.partition("[response]: ")[2]
    text = f"extracted_final_answer: x\nreasoning: r\ncorrect: {'yes' if right else 'no'}\nconfidence: 80%"
    return Reply(text, usage=Usage(input_total=50, output=5))


def everything_below(*folders: Path) -> list[Path]:
    return [folder for folder in folders if folder.exists()]


def test_gaia(command: Command, tmp_path: Path, corpus: Path) -> None:
    data, out = made.gaia(tmp_path / "data"), tmp_path / "out"
    with ModelServer(made.Answering(GAIA)) as server:
        served = ("--backbone", str(made.backbone(tmp_path, server.url)), "--corpus", str(corpus), "-q")
        ended = command("bench", "run", "gaia", "--data", str(data), "--out", str(out), *served)
        assert (ended.code, ended.report["done"], ended.report["scores"]) == (0, 3, {"pace": 0.5})
    rows = {row["task"]: row for row in made.rows_of(out)}
    assert rows["t-1"]["measures"] == {"quasi_exact": 1}
    assert rows["t-2"]["measures"] == {"quasi_exact": 0}  # the right towns in the wrong order
    assert rows["t-3"]["measures"] == {}  # no gold
    assert all(row["answer"].startswith("sealed:") for row in rows.values())
    assert rows["t-1"]["tool_calls"] == 1
    dataset = load(benchmark("gaia"), data, {})
    assert unseal(rows["t-1"]["answer"], dataset.hash) == GAIA["attached price list of the chandlery"]

    scored = command("bench", "score", str(out))
    assert (scored.code, scored.report["trials"], scored.report["official"]) == (0, 3, 2)
    report = command("bench", "report", str(out)).report
    assert [(s["stratum"], s["n"], s["value"]) for s in report["scores"]] == [
        ("all", 2, 0.5), ("level 1", 1, 1), ("level 2", 1, 0), ("text only", 1, 0), ("with file", 1, 1),
    ]  # fmt: skip
    submission = tmp_path / "submission.jsonl"
    assert command("bench", "submit", str(out), "--policy", "pace", "--to", str(submission), report=False).code == 0
    lines = [json.loads(line) for line in submission.read_text("utf-8").splitlines()]
    assert [(line["task_id"], line["model_answer"]) for line in lines] == [
        ("t-1", "30"), ("t-2", "Borgund, Alvik"), ("t-3", "this"),
    ]  # fmt: skip
    assert "parse_file" in lines[0]["reasoning_trace"]
    assert scan(everything_below(out, command.home, submission), dataset.tasks) == []


def test_browsecomp_judged_graded_again_and_reported(
    command: Command, tmp_path: Path, corpus: Path, memory: Path
) -> None:
    data, out = made.browsecomp(tmp_path / "data" / "browse.csv"), tmp_path / "out"
    dataset = load(benchmark("browsecomp"), data, {})
    with ModelServer(made.Answering(BROWSE)) as server:
        served = ("--backbone", str(made.backbone(tmp_path, server.url)), "--corpus", str(corpus), "--rollouts", "2")
        assert command("bench", "run", "browsecomp", "--data", str(data), "--out", str(out), "-q", *served).code == 0
    assert not (memory / "pace").exists()  # no session is left
    rows = made.rows_of(out)
    assert len(rows) == 4
    assert {unseal(row["answer"], f"made-for-tests-{row['task']}") for row in rows} == set(BROWSE.values())
    assert [row["visited"] for row in rows] == [[], [], [], []]

    dead = command("bench", "score", str(out), "--judge", str(made.backbone(tmp_path, "http://127.0.0.1:9")))
    assert (dead.code, dead.report["grades"], dead.report["failed"]) == (1, {"ungraded": 4}, 4)
    assert dead.error == "longstride: 4 of 4 trials could not be graded; the same command asks again"
    assert any("Unavailable" in reason for reason in dead.report["reasons"])
    before = command("bench", "report", str(out)).report
    assert before["deciding"] == "judge"
    assert before["efforts"][0]["ungraded"] == 4
    assert [s["value"] for s in before["scores"] if (s["measure"], s["stratum"]) == ("judge", "all")] == [0]

    with ModelServer(judging) as server:
        judge = made.backbone(tmp_path, server.url)
        again = command("bench", "score", str(out), "--judge", str(judge))
        assert again.report["grades"] == {"correct": 2, "incorrect": 2}
        assert (again.code, again.report["asked"], again.report["failed"]) == (0, 4, 0)
        assert command("bench", "score", str(out), "--judge", str(judge)).report["asked"] == 0
        assert command("bench", "score", str(out), "--judge", str(judge), "--again", "all").report["asked"] == 4
    gone = command("bench", "score", str(out), "--judge", str(judge), "--again", "all")
    assert (gone.code, gone.report["failed"]) == (1, 4)
    assert gone.report["grades"] == {"correct": 2, "incorrect": 2}  # what was graded stays
    report = command("bench", "report", str(out), "--markdown", str(tmp_path / "r.md")).report
    scores = {(s["measure"], s["stratum"]): s["value"] for s in report["scores"]}
    assert scores["judge", "all"] == scores["exact_match", "all"] == scores["judge", "Art"] == 0.5
    (effort,) = report["efforts"]
    assert effort["calibration_error"] == pytest.approx(0.3)
    assert effort["ungraded"] == 0
    assert [r["passed"] for r in report["repeats"]] == [0.5, 0.5]

    refused = command("bench", "submit", str(out), "--policy", "pace", "--to", str(tmp_path / "s"), report=False)
    assert (refused.code, "no leaderboard" in refused.error) == (2, True)
    exported = tmp_path / "exported"
    for form in ("alibaba", "openai", "atif"):
        assert command("bench", "export", str(out), "--format", form, "--to", str(exported), report=False).code == 0
    first = json.loads((exported / "pace" / "iter1.jsonl").read_text().splitlines()[0])
    assert unseal(first["question"], "made-for-tests-0") == dataset.tasks[0].question
    assert first["messages"][0]["content"].startswith("sealed:")
    written = everything_below(out, command.home, exported, tmp_path / "r.md")
    assert scan(written, dataset.tasks) == []


def test_a_private_run_is_taken_up_from_memory(command: Command, tmp_path: Path, corpus: Path, memory: Path) -> None:
    """Killed mid-question: the session waits in memory, and nothing of it is on the disk."""
    if not TMPFS.is_dir():
        pytest.skip("no memory file system here")
    data, out = made.browsecomp(tmp_path / "data" / "browse.csv"), tmp_path / "out"
    calls: list[bool] = []
    answering = made.Answering(BROWSE)

    def hang(request: WireRequest) -> ScriptedTurn:
        messages: Any = request.body["messages"]
        calls.append(any(message["role"] == "tool" for message in messages))
        turn = answering(request)
        return Turn(turn, hang_after=0) if calls == [False, True] and isinstance(turn, Reply) else turn

    with ModelServer(hang) as server:
        options = (
            "--backbone",
            str(made.backbone(tmp_path, server.url)),
            "--corpus",
            str(corpus),
            "--limit",
            "1",
            "-q",
        )
        process = command.start("bench", "run", "browsecomp", "--data", str(data), "--out", str(out), *options)
        assert server.reached.wait(60)
        process.kill()
        process.communicate()
        dataset = load(benchmark("browsecomp"), data, {})
        assert (memory / "pace" / "0-r1" / "session.sqlite").exists()
        assert memory.stat().st_mode & 0o077 == 0
        assert scan(everything_below(out, command.home), dataset.tasks) == []
        assert command("bench", "resume", str(out), "-q").code == 0
    assert calls == [False, True, True]
    assert not memory.exists()


@pytest.mark.parametrize(
    ("name", "path"), [("browsecomp-zh", "bench/browsecomp-zh"), ("xbench-deepsearch", "bench/xbench")]
)
def test_published_questions_leave_nothing_behind(
    command: Command, tmp_path: Path, data_dir: Path, corpus: Path, memory: Path, name: str, path: str
) -> None:
    """Two real questions run, scored, reported and exported: everything below the test's folder is scanned for all."""
    data, out = data_dir / path, tmp_path / "out"
    options = ("--corpus", str(corpus), "--limit", "2", "-c", "limits.max_steps=3", "-q")
    assert command("bench", "run", name, "--data", str(data), "--out", str(out), *options).report["done"] == 2
    assert command("bench", "score", str(out)).code == 0
    assert command("bench", "report", str(out), "--markdown", "r.md", "--html", "r.html", "--csv", "csv").code == 0
    for form in ("alibaba", "openai", "atif"):
        assert command("bench", "export", str(out), "--format", form, "--to", "to", report=False).code == 0
    assert (tmp_path / "to" / "pace" / "iter1.jsonl").is_file()
    assert scan([tmp_path], load(benchmark(name), data, {}).tasks) == []
    assert not memory.exists()


def test_a_leak_is_an_error(command: Command, tmp_path: Path, corpus: Path, memory: Path) -> None:
    data, out = made.browsecomp(tmp_path / "data" / "browse.csv"), tmp_path / "out"
    out.mkdir()
    (out / "notes.txt").write_text(next(iter(made.SECRETS)))
    with ModelServer(made.Answering(BROWSE)) as server:
        options = ("--backbone", str(made.backbone(tmp_path, server.url)), "--corpus", str(corpus), "-q")
        ended = command("bench", "run", "browsecomp", "--data", str(data), "--out", str(out), *options, report=False)
    assert ended.code == 2
    assert "plaintext of a private benchmark in" in ended.error
    assert "notes.txt" in ended.error


def test_other_data_does_not_open_it(command: Command, tmp_path: Path) -> None:
    data, out = made.gaia(tmp_path / "data"), tmp_path / "out"
    with ModelServer(made.Answering(GAIA)) as server:
        options = ("--backbone", str(made.backbone(tmp_path, server.url)), "-q", "--ids", "t-1")
        assert command("bench", "run", "gaia", "--data", str(data), "--out", str(out), *options).code == 0
    (data / "prices.csv").write_text("item,price\nlamp,31\n")
    ended = command("bench", "report", str(out), report=False)
    assert (ended.code, "the dataset has changed" in ended.error) == (2, True)


def test_an_attachment_that_the_backbone_cannot_take_is_counted(command: Command, tmp_path: Path) -> None:
    data, out = made.gaia(tmp_path / "data"), tmp_path / "out"
    lines = (data / "metadata.jsonl").read_text().replace("prices.csv", "prices.mp3")
    (data / "metadata.jsonl").write_text(lines)
    (data / "prices.mp3").write_bytes(b"ID3")

    class Asking(made.Answering):
        def __call__(self, request: WireRequest) -> ScriptedTurn:
            turn = super().__call__(request)
            if isinstance(turn, Reply) and turn.tool_calls:
                from memory.records import ToolCall

                return Reply(
                    "", tool_calls=(ToolCall("a", "parse_file", {"file": "prices.mp3"}),), stop_reason="tool_calls"
                )
            return turn

    with ModelServer(Asking(GAIA)) as server:
        options = ("--backbone", str(made.backbone(tmp_path, server.url)), "-q", "--ids", "t-1")
        assert command("bench", "run", "gaia", "--data", str(data), "--out", str(out), *options).code == 0
    (row,) = made.rows_of(out)
    assert (row["unsupported"], row["tool_errors"]) == (1, 1)
    report = command("bench", "report", str(out)).report
    assert report["efforts"][0]["unsupported"] == 1
    assert report["efforts"][0]["tool_error_rate"] == 1

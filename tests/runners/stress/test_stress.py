"""Long sessions over the command line: grids, probes, kills, reports, bad input."""

from __future__ import annotations

import csv
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memory.records import Reply, ToolCall
from runners.bench.secrecy import discard, private_folder
from runners.devserver.model_server import ModelServer, ScriptedTurn, WireRequest
from runners.stress.facts import Facts
from runners.stress.recorder import COLUMNS, read_rows
from runners.stress.schedule import schedule
from tests.memory.sessions import page
from tests.runners.bench.made import backbone, browsecomp, town, write_lines
from tests.runners.command import Command


def collection(folder: Path, count: int = 24, distractors: int = 2) -> Path:
    """Questions of our own, each with the page that answers it and pages that do not."""
    folder.mkdir(parents=True)
    questions, pages = [], []
    for at in range(count):
        name, others = town(at), [f"d{at}-{extra}" for extra in range(distractors)]
        sentence = f"The lighthouse of {name} was built by {name} Andersen in {1800 + at}."
        questions.append(
            {
                "id": f"q{at}",
                "question": f"Who built the lighthouse of {name}?",
                "answer": f"{name} Andersen",
                "aliases": [],
                "supporting_pages": [f"p{at}"],
                "context_pages": [f"p{at}", *others],
            }
        )
        title = f"Lighthouse of {name}"
        pages.append({"page_id": f"p{at}", "title": title, "text": f"{page(at, 4)} {sentence}"})
        pages += [{"page_id": other, "title": f"Notes {other}", "text": page(at * 7 + 3, 5)} for other in others]
    write_lines(folder / "questions.jsonl", questions)
    write_lines(folder / "pages.jsonl", pages)
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return collection(tmp_path / "data")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("ascii").splitlines()]


VISITS = ("--workload", "visits", "--no-read", "--probe-every", "20", "--distance", "10,40")


def test_a_grid_of_asked_questions(command: Command, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = (
        *("stress", str(data), "--out", str(out), "-q", "--policy", "react,pace,mosaic", "--lambda", "0,1"),
        *("--budget", "2500", "--steps", "36", "--probe-every", "6", "--distance", "3,12"),
    )
    ended = command(*arguments)
    assert ended.code == 0, ended.err
    cells = {row["label"]: row for row in ended.report["cells"]}
    assert list(cells) == ["react-2500", "pace-l0-2500", "pace-l1-2500", "mosaic-2500"]
    assert all(row["over"] == 0 and row["tokens_max"] <= 2500 for row in cells.values())
    # react ends where its history no longer fits; mosaic goes on, and answers from pages it reads
    assert cells["react-2500"]["status"] == "context_exhausted"
    assert cells["react-2500"]["steps"] < 36 <= cells["mosaic-2500"]["steps"]
    assert (cells["mosaic-2500"]["status"], cells["mosaic-2500"]["overflow"]) == ("capped", "fit")
    assert cells["mosaic-2500"]["right"] >= 2
    probes = lines(out / "mosaic-2500" / "probes.jsonl")
    assert {row["distance"] for row in probes} == {3, 12}
    assert all(row["seen"] in range(row["distance"], row["distance"] + 9) for row in probes)
    assert all(row["right"] == (row["answer"].endswith("Andersen")) for row in probes if row["shown"])
    # every step has its row, and its parts their times
    rows = read_rows(out / "mosaic-2500" / "steps.csv")
    assert rows["step"].tolist() == list(range(1, cells["mosaic-2500"]["steps"] + 1))
    assert all(np.isfinite(rows[name]).all() for name in ("tokens", "assembly_s", "model_s", "tools_s", "store_s"))
    levels = rows["placeholder"] + rows["brief"] + rows["detailed"] + rows["full"]
    assert (levels + rows["fixed"] + rows["recent"] <= rows["budget"] + 200).all()
    assert (levels[10:] > 0).all()
    with np.load(out / "mosaic-2500" / "steps.npz") as columns:
        assert tuple(columns) == COLUMNS
        assert columns["step"].tolist() == rows["step"].tolist()
    # nothing is done twice
    before = (out / "mosaic-2500" / "steps.csv").read_bytes()
    assert command(*arguments).code == 0
    assert (out / "mosaic-2500" / "steps.csv").read_bytes() == before


def test_killed_and_resumed(command: Command, data: Path, tmp_path: Path) -> None:
    """Killed with -9 between two steps of any kind: no step is lost or taken twice, and the probes are the same."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    options = ("-q", *VISITS, "--budget", "2000", "--every", "4", "--also", "last-k")
    assert command("stress", str(data), "--out", str(whole), "--steps", "120", *options).code == 0
    process = command.start("stress", str(data), "--out", str(cut), "--steps", "120", *options)
    rows = cut / "mosaic-2000" / "steps.csv"
    deadline = time.monotonic() + 60
    while not rows.exists() or rows.read_bytes().count(b"\n") < 50:
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    done = rows.read_bytes().count(b"\n") - 1
    assert 49 <= done < 120
    # what a kill may leave: half a line, and steps that were committed before their rows were written
    rows.write_bytes(b"".join(rows.read_bytes().splitlines(keepends=True)[:-3]) + b"48,1,")
    ended = command("stress", str(data), "--out", str(cut), "--steps", "120", *options)
    assert ended.code == 0, ended.err
    assert read_rows(rows)["step"].tolist() == list(range(1, 121))
    kept = [(row["step"], row["distance"], row["question"], row["policy"], row["shown"])
            for folder in (whole, cut) for row in lines(folder / "mosaic-2000" / "probes.jsonl")
            if row["policy"] == "mosaic"]  # fmt: skip
    assert len(kept) >= 10
    assert kept[: len(kept) // 2] == kept[len(kept) // 2 :]
    (cell,) = ended.report["cells"]
    assert (cell["steps"], cell["over"], cell["contexts"]) == (120, 0, 30)
    # goes further when it is told to
    ended = command("stress", str(data), "--out", str(cut), "--steps", "140", *options)
    assert ended.report["cells"][0]["steps"] == 140


def test_what_is_far_is_shown_or_not(command: Command, data: Path, tmp_path: Path) -> None:
    """last-k shows what is near and nothing that is far; mosaic finds both."""
    out = tmp_path / "out"
    options = (*VISITS, "--budget", "2200", "--steps", "160", "--also", "last-k", "--every", "4", "-q")
    ended = command("stress", str(data), "--out", str(out), *options)
    shown = {(row["policy"], row["distance"]): row["shown"] for row in ended.report["recall"]}
    assert shown["last-k", 40]["value"] == 0
    assert shown["mosaic", 40]["value"] >= 0.7
    assert all(row["n"] >= 5 for row in shown.values())
    sentence = {f"q{at}": f"the lighthouse of {town(at)} was built".casefold() for at in range(24)}
    assert all(row["question"] in sentence for row in lines(out / "mosaic-2200" / "probes.jsonl"))


def test_the_report(command: Command, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert command("stress", str(data), "--out", str(out), *VISITS, "--steps", "60", "-q", "--budget", "2000").code == 0
    ended = command("report", "stress", str(out), "--no-figures", "--reply-seconds", "1")
    assert ended.code == 0
    assert "## Longevity" in ended.out
    with (out / "report" / "cells.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["label"], row["steps"], row["over"], row["status"]) == ("mosaic-2000", "60", "0", "capped")
    with (out / "report" / "recall.csv").open(newline="") as file:
        assert {row["distance"] for row in csv.DictReader(file)} == {"10", "40"}
    with (out / "report" / "curves.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 120
    text = (out / "report" / "stress.html").read_text("utf-8")
    assert "<table>" in text
    assert "http" not in text.replace("http://www.w3.org", "")


def test_figures(command: Command, data: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    options = ("--policy", "pace", "--lambda", "0,1", "--steps", "60", "-q", "--budget", "2000")
    assert command("stress", str(data), "--out", str(out), *VISITS, *options).code == 0
    assert command("report", "stress", str(out), "--to", str(tmp_path / "to")).code == 0
    made = {path.name for path in (tmp_path / "to").iterdir()}
    names = ("growth", "longevity", "lambda", "recall", "memory")
    assert {f"{name}.{kind}" for name in names for kind in ("png", "svg")} <= made
    assert (tmp_path / "to" / "stress.html").read_text("utf-8").count("<svg") == len(names)


BROKEN = (
    (("--budget", "many"), "--budget many: must be numbers with commas between them"),
    (("--budget", "0"), "--budget: must be positive, not 0"),
    (("--policy", "mosaik"), "unknown policy 'mosaik'"),
    (("--policy", ""), "needs at least one policy"),
    (("--also", "lastk"), "unknown policy 'lastk'"),
    (("--also", "fold-range"), "--also fold-range: it needs a session of its own"),
    (("-o", "level"), "-o level: must look like key=value"),
    (("--benchmark", "hotpot"), "unknown benchmark 'hotpot'"),
)


@pytest.mark.parametrize(("options", "said"), BROKEN, ids=lambda value: " ".join(value) if value else None)
def test_bad_input_is_one_line(
    command: Command, data: Path, tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    ended = command("stress", str(data), "--out", str(tmp_path / "out"), *VISITS, "--steps", "30", "-q", *options)
    assert ended.code == 2
    assert said in ended.error


def test_a_budget_without_room_for_the_question_ends_the_session(command: Command, data: Path, tmp_path: Path) -> None:
    ended = command("stress", str(data), "--out", str(tmp_path / "out"), *VISITS, "-q", "--budget", "60")
    assert ended.code == 0
    (cell,) = ended.report["cells"]
    assert (cell["status"], cell["steps"]) == ("context_exhausted", 0)


def test_broken_files_say_which(command: Command, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = ("stress", str(data), "--out", str(out), *VISITS, "--steps", "20", "-q", "--budget", "2000")
    assert command(*run).code == 0
    assert "holds another stress run (repeat its options" in command(*run, "--seed", "4").error
    steps = out / "mosaic-2000" / "steps.csv"
    kept = steps.read_text()
    steps.write_text(kept.replace("\n3,", "\nthree,"))
    assert "steps.csv:4: damaged" in command("report", "stress", str(out), "--no-figures").error
    steps.write_text(kept)
    (out / "plan.json").write_text("{")
    assert "plan.json: damaged" in command("report", "stress", str(out), "--no-figures").error
    assert "no stress run is there" in command("report", "stress", str(tmp_path / "none"), "--no-figures").error
    (data / "pages.jsonl").unlink()
    assert "pages.jsonl" in command("stress", str(data), "--out", str(tmp_path / "new"), *VISITS).error


def test_a_private_set_leaves_no_plaintext(command: Command, data: Path, tmp_path: Path) -> None:
    secrets = {f"Who built the lighthouse of {town(at)}?": f"{town(at)} Andersen" for at in range(2)}
    out = tmp_path / "out"
    ended = command(
        *(
            "stress",
            str(browsecomp(tmp_path / "browsecomp.csv", secrets)),
            "--benchmark",
            "browsecomp",
            "--out",
            str(out),
        ),
        *("--corpus", str(data / "pages.jsonl"), "--steps", "8", "--budget", "2500", "-q"),
    )
    assert (ended.code, ended.report["cells"][0]["status"]) == (0, "capped")
    place = private_folder(out)
    try:
        assert (place / "mosaic-2500" / "session" / "session.sqlite").is_file()
        assert {row["answer"] for row in lines(out / "mosaic-2500" / "answers.jsonl")} == {""}
        assert not [path for path in out.rglob("*") if path.is_file() and b"Andersen" in path.read_bytes()]
    finally:
        discard(place)


def test_any_backbone_is_asked_with_no_tool_to_look_it_up(command: Command, data: Path, tmp_path: Path) -> None:
    """A model behind an API reads a page a question and answers; a probe is one call without tools."""
    offered: list[bool] = []

    def turn(request: WireRequest) -> ScriptedTurn:
        offered.append(bool(request.body.get("tools")))
        if not offered[-1] or sum(offered) % 2 == 0:
            return Reply(f"{town(0)} Andersen")
        url = f"http://corpus.local/page/p{sum(offered) // 2 % 24}"
        return Reply("I read.", tool_calls=(ToolCall("a", "visit", {"urls": [url]}),), stop_reason="tool_calls")

    out = tmp_path / "out"
    with ModelServer(turn) as server:
        ended = command(
            *("stress", str(data), "--out", str(out), "--steps", "24", "--probe-every", "2", "--distance", "4", "-q"),
            *("--backbone", str(backbone(tmp_path, server.url))),
        )
    assert ended.code == 0, ended.err
    probes = lines(out / "mosaic-32000" / "probes.jsonl")
    assert len(probes) == offered.count(False) >= 5
    assert [row["right"] for row in probes] == [row["question"] == "q0" for row in probes]
    assert any(row["right"] for row in probes)
    assert all(row["shown"] for row in probes)


def test_a_schedule_visits_each_page_once_a_lap(data: Path) -> None:
    from runners.replay.planted import read_collection

    questions, pages = read_collection(data)
    source = schedule(questions, pages, seed=3)
    visits = [next(source) for _ in range(2 * len(pages))]
    assert [visit.step for visit in visits] == list(range(1, 2 * len(pages) + 1))
    for lap in (visits[: len(pages)], visits[len(pages) :]):
        assert {visit.page for visit in lap} == set(pages)
    assert [visit.page for visit in visits[: len(pages)]] != [visit.page for visit in visits[len(pages) :]]
    again = schedule(questions, pages, seed=3)
    assert [next(again) for _ in range(50)] == visits[:50]


def test_facts_are_of_the_last_visit(data: Path) -> None:
    from runners.replay.planted import read_collection

    facts = Facts(*read_collection(data))
    for step, name in enumerate(("p1", "d1-0", "p2", "p1"), 1):
        facts.visited(name, step)
    assert facts.at(11, 10) is None, "p1 was seen again since"
    found = facts.at(14, 10)
    assert found is not None
    assert (found.source, found.question) == (4, "q1")
    facts.use("q1", 10, 4)
    nearest = facts.at(14, 10)
    assert nearest is not None
    assert (nearest.source, nearest.question) == (3, "q2")
    assert facts.at(40, 10) is None

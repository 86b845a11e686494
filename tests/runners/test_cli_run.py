"""run, resume, show and tool as a person uses them; what they refuse, in one line and with exit code 2."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.events import Bus
from memory.records import Usage
from runners.config import load_config
from runners.environment import Environment
from runners.folders import new_folder
from runners.report import CitationReport, RunReport, ShowReport, StepReport
from runners.request import ConfigRequest
from runners.toolbox import Inputs
from runners.wiring import SessionRequest, open_session
from tests.runners.command import Command

QUESTION = "Where was the director of The Salt Road born?"
SHORT = ("-q", "-c", "limits.max_tokens=200")
"""Ends a run after its first step."""


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)


def fields(kind: type) -> set[str]:
    return {field.name for field in dataclasses.fields(kind)}


def test_a_run_over_a_folder(command: Command, corpus: Path) -> None:
    ended = command("run", QUESTION, "--corpus", str(corpus), "--quiet")
    report = ended.report
    assert ended.code == 0, ended.err
    assert set(report) == fields(RunReport)
    assert set(report["tokens"]) >= {"input_total", "cache_read", "cache_write", "output", "reasoning"}
    assert (report["status"], report["message"], report["cost"]) == ("completed", "", 0.0)
    assert report["answer"].splitlines()[0] == "Bodø"
    assert "Bodø" in ended.out and "http://corpus.local/" in ended.out
    quotes = {citation["url"]: citation["quote"] for citation in report["citations"]}
    assert "She was born in Bodø." in quotes["http://corpus.local/solvang.md"]
    assert all(set(citation) == fields(CitationReport) for citation in report["citations"])
    assert (report["backbone"], report["policy"]) == ("embedded", "pace")
    assert report["tokens"]["input_total"] > 0
    assert report["tokens"]["cache_read"] is None
    folder = command.home / "runs" / report["session"]
    lines = (folder / "trajectory.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == list(range(1, report["steps"] + 1))
    assert {path.name for path in folder.iterdir()} == {"session.sqlite", "config.yaml", "trajectory.jsonl"}


def test_a_run_over_the_interpreters_documentation(command: Command) -> None:
    ended = command("run", "What does os.walk yield for each directory?", "--corpus", "pydoc:", "-q")
    assert ended.code == 0
    assert "3-tuple" in ended.report["answer"]
    assert any("3-tuple" in citation["quote"] for citation in ended.report["citations"])


def test_show_and_a_further_question(command: Command, corpus: Path) -> None:
    first = command("run", QUESTION, "--corpus", str(corpus), "-q", "--out", "mine").report
    second = command("resume", "mine", "--say", "When was the harbour of Varden rebuilt?", "-q")
    assert second.code == 0, second.err
    assert second.report["session"] == first["session"] == "mine"
    assert "1831" in second.report["answer"]
    assert second.report["steps"] > first["steps"]
    shown = command("show", "mine")
    report = shown.report
    assert set(report) == fields(ShowReport)
    assert report["status"] == "completed"
    assert report["questions"] == [QUESTION, "When was the harbour of Varden rebuilt?"]
    assert [step["step"] for step in report["steps"]] == list(range(1, second.report["steps"] + 1))
    assert QUESTION in shown.out and "status: completed" in shown.out
    for step in report["steps"]:
        assert set(step) == fields(StepReport)
        assert 0 < step["fixed_tokens"] + step["recent_tokens"] <= step["tokens"] + 200 <= step["budget"]
        assert 0 <= step["pressure"] <= 1
        assert len(step["thresholds"]) == 3
        assert len(step["planned"]) == len(step["shown"]) == len(step["shown_tokens"]) == 4
        assert sum(step["planned"]) == sum(step["shown"]) == max(0, step["step"] - 3)
        assert len(step["render_hash"]) == 64
    assert {step["kind"] for step in report["steps"]} == {"act", "answer"}


def test_the_last_step_is_for_the_answer(command: Command, corpus: Path) -> None:
    ended = command("run", QUESTION, "--corpus", str(corpus), "-q", "--steps", "2")
    assert (ended.code, ended.report["status"], ended.report["steps"]) == (0, "completed", 2)


def test_resume_without_words_gives_the_answer_again(command: Command, corpus: Path) -> None:
    first = command("run", QUESTION, "--corpus", str(corpus), "-q").report
    again = command("resume", first["session"], "-q")
    assert again.code == 0
    changing = ("seconds",)
    assert {k: v for k, v in again.report.items() if k not in changing} == {
        k: v for k, v in first.items() if k not in changing
    }


def test_resume_by_the_beginning_of_a_name_goes_on_after_a_limit(command: Command, corpus: Path) -> None:
    first = command("run", QUESTION, "--corpus", str(corpus), *SHORT)
    assert (first.code, first.report["status"], first.report["steps"]) == (1, "budget", 1)
    assert "max_tokens" in first.report["message"]
    ended = command("resume", first.report["session"][:18], "-q", "-c", "limits.max_tokens=null")
    assert (ended.code, ended.report["status"]) == (0, "completed")
    assert "Bodø" in ended.report["answer"]


def test_changes_are_recorded_and_stay(command: Command, corpus: Path) -> None:
    first = command("run", QUESTION, "--corpus", str(corpus), "-q").report
    options = ("-c", "policy.tau=0.2", "-c", "memory.budget=9000", "-c", "encoder.kind=hashing")
    changed = command("resume", first["session"], "--say", "When was the harbour of Varden rebuilt?", "-q", *options)
    assert changed.code == 0, changed.err
    assert changed.report["config_hash"] != first["config_hash"]
    again = command("resume", first["session"], "-q").report
    assert again["config_hash"] == changed.report["config_hash"]
    steps = command("show", first["session"]).report["steps"]
    assert {step["budget"] for step in steps[: first["steps"]]} == {128_000}
    assert {step["budget"] for step in steps[first["steps"] :]} == {9_000}


def test_files_of_a_corpus_that_cannot_be_read_are_named(command: Command, corpus: Path) -> None:
    (corpus / "scan.pdf").write_bytes(b"%PDF-1.4 cut")
    ended = command("run", QUESTION, "--corpus", str(corpus), *SHORT)
    said = " ".join(ended.err.split())
    assert "not, or not wholly, in the corpus: scan.pdf: not a readable PDF" in said


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("dialect=native", "dialect cannot change in a session that has begun"),
        ("visit.max_tokens=1", "visit.max_tokens"),
        ("memory.glimpse=false", "memory.glimpse cannot change"),
        ("backbone=openai", "single values"),
        ("profile=paper", "single values"),
        ("policy.tau=-1", "-c policy.tau=-1: policy.tau"),
        ("policy.tua=1", "did you mean 'policy.tau'"),
    ],
)
def test_what_may_not_change(command: Command, corpus: Path, option: str, said: str) -> None:
    first = command("run", QUESTION, "--corpus", str(corpus), *SHORT).report
    ended = command("resume", first["session"], "-q", "-c", option)
    assert ended.code == 2
    assert said in ended.error
    assert command("show", first["session"]).report["status"] == "budget"


def test_the_policy_may_change_by_name(command: Command, corpus: Path) -> None:
    first = command("run", QUESTION, "--corpus", str(corpus), *SHORT).report
    ended = command("resume", first["session"], "-q", "-c", "policy=react", "-c", "limits.max_tokens=null")
    assert (ended.code, ended.report["policy"]) == (0, "react"), ended.err
    assert [step["policy"] for step in command("show", first["session"]).report["steps"]][:2] == ["pace", "react"]


def test_a_tool_by_hand(command: Command, corpus: Path) -> None:
    found = command("tool", "search", '{"queries": ["harbour Varden"]}', "--corpus", str(corpus))
    assert found.code == 0, found.err
    assert found.report["error"] is None
    assert found.report["sources"][0] == {"url": "http://corpus.local/harbour.html", "title": "Varden harbour"}
    assert "Varden harbour" in found.out
    page = command("tool", "visit", '{"urls": ["http://corpus.local/harbour.html"]}', "--corpus", str(corpus))
    assert "rebuilt in 1831" in page.out
    missing = command("tool", "visit", '{"urls": ["http://corpus.local/none"]}', "--corpus", str(corpus))
    assert missing.code == 1
    assert missing.report["error"] == "not_found"
    private = command("tool", "visit", '{"urls": ["http://127.0.0.1:9/"]}', "--corpus", str(corpus))
    assert (private.code, private.report["error"]) == (1, "forbidden")


def test_a_tool_by_hand_needs_nothing_to_search_when_it_does_not_search(command: Command, corpus: Path) -> None:
    text = corpus / "bridges.txt"
    parsed = command("tool", "parse_file", '{"file": "bridges.txt"}', "--file", str(text))
    assert "sold in 1790" in parsed.out, parsed.err
    private = command("tool", "visit", '{"urls": ["http://127.0.0.1:9/"]}')
    assert (private.code, private.report["error"]) == (1, "forbidden")


def test_attached_files_are_read_before_the_corpus(command: Command, corpus: Path, tmp_path: Path) -> None:
    report = tmp_path / "Survey 2021.txt"
    report.write_text("The survey of the Orrin valley was led by Mara Quist.")
    question = "Who led the survey of the Orrin valley?"
    for where in (("--corpus", str(corpus)), ()):
        ended = command("run", question, "--file", str(report), "-q", *where)
        assert ended.code == 0, ended.err
        assert ended.report["answer"].splitlines()[0] == "Mara Quist"
        assert ended.report["citations"][0]["quote"] == report.read_text()
    alone = command("run", "Which metal melts at 1085 degrees?", "--file", str(report), "-q")
    assert (alone.code, alone.report["status"]) == (0, "completed"), alone.err
    assert alone.report["answer"].startswith("I found nothing")


def test_python_by_hand_whatever_the_backbone(command: Command) -> None:
    computed = command("tool", "python", '{"code": "print(6 * 7)"}')
    if computed.code == 2:
        assert "the python tool is not offered here" in computed.error
        pytest.skip("no sandbox on this machine")
    assert "42" in computed.report["text"], computed.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "q?", "--corpus", "CORPUS", "--policy", "pcae"], "unknown policy 'pcae': choose from"),
        (["run", "q?", "--corpus", "no-such-folder"], "no such corpus: no-such-folder"),
        (["run", "q?", "--corpus", "CORPUS", "-c", "dialect=native"], "cannot speak the dialect 'native'"),
        (["run", "q?", "--corpus", "EMPTY"], "nothing readable in the corpus"),
        (["run", "q?", "--corpus", ""], "--corpus is empty"),
        (["run", "", "--corpus", "CORPUS"], "the question is empty"),
        (["run", "  \n ", "--corpus", "CORPUS"], "the question is empty"),
        (["run", "q?", "--corpus", "CORPUS", "-c", "memory.budget=60"], "this request needs at least"),
        (["run", "q?", "--corpus", "CORPUS", "--backbone", "openai"], "OPENAI_API_KEY is not set"),
        (["run", "q?", "--corpus", "CORPUS", "--backbone", "anthropic"], "ANTHROPIC_API_KEY is not set"),
        (["run", "q?", "--corpus", "CORPUS", "--backbone", "opanai"], "unknown backbone 'opanai'"),
        (["run", "q?", "--corpus", "CORPUS", "-c", "memory.bugdet=1"], "unknown key 'memory.bugdet'; did you mean"),
        (["run", "q?", "--corpus", "CORPUS", "-c", "memory.budget"], "must look like key.path=value"),
        (["run", "q?", "--corpus", "CORPUS", "--file", "none.pdf"], "no such file"),
        (["run", "q?", "--corpus", "CORPUS", "--config", "none.yaml"], "none.yaml: cannot be read"),
        (["run", "q?"], "there is nothing to search"),
        (["run", "q?", "--corpus", "CORPUS", "--json", "none/x.json"], "--json none/x.json: cannot be written"),
        (["resume", "nobody", "--say", " "], "--say is empty"),
        (["resume", "nobody"], "no session 'nobody'"),
        (["show", "nobody"], "no session 'nobody'"),
        (["tool", "search", "{", "--corpus", "CORPUS"], "the arguments are not JSON"),
        (["tool", "search", "[1]", "--corpus", "CORPUS"], "not a JSON object"),
        (["tool", "serach", "{}", "--corpus", "CORPUS"], "no tool 'serach' here: search, visit"),
        (["tool", "search", "{}"], "there is nothing to search"),
        (["tool", "parse_file", "{}"], "there is no file to read"),
        (
            ["tool", "search", "{}", "--corpus", "CORPUS", "--json", "none/x.json"],
            "--json none/x.json: cannot be written",
        ),
    ],
)
def test_bad_input_is_one_line(command: Command, corpus: Path, tmp_path: Path, arguments: list[str], said: str) -> None:
    (tmp_path / "empty").mkdir()
    named = {"CORPUS": str(corpus), "EMPTY": str(tmp_path / "empty")}
    ended = command(*[named.get(argument, argument) for argument in arguments], report=False)
    assert ended.code == 2, ended.err
    assert said in ended.error
    assert ended.error.startswith("longstride: ")
    assert ended.out == ""
    runs = command.home / "runs"
    left = [path.name for path in runs.iterdir()] if runs.is_dir() else []
    assert not left or "needs at least" in said, "a run that never began leaves no session"


def test_a_budget_too_small_names_one_that_works(command: Command, corpus: Path) -> None:
    refused = command("run", QUESTION, "--corpus", str(corpus), "-q", "--out", "s", "-c", "memory.budget=60")
    assert (refused.code, refused.report) == (2, None)
    minimum = int(refused.error.partition("needs at least ")[2].split()[0])
    assert command("resume", "s", "-q", "-c", f"memory.budget={minimum - 1}").code == 2
    went_on = command("resume", "s", "-q", "-c", f"memory.budget={minimum + 3000}")
    assert (went_on.code, went_on.report["status"]) == (0, "completed")


def test_a_session_is_never_written_over(command: Command, corpus: Path) -> None:
    command("run", QUESTION, "--corpus", str(corpus), "-q", "--out", "s", "--steps", "1")
    ended = command("run", "another?", "--corpus", str(corpus), "-q", "--out", "s")
    assert ended.code == 2
    assert "already holds a session" in ended.error


def test_json_goes_to_stdout_alone(command: Command, corpus: Path) -> None:
    ended = command("run", QUESTION, "--corpus", str(corpus), "-q", "--json", "-", report=False)
    assert json.loads(ended.out)["status"] == "completed"
    assert fields(Usage) >= set(json.loads(ended.out)["tokens"])


def _opened_and_left(home: Path, corpus: Path, question: str) -> None:
    """What is left of a run that was killed after its session was opened and before the question was put."""

    async def leave() -> None:
        folder = new_folder(home, home / "runs" / "s")
        config = load_config(ConfigRequest())
        inputs = Inputs(str(corpus))
        async with open_session(SessionRequest(folder, Environment(home), Bus(), config, inputs, question)):
            pass

    asyncio.run(leave())


def test_a_run_that_was_killed_before_it_was_asked_goes_on(command: Command, corpus: Path) -> None:
    _opened_and_left(command.home, corpus, QUESTION)
    went_on = command("resume", "s", "-q")
    assert (went_on.code, went_on.report["question"]) == (0, QUESTION), went_on.err
    assert command("resume", "s", "-q").report["steps"] == went_on.report["steps"]


def test_a_session_without_a_question_says_so(command: Command, corpus: Path) -> None:
    _opened_and_left(command.home, corpus, "")
    ended = command("resume", "s", "-q")
    assert (ended.code, ended.error) == (2, "longstride: session s was never asked anything (give --say)")
    assert command("resume", "s", "-q", "--say", QUESTION).report["question"] == QUESTION

"""The command line's border: one line and an exit code for what is our fault, a traceback for what is not."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from agent.errors import AuthFailed, Stop, Unavailable
from memory.errors import BudgetTooSmall, NotStored, StoreBusy
from runners.cli import app
from runners.cli.exits import Fault, fault_code, fault_lines, status_code
from runners.environment import Secret
from runners.errors import ConfigError, UsageFault
from runners.logs import RedactingFormatter, setup_logging
from runners.report import write_json

ROOT = Path(__file__).parent.parent.parent


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = app.main(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--help")
    assert code == 0
    for command in app.COMMANDS:
        assert command.__name__.replace("_", "-") in out
        assert run(capsys, command.__name__.replace("_", "-"), "--help")[0] == 0
    for group, (_, names) in app.GROUPS.items():
        assert group in out
        for name in names:
            assert name in run(capsys, group, "--help")[1]
            assert run(capsys, group, name, "--help")[0] == 0


def test_no_command_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys)[0] == 2
    code, _, err = run(capsys, "polcies")
    assert code == 2
    assert "policies" in err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--version")[1].startswith("longstride 0.")


def test_policies(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = run(capsys, "policies")
    assert code == 0
    assert "react: The baseline" in out
    assert "levels: [full, placeholder]" in out
    target = tmp_path / "policies.json"
    assert run(capsys, "policies", "--json", str(target))[1] == out
    names = [row["name"] for row in json.loads(target.read_text())["policies"]]
    assert {"pace", "react", "pace-no-pressure"} <= set(names)
    assert json.loads(run(capsys, "policies", "--json", "-")[1]) == json.loads(target.read_text())


def test_doctor(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary-4711-secret")
    code, out, err = run(capsys, "doctor", "--json", "-")
    report = json.loads(out)
    assert (code, report["ok"]) == (0, True), report
    assert "canary" not in out + err
    found = {check["name"]: check for check in report["checks"]}
    assert {"python", "sqlite", "home", "disk", "policy", "backbone", "OPENAI_API_KEY"} <= set(found)
    assert found["OPENAI_API_KEY"]["detail"] == "set: ***"
    assert "no LLM" in found["backbone"]["detail"]


def test_doctor_fails_on_a_missing_key(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "doctor", "--backbone", "anthropic", "--json", "-")
    failed = [check for check in json.loads(out)["checks"] if check["state"] == "fail"]
    assert code == 1
    assert [check["name"] for check in failed] == ["backbone"]
    assert "ANTHROPIC_API_KEY" in failed[0]["detail"]


def test_doctor_names_a_home_that_cannot_be(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LONGSTRIDE_HOME", str(tmp_path / "file" / "home"))
    code, out, _ = run(capsys, "doctor")
    assert code == 1
    assert "set LONGSTRIDE_HOME to another folder" in out


def test_bad_configuration_is_one_line_a_problem(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "doctor", "-c", "memory.recnt=1", "-c", "policy.tau=-1")
    assert (code, out) == (2, "")
    assert err.splitlines() == [
        "longstride: -c policy.tau=-1: policy.tau: input should be greater than 0 (got -1)",
        "longstride: -c memory.recnt=1: unknown key 'memory.recnt'; did you mean 'memory.recent'?",
    ]


@pytest.mark.parametrize(
    ("fault", "code", "line"),
    [
        (ConfigError("a: b"), 2, "a: b"),
        (UsageFault("no corpus", hint="give one"), 2, "no corpus (give one)"),
        (BudgetTooSmall(budget=10, minimum=99), 2, "at least 99 (raise the budget to 99 tokens or more)"),
        (NotStored("no session x"), 2, "no session x"),
        (AuthFailed("no key"), 2, "no key"),
        (Unavailable("down\nand out"), 1, "down and out"),
        (StoreBusy("held"), 1, "held"),
        (Stop("budget"), 1, "budget"),
        (Stop("interrupted"), 130, "interrupted"),
    ],
)
def test_faults(fault: Fault, code: int, line: str) -> None:
    assert fault_code(fault) == code
    (shown,) = fault_lines(fault)
    assert shown.endswith(line)


def test_statuses() -> None:
    assert [status_code(status) for status in ("completed", "stuck", "interrupted")] == [0, 1, 130]


def test_a_fault_of_the_program_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(app, "COMMANDS", (*app.COMMANDS, broken))
    with pytest.raises(ZeroDivisionError):
        app.main(["broken"])


def test_an_interrupt_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(app, "COMMANDS", (*app.COMMANDS, stopped))
    assert app.main(["stopped"]) == 130


def test_json_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "x.json"
    write_json({"a": "ü"}, str(target))
    assert json.loads(target.read_text("utf-8")) == {"a": "ü"}
    with pytest.raises(TypeError):
        write_json({"a": object()}, str(target))  # type: ignore[dict-item]
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]
    assert json.loads(target.read_text("utf-8")) == {"a": "ü"}
    with pytest.raises(UsageFault, match="cannot be written: No such file"):
        write_json({}, str(tmp_path / "none" / "x.json"))


def test_logs_show_no_secret() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(RedactingFormatter([Secret("canary-4711"), Secret("ab")], "%(message)s"))
    logger = logging.Logger("x")
    logger.addHandler(handler)
    try:
        raise ValueError("url?key=canary-4711&ab")
    except ValueError:
        logger.exception("sent %s", "canary-4711")
    assert "canary" not in stream.getvalue()
    assert "key=***&ab" in stream.getvalue()


def test_no_handler_and_no_last_traceback_shows_a_secret(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Also a handler that a library adds later, with a format of its own."""
    root, factory = logging.getLogger(), logging.getLogRecordFactory()
    before, level = list(root.handlers), root.level
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    stream = io.StringIO()
    try:
        setup_logging("debug", {"A_KEY": Secret("canary-4711")})
        logger = logging.getLogger("a.library")
        logger.addHandler(handler := logging.StreamHandler(stream))
        handler.setFormatter(logging.Formatter("%(message)s"))
        logger.error("sent %s with %d", "canary-4711", 7)
        logger.error("sent %d", "canary-4711")
        try:
            raise ValueError("url?key=canary-4711")
        except ValueError as error:
            logger.exception("failed")
            sys.excepthook(type(error), error, error.__traceback__)
        logger.removeHandler(handler)
    finally:
        root.handlers[:] = before
        root.setLevel(level)
        logging.setLogRecordFactory(factory)
    said, shown = stream.getvalue(), capsys.readouterr().err
    assert "sent *** with 7" in said and "url?key=***" in said and "Traceback" in said
    assert shown.count("url?key=***") == 4 and "ValueError" in shown
    assert "canary" not in said + shown


def test_logging_setup_replaces_what_was_there(caplog: pytest.LogCaptureFixture) -> None:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    try:
        setup_logging("debug")
        assert logging.getLogger("httpx").level == logging.NOTSET
        setup_logging("info")
        assert len(root.handlers) == 1
        assert root.level == logging.INFO
        assert logging.getLogger("httpx").level == logging.WARNING
    finally:
        root.handlers[:] = before
        root.setLevel(level)


def test_the_console_script_is_this_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "longstride", "-h"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "doctor" in done.stdout

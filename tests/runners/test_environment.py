"""Environment variables: read once, shown never, taken out of the process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runners.environment import ALIASES, KEYS, SETTINGS, Secret, forget_secrets, harmless, read_environment

CANARY = "canary-4711-secret"
HOME = {"LONGSTRIDE_HOME": "/nowhere"}
ROOT = Path(__file__).parent.parent.parent


def test_a_secret_never_shows(tmp_path: Path) -> None:
    environment = read_environment({**HOME, "OPENAI_API_KEY": CANARY, "MY_SERVICE_TOKEN": CANARY}, tmp_path)
    assert environment.secret("OPENAI_API_KEY") == CANARY
    assert environment.secret("MY_SERVICE_TOKEN") == CANARY
    assert CANARY not in repr(environment)
    assert f"{Secret(CANARY)} {Secret(CANARY)!r}" == "*** ***"


def test_dotenv_fills_in_what_is_not_set(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(
        "# comment\n"
        "export OPENAI_API_KEY='from file' # why\n"
        'ANTHROPIC_API_KEY="a#b"\n'
        "BRAVE_API_KEY = plain # comment\n"
        "EXA_API_KEY=x=y\n"
        "TAVILY_API_KEY=file\n"
        "GEMINI_API_KEY=file\n"
        "not a line of ours\n"
    )
    given = {**HOME, "TAVILY_API_KEY": "process", "GEMINI_API_KEY": ""}
    environment = read_environment(given, tmp_path)
    assert environment.secret("OPENAI_API_KEY") == "from file"
    assert environment.secret("ANTHROPIC_API_KEY") == "a#b"
    assert environment.secret("BRAVE_API_KEY") == "plain"
    assert environment.secret("EXA_API_KEY") == "x=y"
    assert environment.secret("TAVILY_API_KEY") == "process"
    assert environment.secret("GEMINI_API_KEY") is None, "set to nothing is a decision, too"
    assert "OPENAI_API_KEY" not in os.environ


def test_a_dotenv_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    (tmp_path / ".env").mkdir()
    assert read_environment(HOME, tmp_path).secrets == {}


def test_aliases_work_both_ways_and_the_proper_name_wins(tmp_path: Path) -> None:
    given = {**HOME, "OPENAI_API_BASE": "http://old/v1", "SERPER_KEY_ID": "id", "JINA_API_KEYS": "one, two"}
    environment = read_environment(given, tmp_path)
    assert environment.setting("OPENAI_BASE_URL") == environment.setting("OPENAI_API_BASE") == "http://old/v1"
    assert environment.secret("SERPER_API_KEY") == "id"
    assert environment.secret("JINA_API_KEY") == "one"
    both = read_environment({**given, "OPENAI_BASE_URL": "http://new/v1"}, tmp_path)
    assert both.setting("OPENAI_BASE_URL") == "http://new/v1"


def test_home(tmp_path: Path) -> None:
    assert read_environment({"LONGSTRIDE_HOME": str(tmp_path)}, tmp_path).home == tmp_path
    pytest.importorskip("platformdirs")
    assert read_environment({}, tmp_path).home.name == "longstride"


def test_secrets_are_forgotten_and_nothing_else() -> None:
    variables = {"OPENAI_API_KEY": CANARY, "SERPER_KEY_ID": CANARY, "JINA_API_KEYS": CANARY, "PATH": "/bin"}
    assert set(forget_secrets(variables)) == {"OPENAI_API_KEY", "SERPER_KEY_ID", "JINA_API_KEYS"}
    assert variables == {"PATH": "/bin"}


def test_the_example_names_every_variable() -> None:
    lines = (ROOT / ".env.example").read_text().splitlines()
    named = {line.partition("=")[0] for line in lines if line and not line.startswith("#")}
    assert named == {*KEYS, *SETTINGS, *ALIASES, "LONGSTRIDE_HOME", "LONGSTRIDE_STORE", "LONGSTRIDE_TOKEN"}


def test_nobody_else_reads_the_environment() -> None:
    """But for what makes a child's environment, or runs in one."""
    children = {
        "tools/python/inside_rights.py",
        "tools/visit/worker.py",
        "tools/visit/browser.py",
        "memory/summaries/child.py",
        "runners/replay/working.py",
        "runners/bench/ray_executor.py",
    }
    readers = {
        path.relative_to(ROOT).as_posix()
        for package in ("agent", "memory", "tools", "runners")
        for path in (ROOT / package).rglob("*.py")
        if "os.environ" in (text := path.read_text()) or "getenv" in text
    }
    assert readers - children == {"runners/environment.py"}


def test_any_variable_can_be_given_on_by_name_and_none_shows(tmp_path: Path) -> None:
    given = {**HOME, "DATABASE": CANARY, "OPENAI_API_KEY": CANARY, "SEARXNG_URL": "http://x", "EMPTY": ""}
    environment = read_environment(given, tmp_path)
    found = [environment.given(name) for name in ("DATABASE", "OPENAI_API_KEY", "SEARXNG_URL", "EMPTY", "NONE")]
    assert found == [CANARY, CANARY, "http://x", None, None]
    assert "DATABASE" not in environment.variables() and CANARY not in repr(environment)


def test_a_program_that_is_started_sees_nothing_that_matters() -> None:
    assert harmless({"PATH": "/bin", "OPENAI_API_KEY": CANARY, "DATABASE": CANARY}) == {"PATH": "/bin"}

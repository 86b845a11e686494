"""Bad input to a policy is refused before anything runs, in one line that names the option, with exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory.errors import BudgetTooSmall, MustKeepTooLarge
from runners.cli.exits import BAD_INPUT, fault_code, fault_lines
from tests.runners.command import Command


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--policy", "pacm"], "unknown policy 'pacm'"),
        (["--policy", "top-k", "-c", "policy.tau=0.3"], "unknown key 'policy.tau'"),
        (["--policy", "rag", "-c", "policy.kk=3"], "did you mean 'policy.k'?"),
        (["--policy", "rag", "-c", "policy.k=-1"], "policy.k: input should be greater than or equal to 0"),
        (["-c", "policy.levels=[full, shortish, placeholder]"], "policy.levels"),
        (["-c", "policy.tau=.nan"], "policy.tau"),
        (["--policy", "mmr", "-c", "policy.mult=.nan"], "policy.mult"),
        (["--policy", "last-k", "-c", "policy.must_keep=[7]"], "policy.must_keep"),
        (["--policy", "last-k", "-c", "policy.rest=brief"], "policy.rest"),
        (["-c", "memory.budget=-5"], "memory.budget: input should be greater than 0 (got -5)"),
        (["-c", "memory.budget=0"], "memory.budget: input should be greater than 0 (got 0)"),
        (["-c", "memory.recent=0"], "memory.recent"),
        (["-c", "memory.layout=diagonal"], "memory.layout"),
    ],
)
def test_refused_in_one_line(command: Command, corpus: Path, arguments: list[str], said: str) -> None:
    ended = command("run", "When was the bridge sold?", "--corpus", str(corpus), *arguments, report=False)
    assert ended.code == BAD_INPUT
    assert said in ended.error and "Traceback" not in ended.err
    assert not list(command.home.glob("runs/*")), "a session was begun"


def test_what_must_be_kept_and_cannot_is_bad_input() -> None:
    fault = MustKeepTooLarge(needed=900, budget=500, count=2)
    assert isinstance(fault, BudgetTooSmall) and fault_code(fault) == BAD_INPUT
    (line,) = fault_lines(fault)
    assert "2 items" in line and "900 tokens or more, or keep less" in line

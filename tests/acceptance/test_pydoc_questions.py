"""Ten questions over the documentation of the running Python, with nothing but the embedded backbone."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.events import Bus
from runners.environment import Environment
from runners.folders import new_folder
from runners.toolbox import Inputs
from runners.wiring import SessionRequest, open_session
from tests.acceptance.multihop import config
from tests.acceptance.pydoc_questions import QUESTIONS, shows


@pytest.mark.timeout(300)
async def test_ten_questions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """At least seven of the ten are answered with the right string, which also stands in a cited passage."""
    right = {}
    for number, (question, wanted) in enumerate(QUESTIONS.items()):
        folder = new_folder(tmp_path, tmp_path / str(number))
        request = SessionRequest(folder, Environment(tmp_path), Bus(), config(), Inputs("pydoc:"))
        async with open_session(request) as opened:
            right[question] = shows(await opened.session.ask(question), wanted)
    with capsys.disabled():
        print(f"\n{sum(right.values())} of {len(right)} right, with the string in the cited passage")  # noqa: T201
        for question, good in right.items():
            print(f"  {'right' if good else 'WRONG'}  {question}")  # noqa: T201
    assert sum(right.values()) >= 7

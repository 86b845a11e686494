"""Ten questions over the documentation of the running Python, with nothing but the embedded backbone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agent.events import Bus
from agent.session import Outcome
from runners.environment import Environment
from runners.folders import new_folder
from runners.toolbox import Inputs
from runners.wiring import SessionRequest, open_session
from tests.acceptance.multihop import config

QUESTIONS = {
    "Which function of the json module serializes an object to a JSON formatted str?": "dumps",
    "What is the default cutoff of difflib.get_close_matches?": "0.6",
    "Which exception does queue.Queue.get_nowait raise when no item is available?": "Empty",
    "Which exception does statistics.mode raise when the data is empty?": "StatisticsError",
    "Which environment variable does shutil.get_terminal_size check for the number of columns?": "COLUMNS",
    "Which argument of functools.lru_cache disables the LRU features when it is set to None?": "maxsize",
    "What does os.walk yield for each directory?": "3-tuple",
    "How many bits has the sequence number that uuid.uuid1 chooses when clock_seq is not given?": "14",
    "Which characters does html.escape translate as well when quote is true?": "quotation mark",
    "Who can read the directory that tempfile.mkdtemp creates?": "creating user",
}
"""Facts that docstrings state, chosen before the first run. The first is what ``make demo`` asks."""


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


def shows(outcome: Outcome, wanted: str) -> bool:
    """Whether the answer's text and a passage that it cites both hold the string as a word."""
    word = re.compile(rf"(?<!\w){re.escape(wanted)}s?(?!\w)")
    quotes = [citation.quote for citation in outcome.citations if citation.found]
    return bool(word.search(outcome.answer)) and any(word.search(quote) for quote in quotes)

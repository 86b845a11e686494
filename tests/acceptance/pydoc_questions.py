"""Ten questions over the documentation of the running Python, and how an answer to one is judged."""

from __future__ import annotations

import re

from agent.session import Outcome

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


def told(answer: str, wanted: str) -> bool:
    """Whether the answer holds the string as a word."""
    return bool(_word(wanted).search(answer))


def shows(outcome: Outcome, wanted: str) -> bool:
    """Whether the answer's text and a passage that it cites both hold the string as a word."""
    quotes = [citation.quote for citation in outcome.citations if citation.found]
    return told(outcome.answer, wanted) and any(_word(wanted).search(quote) for quote in quotes)


def _word(wanted: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(wanted)}s?(?!\w)")

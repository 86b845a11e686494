"""GAIA's quasi-exact match (Mialon et al., 2023; the leaderboard's scorer): numbers, lists, else normalised text."""

from __future__ import annotations

import math
import re
import string

_SPACE = re.compile(r"\s")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_UNITS = str.maketrans("", "", "$%,")


def quasi_exact(answer: str, gold: str) -> bool:
    """Whether an answer is the gold one by the leaderboard's rule.

    A gold number is compared as a number, ``$ % ,`` of the answer dropped; a gold with ``,`` or ``;`` is a list whose
    elements are compared in order, punctuation kept; anything else without spaces, case and punctuation. No answer is
    never right, not even where punctuation is all there is of the gold.
    """
    if not answer.strip():
        return False
    number = _number(gold)
    if number is not None:
        return _same_number(answer, number)
    if "," in gold or ";" in gold:
        golds, answers = re.split("[,;]", gold), re.split("[,;]", answer)
        return len(golds) == len(answers) and all(map(_same_element, answers, golds))
    return _plain(answer).translate(_NO_PUNCTUATION) == _plain(gold).translate(_NO_PUNCTUATION)


def _same_element(answer: str, gold: str) -> bool:
    number = _number(gold)
    return _same_number(answer, number) if number is not None else _plain(answer) == _plain(gold)


def _same_number(answer: str, gold: float) -> bool:
    # upstream reads what is no number as infinity, which a gold of "inf" would then equal: here it never matches
    given = _number(answer.translate(_UNITS))
    return given is not None and given == gold


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _plain(text: str) -> str:
    return _SPACE.sub("", text).lower()

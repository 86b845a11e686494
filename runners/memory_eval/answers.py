"""Scoring an answer without a model: LoCoMo by its official rules, LongMemEval by whether the gold stands in it."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Protocol

from runners.replay.dialogues import Asking
from runners.scoring.text import f1, normal, token_f1

UNANSWERABLE = "No information available"
"""What a reader is told to say, and LoCoMo's scorer looks for."""
PREFERENCE = "single-session-preference"
"""LongMemEval questions whose gold is a rubric: only a judge can grade them."""
MULTI_HOP, OPEN = "category-1", "category-3"
_NOT = r"(?: not|n't|n’t|not)"
_ABSTAINS = re.compile(
    r"no information available|not (?:\w+ )?mentioned|not enough information|no (?:mention|record)\b"
    rf"|(?:do|does|did){_NOT} (?:mention|say|state|specify|tell|know)"
    rf"|(?:have|has|had){_NOT} (?:mentioned|said|stated|specified|told)"
    rf"|(?:is|are|was|were){_NOT} (?:enough|mentioned|specified|stated|given|provided)"
    rf"|(?:can|could){_NOT} (?:be )?(?:answer|determine|find)",
    re.IGNORECASE,
)
_ARTICLES = re.compile(r"\b(a|an|the|and)\b")
_PUNCTUATION = frozenset(string.punctuation)
_ASIDE = re.compile(r"\s*\(([^()]*)\)\.?")


def abstains(answer: str) -> bool:
    """Whether an answer says that the question cannot be answered. A list of phrases: a judge knows more of them."""
    return bool(_ABSTAINS.search(answer))


def matches(answer: str, asked: Asking) -> float | None:
    """LongMemEval without a judge: 1 where the gold stands in the answer as whole words, after SQuAD's normalisation;
    for an unanswerable question, where the answer abstains. None for a rubric."""
    if not asked.answerable:
        return float(abstains(answer))
    if asked.kind == PREFERENCE:
        return None
    said = f" {normal(answer)} "
    return float(any(f" {wanted} " in said for gold in golds(asked.answer) if (wanted := normal(gold))))


def overlap(answer: str, asked: Asking) -> float | None:
    """LongMemEval: token F1 with the best form of the gold; for an unanswerable question as `matches`."""
    if not asked.answerable or asked.kind == PREFERENCE:
        return matches(answer, asked)
    return f1(answer, list(golds(asked.answer)))


def golds(answer: str) -> Iterator[str]:
    """A gold as it stands, without what is in parentheses, and what these call another form: ``25:50`` of
    ``25 minutes and 50 seconds (or 25:50)``."""
    yield answer
    asides = _ASIDE.findall(answer)
    if asides:
        yield _ASIDE.sub("", answer)
    yield from (aside[3:] for aside in asides if aside.startswith("or "))


def locomo_score(answer: str, asked: Asking) -> float:
    """LoCoMo's official score of a category: token F1 of Porter stems; multi-hop by comma parts, open-domain against
    what stands before a semicolon, adversarial 1 for one of two phrases.

    Upstream reads the ``answer`` of adversarial items, which nearly none has, and stops there; it is not needed.
    """
    if not asked.answerable:
        said = answer.lower()
        return float("no information available" in said or "not mentioned" in said)
    if asked.kind == MULTI_HOP:
        answers = answer.split(",")
        parts = asked.answer.split(",")
        return sum(max(stemmed_f1(given, part) for given in answers) for part in parts) / len(parts)
    gold = asked.answer.split(";")[0] if asked.kind == OPEN else asked.answer
    return stemmed_f1(answer, gold)


def stemmed_f1(answer: str, gold: str) -> float:
    """Token F1 of Porter stems after LoCoMo's normalisation; nothing in common is 0, also of two empty texts."""
    given, wanted = stems(answer), stems(gold)
    return token_f1(given, wanted) if given and wanted else 0.0


def stems(text: str) -> Sequence[str]:
    """Lower case, no ASCII punctuation, no articles (nor "and"), each word's Porter stem."""
    kept = "".join(char for char in text.lower() if char not in _PUNCTUATION)
    return [_stem(word) for word in _ARTICLES.sub(" ", kept).split()]


@lru_cache(maxsize=65536)
def _stem(word: str) -> str:
    # Porter's own program, and upstream's, leave the shortest words alone: "is" is not "I"
    return _stemmer().stemWord(word) if len(word) > 2 else word


@lru_cache(maxsize=1)
def _stemmer() -> _Stemmer:
    from snowballstemmer import stemmer

    made: _Stemmer = stemmer("porter")
    return made


class _Stemmer(Protocol):
    def stemWord(self, word: str) -> str: ...

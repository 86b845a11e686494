"""Exact match and token F1 as SQuAD has them (Rajpurkar et al., 2016, official evaluation script)."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b")


def normal(text: str) -> str:
    """SQuAD's normalisation: lower case, no ASCII punctuation, no English articles, single spaces."""
    kept = "".join(char for char in text.lower() if char not in string.punctuation)
    return " ".join(_ARTICLES.sub(" ", kept).split())


def exact(answer: str, golds: Sequence[str]) -> float:
    """1 where the answer is one of the golds after `normal`, else 0; 0 for no answer, also where a gold is but "A"."""
    return float(bool(answer.strip()) and any(normal(answer) == normal(gold) for gold in golds))


def f1(answer: str, golds: Sequence[str]) -> float:
    """Best token F1 over the golds; 0 without a gold or an answer."""
    if not answer.strip():
        return 0.0
    return max((token_f1(normal(answer).split(), normal(gold).split()) for gold in golds), default=0.0)


def token_f1(answer: Sequence[str], gold: Sequence[str]) -> float:
    """F1 of two bags of tokens. Where one is empty, 1 when both are."""
    if not answer or not gold:
        return float(not answer and not gold)
    shared = sum((Counter(answer) & Counter(gold)).values())
    return 2 * shared / (len(answer) + len(gold))


def short(answer: str) -> str:
    """The phrase on the first line of an answer."""
    return answer.partition("\n")[0]

"""Content words of a question or a sentence, lightly stemmed."""

from __future__ import annotations

from functools import lru_cache

from memory.text.words import tokenize

_STOP_WORDS = (
    "a an the this that these those is are was were be been being am do does did done has have had having will would "
    "can could shall should may might must i you he she it we they me him her us them my your his its our their who "
    "whom whose what which when where why how of in on at to for from by with about into onto over under as and or but "
    "if than then so not no nor also both either there here s t same one ones only own such very just more most some "
    "any all each other another during before after between among along besides while because until up out off name "
    "named called known"
)
_STOP = frozenset(_STOP_WORDS.split())

_ENDINGS = (
    ("ies", "y"),
    ("able", ""),
    ("ible", ""),
    ("sses", "ss"),
    ("ing", ""),
    ("edly", ""),
    ("ed", ""),
    ("ers", ""),
    ("er", ""),
    ("es", ""),
    ("s", ""),
    ("ly", ""),
    ("e", ""),
)


def content_words(text: str) -> list[str]:
    """Distinct terms that carry content, unstemmed, in order."""
    return [term for term in dict.fromkeys(tokenize(text)) if term not in _STOP]


@lru_cache(maxsize=65536)
def stem(term: str) -> str:
    """A light stem: plural and verb endings off, nothing clever."""
    if len(term) < 4 or not term.isascii() or not term.isalpha():
        return term
    for ending, put in _ENDINGS:
        if term.endswith(ending) and len(term) - len(ending) >= 3:
            return term[: len(term) - len(ending)] + put
    return term


def stems(text: str) -> list[str]:
    """Stems of the content words of a text, repeated as they occur."""
    return [stem(term) for term in tokenize(text) if term not in _STOP]

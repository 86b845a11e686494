"""Scores of page extraction, as the two public benchmarks define them. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_LINK = re.compile(r"!?\[([^\[\]]*)\]\((?:[^()\s]|\([^()\s]*\))*\)")
_MARKS = re.compile(r"^[ \t]*(?:#{1,6}|[-*+]|>)[ \t]+", re.MULTILINE)
_INLINE = re.compile(r"\*\*|__|`|~~|\||(?<!\w)\*|\*(?!\w)")
_WORD = re.compile(r"\w+")


def plain(text: str) -> str:
    """Text without Markdown markup, white space folded."""
    return " ".join(_INLINE.sub("", _MARKS.sub("", _LINK.sub(r"\1", text))).split())


@dataclass(frozen=True, slots=True)
class Score:
    precision: float
    recall: float

    @property
    def f1(self) -> float:
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


def shingle_score(pairs: Iterable[tuple[str, str]]) -> Score:
    """4-gram score of (gold, found) texts: precision and recall by page, averaged (article-extraction-benchmark)."""
    precisions: list[float] = []
    recalls: list[float] = []
    for gold, found in pairs:
        wanted, given = _shingles(gold), _shingles(plain(found))
        hits = sum((wanted & given).values())
        extra, missing = sum(given.values()) - hits, sum(wanted.values()) - hits
        whole = extra == missing == 0
        precisions.append(1.0 if whole else hits / (hits + extra) if hits else 0.0)
        recalls.append(1.0 if whole else hits / (hits + missing) if hits else 0.0)
    return Score(sum(precisions) / len(precisions), sum(recalls) / len(recalls))


@dataclass(frozen=True, slots=True)
class Snippets:
    """What must and what must not appear in a page's text."""

    wanted: Sequence[str]
    unwanted: Sequence[str]


def snippet_score(pages: Iterable[tuple[Snippets, str]]) -> Score:
    """Over all snippets of all pages (trafilatura's evaluation)."""
    hits = missing = wrong = 0
    for snippets, found in pages:
        text = plain(found)
        present = sum(_occurs(snippet, text) for snippet in snippets.wanted)
        hits += present
        missing += len(snippets.wanted) - present
        wrong += sum(" ".join(snippet.split()) in text for snippet in snippets.unwanted)
    return Score(hits / (hits + wrong) if hits else 0.0, hits / (hits + missing) if hits else 0.0)


def _occurs(snippet: str, text: str) -> bool:
    return " ".join(snippet.split()) in text or plain(snippet) in text


def _shingles(text: str) -> Counter[tuple[str, ...]]:
    words = _WORD.findall(text)
    return Counter(tuple(words[start : start + 4]) for start in range(max(0, len(words) - 3)))

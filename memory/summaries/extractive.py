"""Extractive summaries: the sentences and fields that serve the question, and those that hold strings to the letter.

Relevance is BM25 against the question and the step's own action, fused by reciprocal rank with the encoder's similarity
where one is given (Cormack, Clarke, Buettcher 2009). One round of pseudo-relevance feedback by names reaches the second
hop of a question, and neighbours of a good sentence gain a little. Sentences dense in salient strings are lifted.
Pure and deterministic.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from memory.summaries.fields import has_key_field, parse
from memory.summaries.prompts import Profile
from memory.summaries.units import Unit, units
from memory.text.bm25 import Bm25
from memory.text.fusion import reciprocal_rank
from memory.text.salience import Kind, salient
from memory.text.words import tokenize

Count: TypeAlias = Callable[[str], int]
Similarity: TypeAlias = Callable[[str, Sequence[str]], NDArray[np.floating]]
"""(query, n texts) -> (n,) similarity."""
FloatArray: TypeAlias = NDArray[np.float64]

VERSION = 1
_FEEDBACK_UNITS = 3
_FEEDBACK = 0.5
_FROM_PREVIOUS, _FROM_NEXT = 0.3, 0.15
_SALIENCE_WEIGHT = 0.4
_KINDS: dict[Profile, dict[Kind, float]] = {
    "research": {"url": 1, "date": 1, "identifier": 1.5, "number": 0.7, "quote": 0.7, "name": 1, "code": 0.5},
    "coding": {"url": 0.7, "date": 0.3, "identifier": 1.5, "number": 0.7, "quote": 0.7, "name": 0.3, "code": 2},
}
_STOP_WORDS = (
    "a an the of in on at to for from by with and or is are was were be been has have had do does did it its that "
    "which who whom what when where how why as this these those his her their he she they him them not also but i "
    "you we"
)
_STOP = frozenset(_STOP_WORDS.split())
"""Left out of queries: among the few sentences of one text their idf is not low enough."""
_SPACE = re.compile(r"\s+")


def summarise(
    text: str,
    question: str,
    profile: Profile = "research",
    *,
    detailed_tokens: int = 220,
    brief_tokens: int = 48,
    count: Count,
    similarity: Similarity | None = None,
) -> tuple[str, str]:
    """(DETAILED, BRIEF) of a chunk's FULL text, at most that many tokens each by ``count``.

    A text that is short enough is its own summary. Empty for an empty text.
    """
    body = text.strip()
    if count(body) <= brief_tokens:
        return body, body
    found = _distinct(units(body))
    if not found:
        return "", ""
    scores = score(found, question, profile, similarity)
    detailed = body if count(body) <= detailed_tokens else _compose(found, scores, detailed_tokens, count, brief=False)
    brief = _compose(found, scores, brief_tokens, count, brief=True)
    return detailed, brief if count(brief) <= count(detailed) else detailed


def _distinct(found: Sequence[Unit]) -> list[Unit]:
    """The first of each run of words: what a page repeats (menus, captions) says nothing twice."""
    first: dict[str, Unit] = {}
    for unit in found:
        first.setdefault(_plain(unit.text).lower(), unit)
    return list(first.values())


def _plain(text: str) -> str:
    return _SPACE.sub(" ", text)


def score(found: Sequence[Unit], question: str, profile: Profile, similarity: Similarity | None = None) -> FloatArray:
    """(len(found),) fused score of each unit; action lines count as part of the query."""
    query = " ".join([question, *(unit.text for unit in found if unit.role == "action")])
    terms = " ".join(term for term in tokenize(query) if term not in _STOP)
    index = Bm25(f"{unit.heading} {unit.text}" for unit in found)
    relevance = _smooth(_with_feedback(index, found, terms), found)
    if similarity is not None:
        similar = np.asarray(similarity(question, [unit.text for unit in found]), dtype=np.float64)
        relevance = reciprocal_rank(relevance, similar)
        relevance -= relevance.min()
    # ranks would let the many small differences of salience outweigh the one sentence that answers
    return _to_one(relevance) + _SALIENCE_WEIGHT * _to_one(_salience(found, terms, profile))


def cut(text: str, limit: int, count: Count) -> str:
    """The longest head of ``text`` within ``limit`` tokens, ended by an ellipsis, at a word where there are words."""
    if count(text) <= limit:
        return text
    low, high = 0, min(len(text), 16 * max(limit, 1))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(text[:middle] + "…") <= limit else (low, middle - 1)
    head = text[:low]
    word = max(head.rfind(" "), head.rfind("\n"))
    if low < len(text) and not text[low].isspace() and word > len(head) // 2:
        head = head[:word]
    head = head.rstrip()
    return head + "…" if head else ""


def head_and_tail(text: str, limit: int) -> str:
    """A text of at most ``limit`` characters and a mark: two thirds from the head, one from the tail."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    return f"{text[:head]}\n[…]\n{text[len(text) - (limit - head) :]}"


def _with_feedback(index: Bm25, found: Sequence[Unit], terms: str) -> FloatArray:
    first = index.scores(terms)
    if not first.any():
        return first
    known = set(terms.split()) | _STOP
    names: dict[str, None] = {}
    for best in np.argsort(-first, kind="stable")[:_FEEDBACK_UNITS]:
        for item in salient(found[int(best)].text):
            if item.kind in ("name", "quote", "identifier"):
                names |= dict.fromkeys(term for term in tokenize(item.text) if term not in known)
    second = index.scores(" ".join(names))
    peak = float(second.max())
    return first + _FEEDBACK * second * (float(first.max()) / peak) if peak > 0 else first


def _smooth(scores: FloatArray, found: Sequence[Unit]) -> FloatArray:
    """Sentences gain from their neighbours; fields, being whole by themselves, do not."""
    giving = np.where([unit.is_field for unit in found], 0.0, scores)
    gain = np.zeros_like(scores)
    gain[1:] += _FROM_PREVIOUS * giving[:-1]
    gain[:-1] += _FROM_NEXT * giving[1:]
    return scores + gain


def _to_one(scores: FloatArray) -> FloatArray:
    peak = float(scores.max())
    return scores / peak if peak > 0 else scores


def _salience(found: Sequence[Unit], terms: str, profile: Profile) -> FloatArray:
    """Weight of the strings in a unit that are neither in the query nor common in the text, per root of its length."""
    weights = _KINDS[profile]
    known = set(terms.split())
    strings = [[(item.kind, item.text.lower()) for item in salient(unit.text)] for unit in found]
    seen: dict[str, int] = {}
    for items in strings:
        for _, string in set(items):
            seen[string] = seen.get(string, 0) + 1
    values = np.zeros(len(found), dtype=np.float64)
    for row, (unit, items) in enumerate(zip(found, strings, strict=True)):
        value = sum(weights[kind] / seen[string] for kind, string in dict.fromkeys(items) if string not in known)
        if unit.is_field and has_key_field(unit.text):
            value += 1.0
        values[row] = value / (20 + len(unit.text)) ** 0.5
    return values


def _compose(found: Sequence[Unit], scores: FloatArray, limit: int, count: Count, *, brief: bool) -> str:
    """Action lines first (a third of the room at most), then units by score while they fit, in original order."""
    chosen: dict[int, str] = {}
    room = limit
    actions = [row for row, unit in enumerate(found) if unit.role == "action"]
    for row in actions[: 1 if brief else None]:
        line = _action(found[row].text, brief)
        share = limit // 3 // min(len(actions), 1 if brief else 4)
        line = cut(line, min(share, room - 1), count)
        if line:
            chosen[row] = line
            room -= count(line + "\n")
    smallest = max(4, limit // 12)
    for best in np.argsort(-scores, kind="stable"):
        row = int(best)
        if found[row].role == "action":
            continue
        plain = _plain(found[row].text)
        cost = count(plain + "\n")
        if cost > room and len(chosen) <= len(actions):
            plain = cut(plain, room - 1, count)
            cost = count(plain + "\n")
        if plain and cost <= room:
            chosen[row] = plain
            room -= cost
        if room < smallest:
            break
    return _join(found, chosen)


def _join(found: Sequence[Unit], chosen: dict[int, str]) -> str:
    parts: list[str] = []
    previous: Unit | None = None
    for row in sorted(chosen):
        unit = found[row]
        if previous is not None:
            parts.append(" " if unit.line == previous.line and not unit.is_field else "\n")
        parts.append(chosen[row])
        previous = unit
    return "".join(parts)


def _action(text: str, brief: bool) -> str:
    """``name {arguments}``; in a BRIEF the name and its first text argument."""
    if not brief:
        return text
    name, _, arguments = text.partition(" ")
    value = parse(arguments)
    if isinstance(value, dict):
        for item in value.values():
            first = item[0] if isinstance(item, list) and item else item
            if isinstance(first, str) and first.strip():
                return f"{name} {first}"
    return text

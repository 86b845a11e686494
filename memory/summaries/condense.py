"""Many texts into one short one, by extraction: the sentences of a range of steps that serve the question.

Every line starts with the id of the step it is from (``c12: …``), so that a reader can go back to it, and so that the
next summary can take the lines of this one apart again: merging is a fresh contest of old sentences and new ones.
Pure and deterministic.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from memory.summaries.extractive import Count, FloatArray, cut, score
from memory.summaries.prompts import Profile
from memory.summaries.units import Unit, units

VERSION = 1
_HEADER = re.compile(r"^### (c\d+(?:-c\d+)?)[ :]?")
_LINE = re.compile(r"^(c\d+(?:-c\d+)?): ")
_LEVELS = frozenset({"full", "detailed", "brief", ""})
_SPACE = re.compile(r"\s+")
_AGAIN = 0.9
"""What a further sentence of the same step is worth beside the one before: a range is more than its richest page."""
_ANSWER = 1.0
"""Lift of what answered an earlier question, in scores that lie in [0, 1.4]."""
NOTHING = "(nothing in these steps)"


def condense(
    texts: Sequence[str], question: str, tokens: int, count: Count, *, previous: str = "", profile: Profile = "research"
) -> str:
    """At most ``tokens`` of what ``texts`` and the summary before them say. Never empty.

    ``texts``: rendered blocks (``### c12 full`` and a body), or plain texts.
    """
    found = _distinct([*_from_summary(previous), *_from_blocks(texts)])
    if not found:
        return cut(NOTHING, tokens, count)
    chosen = _chosen(found, _values(found, question, profile), tokens, count)
    return _joined(found, chosen) or cut(f"{_label(found[0][0])}{found[0][1].text}", tokens, count)


def labelled(text: str) -> tuple[str, str]:
    """A rendered block as (chunk id or range, body); a text without header has no id."""
    header = _HEADER.match(text)
    if header is None:
        return "", text
    first, _, rest = text[header.end() :].partition("\n")
    return header.group(1), rest if first.strip() in _LEVELS else f"{first}\n{rest}"


def _from_blocks(texts: Iterable[str]) -> list[tuple[str, Unit]]:
    return [(label, unit) for label, body in map(labelled, texts) for unit in units(body)]


def _from_summary(text: str) -> list[tuple[str, Unit]]:
    found: list[tuple[str, Unit]] = []
    for line in text.splitlines():
        mark = _LINE.match(line)
        body = line[mark.end() :] if mark else line
        found.extend((mark.group(1) if mark else "", unit) for unit in units(body) if body != NOTHING)
    return found


def _distinct(found: Iterable[tuple[str, Unit]]) -> list[tuple[str, Unit]]:
    """The first of each run of words: what every page of a site repeats is said once."""
    first: dict[str, tuple[str, Unit]] = {}
    for label, unit in found:
        plain = _SPACE.sub(" ", unit.text).strip()
        first.setdefault(plain.lower(), (label, replace(unit, text=plain)))
    return [pair for text, pair in first.items() if text]


def _values(found: Sequence[tuple[str, Unit]], question: str, profile: Profile) -> FloatArray:
    # over many steps the actions are content: what was looked for, not a second query
    flat = [replace(unit, role="observation") if unit.role == "action" else unit for _, unit in found]
    values = score(flat, question, profile)
    values += np.array([_ANSWER if unit.role == "answer" else 0.0 for unit in flat])
    seen: dict[str, int] = {}
    for row in np.argsort(-values, kind="stable").tolist():
        label = found[row][0]
        seen[label] = seen.get(label, -1) + 1
        values[row] *= _AGAIN ** seen[label]
    return values


def _chosen(found: Sequence[tuple[str, Unit]], values: FloatArray, tokens: int, count: Count) -> dict[int, str]:
    """Text of each row taken: by value while it fits; the first may be cut."""
    chosen: dict[int, str] = {}
    started: set[str] = set()
    room, smallest = tokens, max(8, tokens // 40)
    for row in np.argsort(-values, kind="stable").tolist():
        label, unit = found[row]
        head = 0 if label in started else count("\n" + _label(label))
        text = unit.text
        cost = head + count(text + " ")
        if cost > room and not chosen:
            text = cut(text, max(0, room - head - 1), count)
            cost = head + count(text + " ")
        if text and cost <= room:
            chosen[row] = text
            started.add(label)
            room -= cost
        if room < smallest:
            break
    return chosen


def _joined(found: Sequence[tuple[str, Unit]], chosen: dict[int, str]) -> str:
    lines: dict[str, list[str]] = {}
    for row in sorted(chosen):
        lines.setdefault(found[row][0], []).append(chosen[row])
    return "\n".join(f"{_label(label)}{' '.join(parts)}" for label, parts in lines.items())


def _label(label: str) -> str:
    return f"{label}: " if label else ""

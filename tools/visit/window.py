"""The part of a long page that is shown: a window, the passages for a goal, or the places of a word."""

from __future__ import annotations

import re

from memory.text.passages import best_passages

_BREAKS = ("\n\n", "\n", "。", ". ", "！", "？", " ")
_HEAD_SHARE = 0.2
_CONTEXT_CHARS = 160
_MAX_PLACES = 20


def windows(text: str, chars: int) -> list[tuple[int, int]]:
    """(start, end) of consecutive windows of at most ``chars``, cut at paragraph, line or sentence ends."""
    if not text:
        return [(0, 0)]
    cuts: list[tuple[int, int]] = []
    start = 0
    while start < len(text):
        end = _cut(text, start, chars)
        cuts.append((start, end))
        start = end
    return cuts


def _cut(text: str, start: int, chars: int) -> int:
    if len(text) - start <= chars:
        return len(text)
    earliest = start + chars - chars // 4
    for mark in _BREAKS:
        at = text.rfind(mark, earliest, start + chars)
        if at >= 0:
            return at + len(mark)
    return start + chars


def for_goal(text: str, goal: str, chars: int) -> str:
    """The passages that speak to the goal, in page order, then the start of the page; together about ``chars``."""
    head = text[: _cut(text, 0, int(chars * _HEAD_SHARE))]
    passages = best_passages(goal, text[len(head) :], limit_chars=chars - len(head))
    if not passages:
        return head.strip()
    evidence = "\n…\n".join(passage.strip() for passage in passages)
    return f"Evidence in page:\n{evidence}\n\nStart of page:\n{head.strip()}"


def places(text: str, wanted: str, chars: int) -> str:
    """Where ``wanted`` occurs (case ignored, any white space), with what stands around it; empty when nowhere."""
    pattern = re.compile(r"\s+".join(map(re.escape, wanted.split())), re.IGNORECASE)
    spans: list[list[int]] = []
    count = 0
    for match in pattern.finditer(text):
        count += 1
        start, end = _around(text, match.start(), match.end())
        if spans and start <= spans[-1][1]:
            spans[-1][1] = max(end, spans[-1][1])
        elif len(spans) < _MAX_PLACES and sum(b - a for a, b in spans) + end - start <= chars:
            spans.append([start, end])
    if not spans:
        return ""
    lines = [f"- … {' '.join(text[start:end].split())} …" for start, end in spans]
    return f'"{wanted}" occurs {count} times:\n' + "\n".join(lines)


def _around(text: str, start: int, end: int) -> tuple[int, int]:
    """The line of a match, cut to some characters on either side."""
    first = max(text.rfind("\n", 0, start) + 1, start - _CONTEXT_CHARS)
    last = text.find("\n", end)
    return first, min(len(text) if last < 0 else last, end + _CONTEXT_CHARS)

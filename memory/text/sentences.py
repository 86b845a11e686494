"""Text to sentences: pieces that make sense alone, in order, nothing lost but white space."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memory.text.words import UNSPACED

MAX_CHARS = 600
_CLOSERS = "\"'”’»)\\]}」』】）》"
_OPENERS = "\"'“‘«(\\[{「『【（《"
_STOPS = "。！？；｡!?…‼⁇।؟"
# The look-behinds keep a run of marks from being tried again at each of its characters.
_END = re.compile(
    f"(?<![{_STOPS}])[{_STOPS}]++[{_CLOSERS}]*(?=\\s|[{UNSPACED}{_OPENERS}]|[A-Z])"
    f"|(?<!\\.)\\.++[{_CLOSERS}]*(?=\\s+[^\\sa-z]|[{UNSPACED}])"
    f"|(?<![{_STOPS}])[。！？｡]++[{_CLOSERS}]*"
    r"|\s(?=[•‣▪●◦]\s)"
)
_ABBREVIATED = (
    "mr mrs ms dr prof st sr jr vs etc fig figs eq eqs nos vol vols pp ed eds est al approx ca cf dept gen col lt "
    "sgt capt rev hon gov sen rep pres inc ltd co corp bros mt ft jan feb mar apr jun jul aug sep sept oct nov dec "
    "e.g i.e u.s u.k u.n a.m p.m ph.d d.c"
)
_ABBREVIATIONS = frozenset(_ABBREVIATED.split())
_LAST_WORD = re.compile(r"[^\W\d_](?:\.?[^\W\d_])*$")
_TABLE_ROW = re.compile(r"\s*\|")
_LINE = re.compile(r"[\r\n\v\f\u0085\u2028\u2029]+")
_SOFT = re.compile(r"[,;:，、；：|]\s*|\s+")


def split(text: str, max_chars: int = MAX_CHARS) -> list[str]:
    """Sentences of a text, stripped, none empty: the texts of `spans`."""
    return [text[start:end] for start, end in spans(text, max_chars)]


def spans(text: str, max_chars: int = MAX_CHARS) -> list[tuple[int, int]]:
    """Half-open character ranges of the sentences of a text, none longer than ``max_chars``.

    A line end always ends one (headings, list items and table rows stay whole); so do Latin sentence marks before a
    following capital, number or quote, unless after an abbreviation or initial, and CJK marks anywhere. What is longer
    is cut at the last clause mark or space in its second half, else at the limit. Together the ranges hold every
    non-space character of the text, in order. Raises ValueError for ``max_chars`` < 1.
    """
    if max_chars < 1:
        raise ValueError("max_chars must be at least 1")
    ranges: list[tuple[int, int]] = []
    start = 0
    for line in _LINE.finditer(text):
        ranges.extend(_line_spans(text, start, line.start(), max_chars))
        start = line.end()
    ranges.extend(_line_spans(text, start, len(text), max_chars))
    return ranges


def _line_spans(text: str, start: int, end: int, max_chars: int) -> Iterator[tuple[int, int]]:
    marks = () if _TABLE_ROW.match(text, start, end) else _END.finditer(text, start, end)
    for match in marks:
        if match.group().startswith(".") and _is_abbreviation(text, start, match):
            continue
        yield from _cut(text, start, match.end(), max_chars)
        start = match.end()
    yield from _cut(text, start, end, max_chars)


def _is_abbreviation(text: str, start: int, match: re.Match[str]) -> bool:
    if len(match.group()) > 1:
        return False
    before = text[max(start, match.start() - 12) : match.start()]
    word = _LAST_WORD.search(before)
    if word is None:
        # "1. Item" at the head of a line is a list number, not a sentence
        return before.strip().isdigit() and match.start() - start <= 3
    found = word.group()
    if len(found) == 1 and found.isupper() and ord(found) < 0x250:
        return True
    return found.lower() in _ABBREVIATIONS


def _cut(text: str, start: int, end: int, limit: int) -> Iterator[tuple[int, int]]:
    """Strip, then pieces of at most ``limit`` characters."""
    while start < end:
        while start < end and text[start].isspace():
            start += 1
        while end > start and text[end - 1].isspace():
            end -= 1
        if end - start <= limit:
            break
        stop = start + limit
        soft = [match.end() for match in _SOFT.finditer(text, start + limit // 2, stop)]
        if soft:
            stop = soft[-1]
        yield start, start + len(text[start:stop].rstrip())
        start = stop
    if start < end:
        yield start, end

"""The part of a page that a searcher wants to see: the window that holds most of the query's terms."""

from __future__ import annotations

import re

from tools.search.terms import CJK_RUN, query_terms

SNIPPET_CHARS = 200
_SCANNED_CHARS = 40_000
_MIN_STEM = 4


def snippet(text: str, query: str, limit: int = SNIPPET_CHARS) -> str:
    """About ``limit`` characters on one line around the best window; the start of the text when no term occurs."""
    scanned = text[:_SCANNED_CHARS]
    found = [(match.start(), match[0].lower()) for match in _pattern(query_terms(query)).finditer(scanned)]
    start = max(0, _best_start(found, limit) - limit // 8) if found else 0
    if start < limit // 4:
        start = 0
    while 0 < start < len(text) and text[start - 1].isalnum() and text[start].isascii() and text[start].isalnum():
        start += 1
    flat = " ".join(text[start : start + limit * 2].split())
    cut = flat[:limit]
    if len(flat) > limit and " " in cut[limit // 2 :] and not CJK_RUN.search(cut[-20:]):
        cut = cut[: cut.rindex(" ")]
    more = len(cut) < len(flat) or start + limit * 2 < len(text)
    return ("… " if start else "") + cut + (" …" if more else "")


def _pattern(terms: list[str]) -> re.Pattern[str]:
    """Any of the terms at the start of a word; long words by their stem, so that inflected forms count."""
    branches = [
        re.escape(term) if CJK_RUN.match(term) else rf"\b{re.escape(term[: max(_MIN_STEM, len(term) - 2)])}\w*"
        for term in terms
    ]
    return re.compile("|".join(branches) or r"(?!)", re.IGNORECASE)


def _best_start(found: list[tuple[int, str]], width: int) -> int:
    """Start of the window of ``width`` characters with the most distinct terms, rare ones counting more."""
    total: dict[str, int] = {}
    for _, term in found:
        total[term] = total.get(term, 0) + 1
    inside: dict[str, int] = {}
    score = best = 0.0
    best_start = found[0][0]
    left = 0
    for position, term in found:
        if not inside.get(term):
            score += 1 / total[term] ** 0.5
        inside[term] = inside.get(term, 0) + 1
        while position - found[left][0] > width:
            gone = found[left][1]
            inside[gone] -= 1
            if not inside[gone]:
                score -= 1 / total[gone] ** 0.5
            left += 1
        if score > best + 1e-9:
            best, best_start = score, found[left][0]
    return best_start

"""The passages of a long text that speak to a query."""

from __future__ import annotations

import numpy as np

from memory.text.bm25 import scores
from memory.text.sentences import spans

WINDOW_CHARS = 500


def best_passages(
    query: str, text: str, *, limit_chars: int = 2000, count: int | None = None, window_chars: int = WINDOW_CHARS
) -> list[str]:
    """Non-overlapping runs of whole sentences, each a literal slice of the text, in document order.

    Windows of at most ``window_chars`` characters, best first by BM25, until ``limit_chars`` characters or ``count``
    windows are spent; adjacent ones are joined. When the query shares no word with the text, its head. Empty for an
    empty text.
    """
    sentences = spans(text, max(1, min(window_chars, limit_chars)))
    if not sentences:
        return []
    ranges = windows(sentences, min(window_chars, limit_chars))
    relevance = scores(query, [text[sentences[first][0] : sentences[last][1]] for first, last in ranges])
    best = np.argsort(-relevance, kind="stable")
    if relevance.any():
        best = best[relevance[best] > 0]
    taken = [False] * len(sentences)
    room, left = limit_chars, len(ranges) if count is None else count
    for index in best:
        first, last = ranges[int(index)]
        size = sentences[last][1] - sentences[first][0]
        if left < 1:
            break
        if size > room or any(taken[first : last + 1]):
            continue
        taken[first : last + 1] = [True] * (last + 1 - first)
        room -= size + 1
        left -= 1
    return _runs(text, sentences, taken)


def windows(sentences: list[tuple[int, int]], chars: int) -> list[tuple[int, int]]:
    """(first, last) sentence of overlapping windows: each holds as many as fit ``chars``, one at least.

    Windows start a quarter of ``chars`` apart, or where one ends, so every sentence is in one and the work is linear.
    """
    ranges: list[tuple[int, int]] = []
    last, previous = -1, 0
    for first, (start, _) in enumerate(sentences):
        if first <= last and 4 * (start - previous) < chars:
            continue
        last, previous = max(last, first), start
        while last + 1 < len(sentences) and sentences[last + 1][1] - start <= chars:
            last += 1
        ranges.append((first, last))
    return ranges


def _runs(text: str, sentences: list[tuple[int, int]], taken: list[bool]) -> list[str]:
    passages: list[str] = []
    first: int | None = None
    for index, keep in enumerate([*taken, False]):
        if keep and first is None:
            first = index
        elif not keep and first is not None:
            passages.append(text[sentences[first][0] : sentences[index - 1][1]])
            first = None
    return passages

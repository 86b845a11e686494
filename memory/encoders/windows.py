"""Short encoder windows: what of a state fits one, and one key for a text longer than one.

PACE truncates at the encoder's window L_max (section 3.2), which is 8,192 tokens for BGE-M3. At 256 (MiniLM) a head
cut would see the first lines of a page and none of the recent steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from memory.encoders.vectors import unit_rows
from memory.ports import Encoder

Count: TypeAlias = Callable[[str], int]
"""Tokens of a text; monotone, and 0 for the empty one."""

SHORT_WINDOW = 1024
"""Up to this L_max (tokens) a state is shared out among its parts; above it the paper's head cut applies."""
_CHARS_PER_TOKEN = 4
_NEARLY_FULL = 0.85


def truncate(text: str, max_tokens: int, count: Count) -> str:
    """A prefix of at most ``max_tokens`` tokens, nearly the longest (within about 15 %)."""
    return text if _fits(text, max_tokens, count) else text[: _cut(text, 0, max_tokens, count)]


def state_text(question: str, recent_texts: Sequence[str], max_tokens: int, count: Count) -> str:
    """The state text R_t, cut to the encoder's window (PACE, section 3.2).

    ``recent_texts``: FULL texts of the recent steps, oldest first. A window above `SHORT_WINDOW` takes the head of
    everything. A shorter one gives the question whole (cut only when it alone exceeds the window) and the steps equal
    shares of the rest; what a short step leaves goes to the others.
    """
    whole = "\n".join(part for part in (question, *recent_texts) if part)
    if max_tokens > SHORT_WINDOW:
        return truncate(whole, max_tokens, count)
    if _fits(whole, max_tokens, count):
        return whole
    head = truncate(question, max_tokens, count)
    parts = [text for text in recent_texts if text]
    left = max_tokens - count(head) - len(parts)
    shares = _shares([_bounded_count(text, left, count) for text in parts], left)
    pieces = [head, *(truncate(text, share, count) for text, share in zip(parts, shares, strict=True))]
    return truncate("\n".join(piece for piece in pieces if piece), max_tokens, count)


def split_windows(text: str, max_tokens: int, count: Count) -> list[str]:
    """The whole text as consecutive windows of at most ``max_tokens`` tokens, cut at white space where possible."""
    windows: list[str] = []
    start = 0
    while start < len(text):
        end = _cut(text, start, max_tokens, count)
        if end < len(text):
            space = max(text.rfind(" ", start, end), text.rfind("\n", start, end))
            end = space + 1 if space > start + (end - start) // 2 else max(end, start + 1)
        if text[start:end].strip():
            windows.append(text[start:end])
        start = end
    return windows


class WindowedEncoder:
    """An encoder whose document vectors are the mean over windows of the full text, not the head of it.

    ``count``: tokens by the inner encoder's own tokenizer. A text of more than ``max_windows`` windows is sampled at
    equal distances, first and last included: a bound on time, of about ``max_windows * max_tokens`` tokens read.
    """

    def __init__(self, inner: Encoder, count: Count, *, max_windows: int = 16) -> None:
        if max_windows < 1:
            raise ValueError(f"max_windows must be at least 1, not {max_windows}")
        self.inner = inner
        self.count = count
        self.max_windows = max_windows
        self.id = f"{inner.id}+mean{max_windows}"
        self.dim = inner.dim
        self.max_tokens = inner.max_tokens

    def encode_query(self, text: str) -> NDArray[np.float32]:
        """(dim,). Cut by the inner encoder; `state_text` makes queries that fit."""
        return self.inner.encode_query(text)

    def encode_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(len(texts), dim): the renormalised mean of the unit vectors of each text's windows."""
        windows = [self._windows(text) for text in texts]
        rows = self.inner.encode_documents([window for group in windows for window in group])
        result = np.zeros((len(texts), self.dim), dtype=np.float32)
        start = 0
        for position, group in enumerate(windows):
            if group:
                result[position] = rows[start : start + len(group)].mean(axis=0)
            start += len(group)
        return unit_rows(result)

    def _windows(self, text: str) -> list[str]:
        windows = split_windows(text, self.max_tokens, self.count)
        if len(windows) <= self.max_windows:
            return windows
        kept = np.linspace(0, len(windows) - 1, self.max_windows).round().astype(int)
        return [windows[position] for position in kept]


def _fits(text: str, max_tokens: int, count: Count) -> bool:
    # 64 characters a token is beyond any text; it saves counting a huge one
    return len(text) <= 64 * max_tokens and count(text) <= max_tokens


def _bounded_count(text: str, limit: int, count: Count) -> int:
    """Tokens of a text, or of enough of its head to pass ``limit``."""
    return count(text[: 64 * max(limit, 1)])


def _shares(sizes: list[int], total: int) -> list[int]:
    """Equal shares of ``total``, none above its size; what is left over goes to the larger ones."""
    shares = [0] * len(sizes)
    left = max(total, 0)
    by_size = sorted(range(len(sizes)), key=sizes.__getitem__)
    for done, position in enumerate(by_size):
        shares[position] = min(sizes[position], left // (len(sizes) - done))
        left -= shares[position]
    return shares


def _cut(text: str, start: int, max_tokens: int, count: Count) -> int:
    """End of a run from ``start`` of at most ``max_tokens`` tokens. Few counts of short pieces, whatever the length."""
    rest = len(text) - start
    if max_tokens < 1:
        return start
    size = min(rest, max_tokens * _CHARS_PER_TOKEN)
    best = 0
    for _ in range(6):
        tokens = count(text[start : start + size])
        if tokens <= max_tokens:
            best = max(best, size)
            if size == rest or tokens >= _NEARLY_FULL * max_tokens:
                break
        size = min(rest, max(1, int(size * 0.97 * max_tokens / max(tokens, 1))))
    else:
        size = min(size, max_tokens)
        while not best and size:
            if count(text[start : start + size]) <= max_tokens:
                best = size
            size //= 2
    return start + best

"""The context as a bar: how the tokens of a request fall to its parts, against the budget."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from agent.events import ContextSummary

PARTS: tuple[tuple[str, str, str], ...] = (
    ("fixed", "blue", "█"),
    ("placeholder", "bright_black", "░"),
    ("brief", "yellow", "▒"),
    ("detailed", "cyan", "▓"),
    ("full", "green", "█"),
    ("recent", "magenta", "█"),
)
"""Name, colour and, for terminals without colour, shading of each part, in the order of a request."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


@dataclass(frozen=True, slots=True)
class Meter:
    """Tokens of one request; ``used`` is the counter's figure for the whole. ``by_level``: old chunks at placeholder,
    brief, detailed, full."""

    budget: int
    used: int
    fixed: int
    by_level: tuple[int, int, int, int]
    recent: int

    @classmethod
    def of(cls, context: ContextSummary) -> Meter:
        return cls(
            budget=context.budget,
            used=context.tokens,
            fixed=context.fixed_tokens,
            by_level=context.tokens_by_level,
            recent=context.recent_tokens,
        )

    @property
    def parts(self) -> tuple[int, ...]:
        """In the order of `PARTS`."""
        return (self.fixed, *self.by_level, self.recent)

    def bar(self, width: int) -> Text:
        """``width`` cells: every part that is there has one at least, while there is room; the rest is free budget."""
        text = Text(no_wrap=True)
        for cells, (_, style, shade) in zip(_cells(self.parts, self.budget, width), PARTS, strict=True):
            text.append(shade * cells, style)
        text.append("·" * (width - len(text)), "dim")
        return text

    def legend(self) -> Text:
        """Each part that is there, by name and tokens."""
        text = Text()
        for tokens, (name, style, shade) in zip(self.parts, PARTS, strict=True):
            if tokens:
                text.append(f"{shade} ", style).append(f"{name} {tokens:,}  ")
        return text

    def plain(self) -> str:
        """For a log line: ``5,120/128,000 tokens (fixed 820, recent 4,300)``."""
        parts = ", ".join(f"{name} {tokens:,}" for tokens, (name, *_) in zip(self.parts, PARTS, strict=True) if tokens)
        return f"{self.used:,}/{self.budget:,} tokens ({parts})"


def one_line(text: str, limit: int) -> str:
    """Outside text for a terminal: control characters gone, one line, at most ``limit`` characters."""
    flat = " ".join(_CONTROL.sub(" ", text).split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def _cells(tokens: Sequence[int], budget: int, width: int) -> list[int]:
    """Cells per part: cumulative rounding, so that they add up to what is used; never more than ``width`` together."""
    total = max(budget, sum(tokens), 1)
    cells: list[int] = []
    seen = 0
    for count in tokens:
        seen += count
        left = width - sum(cells)
        cells.append(min(left, max(1, round(width * seen / total) - sum(cells))) if count else 0)
    return cells

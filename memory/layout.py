"""Where old chunks stand in a context, and what they cost there.

*Interleaved* (the paper's): each chunk at its level, in time order; runs of placeholders fold into range lines. Any
change in the middle re-reads everything after it.

*Ledger*: one line per chunk, append-only, folded into aligned ranges whose sizes are powers of two times a base, so
that a line changes O(log M) times in its life; then a focus section with what is shown above PLACEHOLDER, in the order
in which it came there. The ledger grows by TAIL lines at once: until then the newest lines stand behind the focus,
because a line added before it would re-read all of it. A promoted chunk keeps its ledger line, so costs are additive.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from memory.plan import BoolArray, IntArray, LevelArray, Pool
from memory.records import Level

RANGE_TOKENS = 48
"""Upper bound of a rendered range line, kept by the renderer."""
TAIL = 8
"""Lines by which the ledger grows; fewer stand behind the focus section."""
ONE_RANGE = -1
"""Ledger base that folds everything into a single range line."""


class Layout(Protocol):
    """A cost model. ``foldings``: how often folding can be made tighter; 0 is the loosest."""

    foldings: int

    def costs(self, pool: Pool) -> IntArray:
        """(M, 4) what a chunk costs at each level, folding aside."""
        ...

    def total(self, levels: LevelArray, pool: Pool, folding: int) -> tuple[int, BoolArray]:
        """Tokens of all old chunks at these levels, and which are shown only inside range lines, (M,)."""
        ...

    def base(self, folding: int) -> int:
        """What the renderer must know: 0 interleaved, else the ledger's base at this folding."""
        ...

    def split(self, folded: BoolArray) -> IntArray:
        """(M,) what raising a folded chunk costs beside its text, at most."""
        ...

    def over(self, pool: Pool) -> Layout:
        """The costs of ``pool`` where it is looked at narrowed (`memory.narrow`)."""
        ...


class Interleaved:
    """Levels in time order. Folding 1: each run of placeholders costs at most one range line."""

    foldings = 1

    def costs(self, pool: Pool) -> IntArray:
        """The blocks' own tokens."""
        return pool.tokens

    def base(self, folding: int) -> int:
        """0."""
        return 0

    def split(self, folded: BoolArray) -> IntArray:
        """One more range line."""
        return np.where(folded, RANGE_TOKENS, 0)

    def over(self, pool: Pool) -> Interleaved:
        """The same: a narrowed pool has its runs."""
        return self

    def total(self, levels: LevelArray, pool: Pool, folding: int) -> tuple[int, BoolArray]:
        """A run costs ``min(sum of its lines, RANGE_TOKENS)``, which is subadditive: no demotion ever costs."""
        count = len(levels)
        folded = np.zeros(count, dtype=np.bool_)
        if count == 0:
            return 0, folded
        shown = pool.tokens_at(levels)
        if folding == 0:
            return int(shown.sum()), folded
        coarse = levels == Level.PLACEHOLDER
        starts = np.flatnonzero(coarse & ~np.concatenate(([False], coarse[:-1])))
        if len(starts) == 0:
            return int(shown.sum()), folded
        ends = np.flatnonzero(coarse & ~np.concatenate((coarse[1:], [False]))) + 1
        sums = np.concatenate(([0], np.cumsum(shown)))
        cost = sums[ends] - sums[starts]
        long = cost > RANGE_TOKENS
        marks = np.zeros(count + 1, dtype=np.int64)
        np.add.at(marks, starts[long], 1)
        np.add.at(marks, ends[long], -1)
        folded = np.cumsum(marks[:-1]).astype(np.bool_)
        return int(shown.sum() - cost[long].sum() + RANGE_TOKENS * long.sum()), folded


class Ledger:
    """Ledger and focus. Foldings: the base, base 1, one single range."""

    foldings = 2

    def __init__(self, base: int, whole: Pool | None = None) -> None:
        self._bases = (max(1, base), 1, ONE_RANGE)
        self._whole = whole
        self._known: dict[int, tuple[Pool, int, BoolArray]] = {}

    def costs(self, pool: Pool) -> IntArray:
        """A line is paid by the ledger whatever the level, so PLACEHOLDER is free here."""
        costs = pool.tokens.copy()
        costs[:, Level.PLACEHOLDER] = 0
        return costs

    def base(self, folding: int) -> int:
        """The base at this folding."""
        return self._bases[folding]

    def split(self, folded: BoolArray) -> IntArray:
        """Nothing: a range keeps its line."""
        return np.zeros(len(folded), dtype=np.int64)

    def total(self, levels: LevelArray, pool: Pool, folding: int) -> tuple[int, BoolArray]:
        """Ledger lines and ranges for all, blocks for what is in focus. Of a narrowed pool all else is said to be
        folded: none of it has to be paid for."""
        tokens, inside = self._ledger(pool if self._whole is None else self._whole, self._bases[folding])
        rows = np.flatnonzero(levels > Level.PLACEHOLDER)
        folded = inside.copy() if self._whole is None else np.ones(len(levels), dtype=np.bool_)
        folded[rows] = False
        return tokens + int(pool.tokens[rows, levels[rows]].sum()), folded

    def over(self, pool: Pool) -> Ledger:
        """With the ledger of ``pool``, whatever pool is looked at."""
        return Ledger(self._bases[0], pool)

    def _ledger(self, pool: Pool, base: int) -> tuple[int, BoolArray]:
        known = self._known.get(base)
        if known is None or known[0] is not pool:
            known = self._known[base] = (pool, *ledger_tokens(pool, base))
        return known[1], known[2]


def ledger_base(budget: int) -> int:
    """Base for a budget: between 4 and 32 lines, so that the unfolded part stays near a tenth of it."""
    return int(min(32, max(4, 2 ** int(np.log2(max(1, budget // 640))))))


def ledger_rows(count: int, base: int) -> int:
    """How many of ``count`` chunks stand in the ledger itself; the lines of the rest follow the focus section. A ledger
    that is folded tight keeps none back."""
    return count - count % TAIL if base > 1 else count


def segments(count: int, base: int) -> list[tuple[int, int]]:
    """Rows [start, end) of each ledger entry for ``count`` chunks: aligned blocks of base * 2**k, oldest largest, then
    between base and 2 * base single lines."""
    if base == ONE_RANGE:
        return [(0, count)] if count else []
    whole = max(0, ledger_rows(count, base) // base - 1)
    parts: list[tuple[int, int]] = []
    start = 0
    for power in range(whole.bit_length() - 1, -1, -1):
        if whole >> power & 1:
            parts.append((start, start + (base << power)))
            start += base << power
    parts.extend((row, row + 1) for row in range(start, count))
    return parts


def ledger_tokens(pool: Pool, base: int) -> tuple[int, BoolArray]:
    """Tokens of the ledger (ranges at their bound) and which chunks have no line of their own, (M,)."""
    inside = np.zeros(len(pool), dtype=np.bool_)
    lines = pool.tokens[:, Level.PLACEHOLDER] if pool.lines is None else pool.lines
    total = 0
    for start, end in segments(len(pool), base):
        if end - start == 1:
            total += int(lines[start])
        else:
            total += RANGE_TOKENS
            inside[start:end] = True
    return total, inside

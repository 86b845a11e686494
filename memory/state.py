"""What an open session holds in memory: counts, keys and the levels shown last; everything else stays in the store."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from memory.index.chunks import ChunkIndex
from memory.index.keys import KeyMatrix
from memory.plan import LevelArray
from memory.stored import PlanRecord, Question

FOLDED = -1
"""Code of a chunk shown only inside a range line; other codes are `Level` values."""
_UNSEEN = -2


@dataclass(slots=True)
class SessionState:
    """Mutable, owned by one `Memory`."""

    index: ChunkIndex
    keys: KeyMatrix
    nonce: str
    questions: list[Question] = field(default_factory=list)
    codes: LevelArray = field(default_factory=lambda: np.zeros(0, dtype=np.int8))
    """Code shown for each old chunk in the latest context, (M,)."""
    previous_tokens: int | None = None

    @property
    def question(self) -> Question | None:
        """The question in force."""
        return self.questions[-1] if self.questions else None

    def changes(self, codes: LevelArray) -> tuple[tuple[int, int], ...]:
        """(chunk, code) pairs that differ from the latest context."""
        before = np.full(len(codes), _UNSEEN, dtype=np.int8)
        shared = min(len(codes), len(self.codes))
        before[:shared] = self.codes[:shared]
        rows = np.flatnonzero(before != codes)
        return tuple((int(row) + 1, int(codes[row])) for row in rows)

    def remember(self, codes: LevelArray, tokens: int) -> None:
        """Take the context just built as the latest."""
        self.codes = codes
        self.previous_tokens = tokens


def extend(codes: LevelArray, record: PlanRecord) -> LevelArray:
    """The codes (M,) that ``record`` shows, from those of the context before it."""
    count = record.recent_from - 1
    result = np.full(max(count, len(codes)), _UNSEEN, dtype=np.int8)
    result[: len(codes)] = codes
    for chunk, code in record.changed:
        result[chunk - 1] = code
    return result[:count]


def cumulate(records: list[PlanRecord]) -> LevelArray:
    """The codes that the last of consecutive records shows."""
    codes = np.zeros(0, dtype=np.int8)
    for record in records:
        codes = extend(codes, record)
    return codes

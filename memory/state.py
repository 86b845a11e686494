"""What an open session holds in memory: counts, keys and the levels shown last; everything else stays in the store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from memory.index.chunks import ChunkIndex
from memory.index.keys import KeyMatrix
from memory.index.lexical import LexicalIndex
from memory.plan import Block, IntArray, LevelArray
from memory.records import Message
from memory.stored import Change, PlanRecord, Question

_UNSEEN = -9


@dataclass(frozen=True, slots=True)
class Latest:
    """What is remembered of one context."""

    step: int
    codes: LevelArray
    since: IntArray
    previous_tokens: int | None
    request: tuple[Message, ...] | None


@dataclass(slots=True)
class SessionState:
    """Mutable, owned by one `Memory`."""

    index: ChunkIndex
    keys: KeyMatrix
    nonce: str
    questions: list[Question] = field(default_factory=list)
    codes: LevelArray = field(default_factory=lambda: np.zeros(0, dtype=np.int8))
    """Code shown for each old chunk in the latest context, (M,)."""
    since: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Step at which each chunk came to its code, (M,)."""
    previous_tokens: int | None = None
    lexical: LexicalIndex = field(default_factory=LexicalIndex)
    """Filled only for policies that need it."""
    blocks: list[Block] = field(default_factory=list)
    request: tuple[Message, ...] | None = None
    """The latest rendered request; None after opening."""
    step: int = 0
    """Step of the latest context."""
    before: Latest | None = None
    """The latest context of an earlier step than ``step``."""
    keys_in_file: int = 0
    """Rows of ``keys`` that stand in the mapped file as they are (`memory.load`)."""

    @property
    def question(self) -> Question | None:
        """The question in force."""
        return self.questions[-1] if self.questions else None

    def changes(self, codes: LevelArray) -> tuple[tuple[int, int], ...]:
        """(chunk, code) pairs that differ from the latest context."""
        before = _grown(self.codes, len(codes), _UNSEEN)
        rows = np.flatnonzero(before != codes)
        return tuple((int(row) + 1, int(codes[row])) for row in rows)

    def since_with(self, codes: LevelArray, step: int) -> IntArray:
        """`since` as it will be once ``codes`` are shown at ``step``."""
        return since_with(self.codes, self.since, codes, step)

    def remember(self, codes: LevelArray, step: int, tokens: int, request: tuple[Message, ...] | None = None) -> None:
        """Take the context just built as the latest."""
        if step != self.step:
            self.before = Latest(self.step, self.codes, self.since, self.previous_tokens, self.request)
            self.step = step
        self.since = self.since_with(codes, step)
        self.codes = codes
        self.previous_tokens = tokens
        self.request = request

    def rewind(self, step: int) -> None:
        """Before ``step`` is planned: forget a context that was built for it already, but led to no step (the model
        refused it, or the run ended there). Its record will be replaced, so nothing may build on it."""
        if step == self.step and self.before is not None:
            before = self.before
            self.codes, self.since = before.codes, before.since
            self.previous_tokens, self.request = before.previous_tokens, before.request

    def replay(self, record: PlanRecord) -> None:
        """Take a recorded context as the latest."""
        chunks = np.array([chunk for chunk, _ in record.changed], dtype=np.int64)
        codes = np.array([code for _, code in record.changed], dtype=np.int8)
        self._follow(Change(record.step, record.recent_from, record.tokens, chunks, codes))

    def replay_all(self, changes: Sequence[Change]) -> None:
        """Take recorded contexts, each after the one before: O(changes), not O(M) for each."""
        if not changes:
            return
        size = max(change.recent_from - 1 for change in changes)
        codes, since = _grown(self.codes, size, _UNSEEN).copy(), _grown(self.since, size, 0).copy()
        count = len(self.codes)
        for change in changes[:-1]:
            if change.recent_from - 1 < count:
                codes[change.recent_from - 1 :], since[change.recent_from - 1 :] = _UNSEEN, 0
            count = change.recent_from - 1
            rows = change.chunks - 1
            since[rows] = np.where(codes[rows] != change.codes, change.step, since[rows])
            codes[rows] = change.codes
        if len(changes) > 1:
            self.take(Latest(changes[-2].step, codes[:count], since[:count], changes[-2].tokens, None))
        self._follow(changes[-1])

    def take(self, latest: Latest) -> None:
        """Go on from ``latest``, as if nothing had been before."""
        self.step, self.codes, self.since, self.before = latest.step, latest.codes, latest.since, None
        self.previous_tokens, self.request = latest.previous_tokens, latest.request

    def settled(self) -> Latest | None:
        """The latest context that led to a step; None before the first."""
        if self.step > len(self.index):
            return self.before if self.before is not None and self.before.step else None
        return Latest(self.step, self.codes, self.since, self.previous_tokens, None) if self.step else None

    def _follow(self, change: Change) -> None:
        codes = _grown(self.codes, change.recent_from - 1, _UNSEEN).copy()
        codes[change.chunks - 1] = change.codes
        self.remember(codes, change.step, change.tokens)


def since_with(before: LevelArray, since: IntArray, codes: LevelArray, step: int) -> IntArray:
    """(M,) step at which each chunk came to its code, once ``codes`` follow ``before`` at ``step``."""
    return np.where(_grown(before, len(codes), _UNSEEN) != codes, step, _grown(since, len(codes), 0))


A = TypeVar("A", bound=np.generic)


def _grown(array: NDArray[A], count: int, filler: int) -> NDArray[A]:
    """The first ``count`` entries, filled up at the end."""
    if len(array) >= count:
        return array[:count]
    return np.concatenate((array, np.full(count - len(array), filler, dtype=array.dtype)))

"""The level of every chunk in every context, for any range of both, from what changed between contexts."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from memory.index.chunks import ChunkIndex
from memory.index.keys import KeyMatrix
from memory.plan import IntArray, LevelArray
from memory.state import Latest, SessionState
from memory.stored import Change

ABSENT, RECENT = -9, 4
"""Codes beside those of `memory.plan`: not yet there, and whole in the recent window."""
EVERY = 64
"""Contexts from one remembered one to the next."""


class Grid:
    """Contexts by step, in order; a step without a model call has none and looks like the one before."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self._kept: list[Latest] = []
        """The context before each `EVERY`-th change."""

    def extend(self, changes: Sequence[Change]) -> None:
        """Add contexts that follow, or replace the last ones: a context that led to no step is built again."""
        if changes and self.changes and changes[0].step <= self.changes[-1].step:
            first = self._count(changes[0].step - 1)
            del self.changes[first:]
            del self._kept[-(-first // EVERY) :]
        self.changes.extend(changes)

    @property
    def last(self) -> int:
        """Step of the newest context, 0 when there is none."""
        return self.changes[-1].step if self.changes else 0

    def at(self, step: int) -> Latest | None:
        """The newest context up to ``step``; None before the first."""
        count = self._count(step)
        return _latest(self._after(count)) if count else None

    def codes(self, steps: Sequence[int], first: int, stride: int, count: int) -> NDArray[np.int8]:
        """(len(steps), count) codes of the chunks ``first``, ``first + stride``, … at ascending ``steps``."""
        tile = np.full((len(steps), count), ABSENT, dtype=np.int8)
        chunks = first + stride * np.arange(count)
        done = self._count(steps[0]) if steps else 0
        state = self._after(done)
        for row, step in enumerate(steps):
            upto = self._count(step)
            state.replay_all(self.changes[done:upto])
            done = upto
            codes = column(state.codes, step)
            inside = chunks <= len(codes)
            tile[row, inside] = codes[chunks[inside] - 1]
        return tile

    def _count(self, step: int) -> int:
        """How many contexts there are up to ``step``."""
        return bisect_right(self.changes, step, key=lambda change: change.step)

    def _after(self, count: int) -> SessionState:
        """The state after the first ``count`` contexts."""
        state = _state()
        if count:
            place = (count - 1) // EVERY
            while len(self._kept) <= place:
                self._keep(len(self._kept))
            state.take(self._kept[place])
            state.replay_all(self.changes[place * EVERY : count])
        return state

    def _keep(self, place: int) -> None:
        state = _state()
        if place:
            state.take(self._kept[place - 1])
            state.replay_all(self.changes[(place - 1) * EVERY : place * EVERY])
        self._kept.append(_latest(state))


def column(codes: LevelArray, step: int) -> LevelArray:
    """(step - 1,) codes of all chunks before ``step``: what is not old is in the recent window."""
    whole = np.full(max(0, step - 1), RECENT, dtype=np.int8)
    whole[: min(len(codes), len(whole))] = codes[: len(whole)]
    return whole


def packed(changes: Sequence[Change]) -> tuple[IntArray, IntArray, NDArray[np.int8]]:
    """All changes as three columns: step and number of changes of each context, then chunks and codes in a row."""
    heads = np.array([(c.step, c.recent_from, len(c.chunks)) for c in changes], dtype=np.int64).reshape(-1, 3)
    chunks = np.concatenate([c.chunks for c in changes]) if changes else np.zeros(0, dtype=np.int64)
    codes = np.concatenate([c.codes for c in changes]) if changes else np.zeros(0, dtype=np.int8)
    return heads, chunks, codes


def _state() -> SessionState:
    return SessionState(ChunkIndex(), KeyMatrix(1), "")


def _latest(state: SessionState) -> Latest:
    return Latest(state.step, state.codes, state.since, state.previous_tokens, None)

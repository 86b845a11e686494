"""Pools for tests: hypothesis strategies and hand-made ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from memory.plan import PlanInput, Pool
from memory.records import Level


@dataclass(frozen=True)
class FlatRecent:
    """A recent window of texts: each counts whole or clipped, plus its overhead."""

    texts: tuple[int, ...] = (300, 500)
    overhead: int = 20

    def tokens(self, cap: int | None) -> int:
        return sum(self.overhead + (text if cap is None else min(text, cap)) for text in self.texts)


def pool(cosines: Sequence[float], *, full: int = 1000, detailed: int = 200, brief: int = 50, line: int = 20) -> Pool:
    """Equal chunks with every level present."""
    count = len(cosines)
    return Pool(
        ids=np.arange(1, count + 1),
        tokens=np.tile(np.array([line, brief, detailed, full], dtype=np.int64), (count, 1)),
        available=np.ones((count, 4), dtype=np.bool_),
        cosines=np.array(cosines, dtype=np.float64),
    )


def given(
    pool_: Pool, *, step: int = 10, budget: int = 100_000, fixed: int = 500, recent: int = 800, previous: int = 0
) -> PlanInput:
    return PlanInput(step, budget, fixed, recent, previous, pool_)


@st.composite
def pools(draw: st.DrawFn, max_size: int = 60) -> Pool:
    """Any legal pool: costs non-decreasing along a row, a missing level carries the next finer cost."""
    count = draw(st.integers(0, max_size))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    tokens = np.sort(rng.integers(5, draw(st.sampled_from([60, 600, 6000])), (count, 4)), axis=1).astype(np.int64)
    available = rng.random((count, 4)) < draw(st.sampled_from([0.0, 0.5, 1.0]))
    available[:, [Level.PLACEHOLDER, Level.FULL]] = True
    for level in (Level.DETAILED, Level.BRIEF):
        tokens[:, level] = np.where(available[:, level], tokens[:, level], tokens[:, level + 1])
    tokens[:, Level.PLACEHOLDER] = np.minimum(tokens[:, Level.PLACEHOLDER], tokens[:, Level.BRIEF])
    cosines = rng.normal(0.3, 0.2, count).clip(-1, 1)
    return Pool(np.arange(1, count + 1), tokens, available, cosines)

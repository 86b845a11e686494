"""Looking at few chunks of a large pool gives what looking at all of them gives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, settings
from hypothesis import given as forall
from hypothesis import strategies as st

from memory import narrow
from memory.errors import MemoryFault
from memory.fit import FitInput, demotions, fit
from memory.index.chunks import ChunkIndex
from memory.layout import Interleaved, Layout, Ledger
from memory.narrow import densities
from memory.plan import HIDDEN, ContextPlan, FittedPlan, Pool
from memory.records import Level
from memory.spend import spend
from memory.stored import ChunkFacts
from tests.memory.pools import FlatRecent, pools

LAYOUTS: tuple[Layout, ...] = (Interleaved(), Ledger(4), Ledger(32))


@st.composite
def cases(draw: st.DrawFn) -> tuple[ContextPlan, Pool, FitInput]:
    pool = draw(pools(max_size=300))
    count = len(pool)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    lines = np.minimum(pool.tokens[:, 0], rng.integers(10, 25, count))
    pool.tokens[:, 0] = lines if draw(st.booleans()) else pool.tokens[:, 0]
    if draw(st.booleans()):
        pool = replace(pool, fidelity=np.sort(np.append(rng.random((count, 3)), np.ones((count, 1)), axis=1), axis=1))
    levels = rng.integers(0, 4, count).astype(np.int8)
    levels[rng.random(count) < draw(st.sampled_from([0.0, 0.2]))] = HIDDEN
    values = rng.gamma(1.0, 1.0, count)
    kept = rng.random(count) < 0.05 if draw(st.booleans()) else None
    layout = draw(st.sampled_from(LAYOUTS))
    around = FitInput(10, draw(st.integers(1_000, 300_000)), 200, FlatRecent(), layout=layout)
    return ContextPlan(levels, np.round(values) if draw(st.booleans()) else values, kept=kept), pool, around


def cut(plan: ContextPlan, pool: Pool, around: FitInput) -> tuple[FittedPlan, FittedPlan]:
    fitted = fit(plan, pool, around)
    return fitted, spend(fitted, plan, pool, around)


@forall(cases(), st.sampled_from([25, 4_000]))
@settings(max_examples=300, deadline=None)
def test_same_as_looking_at_all(case: tuple[ContextPlan, Pool, FitInput], each: int) -> None:
    try:
        whole = cut(*case)
    except MemoryFault:
        assume(False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(narrow, "FEWEST", 3)
        patch.setattr(narrow, "_TOKENS_EACH", each)
        few = cut(*case)
    for one, other in zip(whole, few, strict=True):
        assert (one.levels == other.levels).all() and (one.folded == other.folded).all()
        assert (one.tokens, one.unfitted_tokens, one.ledger_base) == (
            other.tokens,
            other.unfitted_tokens,
            other.ledger_base,
        )


def test_few_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only the same, but by the short way: sequences over all chunks are never made."""
    rng = np.random.default_rng(1)
    count = 20_000
    tokens = np.tile(np.array([18, 50, 210, 900], dtype=np.int64), (count, 1))
    pool = Pool(np.arange(1, count + 1), tokens, np.ones((count, 4), dtype=np.bool_), np.zeros(count))
    plan = ContextPlan(np.full(count, int(Level.DETAILED), dtype=np.int8), rng.gamma(1.0, 1.0, count))
    lengths: list[int] = []

    def noted(plan: ContextPlan, pool: Pool, *rest: object) -> object:
        lengths.append(len(pool))
        return demotions(plan, pool, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr("memory.fit.demotions", noted)
    for layout in (Interleaved(), Ledger(32)):
        cut(plan, pool, FitInput(10, 32_000, 400, FlatRecent(), layout=layout))
    assert len(lengths) == 2 and max(lengths) < 5_000


@forall(pools())
@settings(deadline=None)
def test_densities_bound_what_a_demotion_loses(pool: Pool) -> None:
    plan = ContextPlan(np.full(len(pool), int(Level.FULL), dtype=np.int8), np.ones(len(pool)))
    for layout, part in ((Interleaved(), slice(0, 4)), (Ledger(8), slice(4, 8))):
        rows, _, ratios = demotions(plan, pool, layout)
        fidelity = np.broadcast_to([0.05, 0.35, 0.7, 1.0], (len(pool), 4))
        bound = densities(pool.tokens, pool.available, fidelity)[part][Level.FULL]
        assert (ratios <= bound[rows] * (1 + 1e-9)).all()


def test_an_index_keeps_densities_up_to_date() -> None:
    index = ChunkIndex()
    count = 2 * narrow.FEWEST + 50
    for number in range(1, count + 1):
        index.append(ChunkFacts(number, "act", ("visit",), "a page", 900, 18, "", "", ""))
    pool = index.pool(count, np.zeros(count))
    index.set_views([(7, Level.BRIEF, 40, 0.5), (count, Level.DETAILED, 200, None)])
    pool = index.pool(count, np.zeros(count))
    assert pool.densities is not None
    for fidelity in (None, index.fidelity(count)):
        shares = np.broadcast_to([0.05, 0.35, 0.7, 1.0], (count, 4)) if fidelity is None else fidelity
        assert (pool.densities >= densities(pool.tokens, pool.available, shares)).all()

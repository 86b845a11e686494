"""The hard budget: properties over any pool, plan and budget."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given as forall
from hypothesis import settings
from hypothesis import strategies as st

from memory.errors import BudgetTooSmall, ContextExhausted
from memory.fit import FitInput, demotions, fit, input_budget
from memory.layout import RANGE_TOKENS, Interleaved, Layout, Ledger, segments
from memory.plan import HIDDEN, Block, ContextPlan, FittedPlan, Pool
from memory.policies.registry import make_policy
from memory.records import Level
from memory.spend import spend
from tests.memory.pools import FlatRecent, given, pool, pools

POLICIES = st.sampled_from(["pace", "react"])
BUDGETS = st.integers(1, 60_000)


def run(name: str, pool_: Pool, budget: int, recent: FlatRecent, fixed: int = 200) -> tuple[ContextPlan, FitInput]:
    plan = make_policy(name).plan(given(pool_, budget=budget, fixed=fixed, recent=recent.tokens(None)))
    return plan, FitInput(10, budget, fixed, recent)


LAYOUTS = st.sampled_from([Interleaved(), Ledger(4), Ledger(32)])


def cost_of(fitted: FittedPlan, pool_: Pool, given_: FitInput) -> int:
    """The bound again, the slow way: each shown block, one range line per folded run."""
    total, in_run = given_.fixed_tokens + given_.recent.tokens(fitted.recent_cap), False
    if fitted.ledger_base:
        for start, end in segments(len(pool_), fitted.ledger_base):
            total += int(pool_.tokens[start, Level.PLACEHOLDER]) if end - start == 1 else RANGE_TOKENS
        focus = fitted.levels > Level.PLACEHOLDER
        return total + int(pool_.tokens[np.arange(len(pool_)), fitted.levels][focus].sum())
    for row in range(len(pool_)):
        if fitted.folded[row]:
            assert fitted.levels[row] == Level.PLACEHOLDER
            total += 0 if in_run else RANGE_TOKENS
        else:
            total += int(pool_.tokens[row, fitted.levels[row]])
        in_run = bool(fitted.folded[row])
    return total


@settings(max_examples=300, deadline=None)
@forall(pools(), POLICIES, BUDGETS, st.tuples(st.integers(0, 5000), st.integers(0, 5000)), LAYOUTS)
def test_never_over_budget_or_a_named_minimum(
    pool_: Pool, name: str, budget: int, texts: tuple[int, int], layout: Layout
) -> None:
    recent = FlatRecent(texts)
    plan, around = run(name, pool_, budget, recent)
    around = replace(around, layout=layout)
    try:
        fitted = fit(plan, pool_, around)
    except BudgetTooSmall as fault:
        assert fault.minimum > budget
        plan, around = run(name, pool_, fault.minimum, recent)
        around = replace(around, layout=layout)
        assert fit(plan, pool_, around).tokens <= fault.minimum
        return
    assert fitted.tokens == cost_of(fitted, pool_, around) <= budget
    assert pool_.available[np.arange(len(pool_)), fitted.levels].all()
    spent = spend(fitted, plan, pool_, around)
    assert spent.tokens == cost_of(spent, pool_, around) <= budget
    assert (spent.levels >= fitted.levels).all() and (spent.levels <= np.maximum(plan.ceiling, fitted.levels)).all()


@settings(max_examples=300, deadline=None)
@forall(pools(), POLICIES, BUDGETS, BUDGETS, LAYOUTS)
def test_monotone_in_the_budget(pool_: Pool, name: str, one: int, other: int, layout: Layout) -> None:
    """The same plan under a smaller budget keeps no more of anything."""
    recent = FlatRecent((900, 2500))
    plan, _ = run(name, pool_, 20_000, recent)
    small, large = sorted((one, other))
    try:
        tight = fit(plan, pool_, FitInput(10, small, 200, recent, layout=layout))
    except BudgetTooSmall:
        return
    loose = fit(plan, pool_, FitInput(10, large, 200, recent, layout=layout))
    assert (tight.levels <= loose.levels).all() and tight.cuts >= loose.cuts and tight.tokens <= loose.tokens
    if tight.recent_cap is None:
        assert loose.recent_cap is None


@settings(max_examples=200, deadline=None)
@forall(pools(), POLICIES)
def test_every_cut_is_one_level_down_and_never_costs(pool_: Pool, name: str) -> None:
    plan, _ = run(name, pool_, 1_000_000, FlatRecent())
    rows, target, _ = demotions(plan, pool_)
    levels, cost = plan.levels.copy(), Interleaved().total(plan.levels, pool_, 1)[0]
    for row, level in zip(rows, target, strict=True):
        assert level < levels[row] and pool_.available[row, level]
        skipped = pool_.available[row, level + 1 : levels[row]]
        saves = pool_.tokens[row, level + 1 : levels[row]] < pool_.tokens[row, levels[row]]
        assert not (skipped & saves).any(), "a level that saves was skipped"
        levels[row] = level
        now = Interleaved().total(levels, pool_, 1)[0]
        assert now <= cost
        cost = now
    assert (levels == Level.PLACEHOLDER).all()


def test_least_value_per_token_goes_first() -> None:
    """Two equal chunks, the second worth a tenth: it falls to a placeholder before the first moves."""
    plan = ContextPlan(np.array([3, 3], dtype=np.int8), np.array([1.0, 0.1]))
    rows, _, _ = demotions(plan, pool((0.5, 0.5)))
    assert rows.tolist()[:2] == [1, 1]


def test_folding_comes_before_any_demotion() -> None:
    """Forty lines of 20 tokens become one range line; the full chunk is untouched."""
    levels = np.array([0] * 40 + [3], dtype=np.int8)
    plan = ContextPlan(levels, np.ones(41))
    fitted = fit(plan, pool((0.5,) * 41), FitInput(1, 2_000, 200, FlatRecent((10, 10), 0)))
    assert fitted.levels.tolist() == levels.tolist() and fitted.folded.tolist() == [True] * 40 + [False]
    assert fitted.tokens == 200 + 20 + RANGE_TOKENS + 1000 and fitted.unfitted_tokens == 200 + 20 + 800 + 1000


def test_overflow_stop_ends_the_session_at_the_unfitted_plan() -> None:
    plan = ContextPlan(np.array([3], dtype=np.int8), np.ones(1))
    with pytest.raises(ContextExhausted) as caught:
        fit(plan, pool((0.5,)), FitInput(7, 1_500, 200, FlatRecent((400,), 0), overflow="stop"))
    assert (caught.value.step, caught.value.needed, caught.value.budget) == (7, 1_600, 1_500)


def test_the_minimum_is_named_and_true() -> None:
    recent = FlatRecent((5_000, 5_000), 10)
    plan = ContextPlan(np.full(9, 3, dtype=np.int8), np.ones(9))
    with pytest.raises(BudgetTooSmall) as caught:
        fit(plan, pool((0.5,) * 9), FitInput(1, 100, 200, recent))
    assert caught.value.minimum == 200 + 2 * (10 + 48) + RANGE_TOKENS
    assert "at least" in str(caught.value) and str(caught.value.minimum) in caught.value.hint


def test_spend_buys_the_most_valuable_first() -> None:
    plan = ContextPlan(np.array([0, 0, 0], dtype=np.int8), np.array([0.1, 3.0, 0.2]))
    around = FitInput(1, 200 + 20 + 60 + 1000, 200, FlatRecent((20,), 0))
    fitted = fit(plan, pool((0.5,) * 3), around)
    spent = spend(fitted, plan, pool((0.5,) * 3), around)
    assert spent.levels.tolist()[1] == Level.FULL and spent.tokens <= around.budget
    assert spent.spent == spent.tokens - fitted.tokens


@pytest.mark.parametrize(
    ("window", "reserve", "configured", "expected"),
    [
        (128_000, 4_096, None, 128_000 - 4_096 - 3_840),
        (8_192, 1_024, None, 8_192 - 1_024 - 512),
        (200_000, 8_000, 16_000, 16_000),
        (8_192, 1_024, 128_000, 6_656),
    ],
)
def test_input_budget(window: int, reserve: int, configured: int | None, expected: int) -> None:
    assert input_budget(window, reserve, configured) == expected


@pytest.mark.parametrize("base", [1, 4, 32])
def test_a_ledger_line_changes_rarely_and_the_ledger_stays_small(base: int) -> None:
    """Aligned ranges of doubling size: contiguous, logarithmically many, and each chunk in O(log M) different ones."""
    homes: dict[int, set[tuple[int, int]]] = {row: set() for row in range(1, 2_000, 97)}
    for count in range(1, 2_001):
        parts = segments(count, base)
        assert [start for start, _ in parts] == [0, *(end for _, end in parts)][:-1] and parts[-1][1] == count
        assert len(parts) <= 2 * base + 12
        for row in homes:
            homes[row].update(part for part in parts if part[0] <= row < part[1])
    assert max(map(len, homes.values())) <= 13


def test_a_plan_s_blocks_give_way_oldest_first() -> None:
    blocks = (Block(1, 1, 4, "summary", "a", 400), Block(2, 5, 8, "summary", "b", 400))
    plan = ContextPlan(np.full(9, HIDDEN, dtype=np.int8), np.ones(9), blocks=blocks)
    plan.levels[8] = Level.FULL
    loose = fit(plan, pool((0.5,) * 9), FitInput(1, 2_100, 200, FlatRecent((20,), 0)))
    assert loose.blocks == blocks and loose.tokens == 200 + 20 + 800 + 1000 and loose.cuts == 0
    tight = fit(plan, pool((0.5,) * 9), FitInput(1, 800, 200, FlatRecent((20,), 0)))
    assert tight.blocks == blocks[1:] and tight.tokens == 200 + 20 + 400 + RANGE_TOKENS + 20
    assert tight.levels.tolist() == [0, 0, 0, 0, HIDDEN, HIDDEN, HIDDEN, HIDDEN, 0]

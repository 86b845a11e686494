"""The optimiser as a policy: within budget, legal, equal to the exact optimum on small pools, decisions by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from memory.config import MemoryConfig
from memory.decide import Decision, decide
from memory.fit import level_fidelity
from memory.layout import Interleaved, Ledger, ledger_base
from memory.plan import HIDDEN, PlanInput, Pool
from memory.policies.mosaic import Mosaic, MosaicConfig, shortlist, with_lines
from memory.policies.registry import make_policy
from memory.records import Level
from memory.stored import ChunkFacts
from tests.memory.pools import FlatRecent, pool, pools
from tests.memory.pools import given as plan_input
from tests.memory.scoring.scorers import RICH, SAID, scorer

SCORER = scorer(step=RICH, lookup=SAID, turn=SAID)


def mosaic(**options: Any) -> Mosaic:
    return Mosaic(MosaicConfig.model_validate({"damping": 0.0, **options}))


def with_keys(base: Pool, seed: int = 0, dim: int = 6) -> Pool:
    keys = np.random.default_rng(seed).normal(0.3, 1, (len(base), dim)).astype(np.float32)
    return replace(base, keys=keys / np.linalg.norm(keys, axis=1, keepdims=True))


def room(budget: int) -> Any:
    """A question of 500 tokens, 800 of recent steps, and so much for the old ones."""
    return {"budget": 1300 + budget}


def test_no_old_chunk_and_one() -> None:
    assert mosaic().plan(plan_input(pool(()))).levels.shape == (0,)
    assert mosaic().plan(plan_input(pool((0.5,)))).levels.tolist() == [Level.FULL]


def test_by_hand() -> None:
    """Fidelity (sharpness 1) .35, .7, 1 for 50, 200, 1,000 tokens; recency off; tau 0.3 sigma makes the third chunk
    nearly all of the value. 1,000 tokens less a tenth for lines: FULL does not fit, DETAILED does, and two BRIEFs."""
    plan = mosaic(sharpness=1.0, recency=0.0).plan(plan_input(pool((0.1, 0.2, 0.9)), **room(1_000)))
    assert plan.levels.tolist() == [Level.DETAILED, Level.DETAILED, Level.DETAILED]
    plan = mosaic(sharpness=1.0, recency=0.0).plan(plan_input(pool((0.1, 0.2, 0.9)), **room(300)))
    assert plan.levels.tolist() == [Level.PLACEHOLDER, Level.BRIEF, Level.DETAILED]
    plan = mosaic(sharpness=1.0, recency=0.0).plan(plan_input(pool((0.1, 0.2, 0.9)), **room(1_300)))
    assert plan.levels.tolist() == [Level.BRIEF, Level.BRIEF, Level.FULL]


def test_a_chunk_that_is_covered_by_its_double_gives_way() -> None:
    """Two chunks say the same, a third is worth less but says something else; there is room for two."""
    base = pool((0.60, 0.60, 0.55), full=400, detailed=400, brief=400)
    keys = np.array([[1, 0], [1, 0], [0, 1]], dtype=np.float32)
    given_ = plan_input(replace(base, keys=keys), **room(890))
    options = {"tau": 3.0, "recency": 0.0}
    assert mosaic(**options, damping=0.9).plan(given_).levels[2] == Level.FULL
    assert mosaic(**options, damping=0.0).plan(given_).levels.tolist()[:2] == [Level.FULL, Level.FULL]


def test_lines_that_cost_too_much_are_left_out_longest_runs_first() -> None:
    levels = np.array([0, 0, 0, 2, 0, 2, 0, 0], dtype=np.int8)
    shown = with_lines(levels, pool([0.1] * 8), 60)
    assert shown.tolist() == [0, 0, 0, 2, HIDDEN, 2, HIDDEN, HIDDEN]
    assert with_lines(levels, pool([0.1] * 8), 48 + 40 + 20).tolist() == levels.tolist()
    assert (with_lines(levels, pool([0.1] * 8), 0)[levels == 0] == HIDDEN).all()


def test_shortlist_holds_the_best_the_newest_and_what_is_shown() -> None:
    values = np.random.default_rng(1).random(1000)
    shown = np.zeros(900, dtype=np.int8)
    shown[[3, 500]] = Level.DETAILED
    rows = shortlist(values, shown, 64)
    assert len(rows) == 64 and (np.diff(rows) > 0).all()
    assert {3, 500, 999, 992, int(values.argmax())} <= set(rows.tolist())
    assert shortlist(values[:50], None, 64).tolist() == list(range(50))


@pytest.mark.parametrize("layout", ["interleaved", "ledger"])
@settings(max_examples=60, deadline=None)
@given(base=pools(), budget=st.integers(0, 20_000), seed=st.integers(0, 99), learned=st.booleans())
def test_within_budget_and_legal(layout: str, base: Pool, budget: int, seed: int, learned: bool) -> None:
    options = {"scorer": "learned", "coefficients": SCORER} if learned else {}
    given_ = replace(
        plan_input(with_keys(base, seed), **room(budget)),
        ledger_base=ledger_base(1300 + budget) if layout == "ledger" else 0,
    )
    plan = mosaic(**options, damping=0.2).plan(given_)
    assert plan.levels.shape == plan.values.shape == (len(base),)
    assert set(plan.levels.tolist()) <= {HIDDEN, 0, 1, 2, 3}
    rows = np.flatnonzero(plan.levels > 0)
    assert base.available[rows, plan.levels[rows]].all()
    if not len(base):
        return
    assert plan.upper_bound is not None and plan.objective is not None
    assert plan.objective <= plan.upper_bound * (1 + 1e-9) + 1e-9
    cost = Interleaved() if layout == "interleaved" else Ledger(given_.ledger_base)
    least = cost.total(np.zeros(len(base), dtype=np.int8), base, 1)[0] if layout == "ledger" else 0
    assert cost.total(plan.levels, base, 1)[0] <= max(budget, least)


@settings(max_examples=60, deadline=None)
@given(base=pools(max_size=6), budget=st.integers(100, 8_000))
def test_near_the_exact_optimum_of_small_pools(base: Pool, budget: int) -> None:
    """Every combination of levels of up to six chunks; covering off."""
    policy = mosaic()
    plan = policy.plan(plan_input(base, **room(budget)))
    if not len(base):
        return
    values, phi = policy.values(base), level_fidelity(base) ** policy.config.sharpness
    phi = np.maximum.accumulate(np.column_stack([np.full(len(base), policy.config.placeholder), phi[:, 1:]]), axis=1)
    costs = base.tokens.copy()
    costs[:, 0] = 0
    limit, rows = budget - int(policy.config.lines * budget), np.arange(len(base))
    best = max(
        float((values * phi[rows, list(levels)]).sum())
        for levels in product(range(4), repeat=len(base))
        if costs[rows, list(levels)].sum() <= limit
    )
    floor = float((values * phi[:, 0]).sum())
    assert plan.objective is not None and plan.upper_bound is not None
    assert plan.objective - floor >= (1 - 1 / np.e) / 2 * (best - floor) - 1e-6
    assert plan.objective <= best + 1e-6 and plan.upper_bound >= best - 1e-6


@settings(max_examples=40, deadline=None)
@given(base=pools(max_size=40), budget=st.integers(200, 6_000), row=st.integers(0, 39), more=st.floats(1.01, 3))
def test_a_chunk_that_is_worth_more_is_not_shown_coarser(base: Pool, budget: int, row: int, more: float) -> None:
    """With covering off and everything else equal."""
    if row >= len(base):
        return

    class Fixed(Mosaic):
        scores = np.linspace(0.5, 1.5, len(base))

        def values(self, pool: Pool, own: int = 0) -> Any:
            return self.scores

    policy = Fixed(MosaicConfig(damping=0.0))
    before = policy.plan(plan_input(base, **room(budget))).levels[row]
    policy.scores = policy.scores.copy()
    policy.scores[row] *= more
    assert policy.plan(plan_input(base, **room(budget))).levels[row] >= before


@pytest.mark.parametrize("layout", ["interleaved", "ledger"])
def test_what_is_decided_fits_and_hardly_needs_cutting(layout: str) -> None:
    base = with_keys(pool(np.random.default_rng(2).normal(0.3, 0.1, 300).tolist()))
    config = MemoryConfig.model_validate({"layout": layout})
    for budget in (1_600, 3_000, 8_000, 40_000):
        given_ = plan_input(base, budget=budget, recent=FlatRecent().tokens(None))
        decision = decide(mosaic(damping=0.1), config, given_, FlatRecent())
        assert isinstance(decision, Decision) and decision.fitted.tokens <= budget
        shown = decision.plan.levels > 0
        kept = decision.fitted.levels[shown] >= decision.plan.levels[shown]
        assert budget < 3_000 or kept.mean() > 0.8


def test_a_new_question_does_not_wait_for_the_next_batch() -> None:
    """Ledger layout, step 11 of batches of eight: what was in focus stays, unless something else was just asked."""
    base = pool([0.1] * 8 + [0.9])
    shown = np.zeros(9, dtype=np.int8)
    shown[:4] = Level.FULL
    config = MemoryConfig.model_validate({"layout": "ledger", "batch": 8})
    for task_from, kept in ((1, True), (11, False)):
        given_ = replace(plan_input(base, step=11, **room(4_800)), shown=shown, task_from=task_from)
        decision = decide(mosaic(recency=0.0), config, given_, FlatRecent((300, 460)))
        assert isinstance(decision, Decision)
        assert (decision.fitted.levels[:4] == Level.FULL).all() == kept
        assert (decision.fitted.levels[8] == Level.FULL) != kept


def test_nothing_is_planned_beside_a_window_that_is_too_large() -> None:
    plan = mosaic().plan(plan_input(pool((0.2, 0.5)), budget=900))
    assert plan.levels.tolist() == [HIDDEN, HIDDEN]


def test_bad_vectors_and_missing_extras_are_survived() -> None:
    base = pool((float("nan"), 0.3, 0.2))
    keys = np.full((3, 4), np.nan, dtype=np.float32)
    plan = mosaic(damping=0.3).plan(plan_input(replace(base, keys=keys)))
    assert plan.levels.tolist() == [Level.FULL] * 3


def facts(number: int, url: str = "", title: str = "") -> ChunkFacts:
    return ChunkFacts(number, "act", ("visit",), f"visit {url}", 1000, 20, "", url, title)


def test_relations_lift_neighbours_and_chunks_of_the_same_source() -> None:
    """c5 is what was asked for; c4 and c6 stand beside it, c1 came from the same page."""
    base = pool([0.2, 0.2, 0.2, 0.2, 0.95, 0.2, 0.2])
    policy = mosaic(recency=0.0, relations=0.6)
    for number, url in enumerate(["http://a/#x", "http://b/", "", "", "http://a/", "", ""], start=1):
        policy.ingest(facts(number, url))
    values = policy.values(base)
    assert values / values[4] == pytest.approx([0.6, 0, 0, 0.3, 1, 0.3, 0], abs=0.01)
    unrelated = mosaic(recency=0.0).values(base)
    assert unrelated / unrelated[4] == pytest.approx([0, 0, 0, 0, 1, 0, 0], abs=0.01)


def test_relations_leave_the_running_task_alone() -> None:
    base = pool([0.3, 0.31] * 10)
    plain, related = (mosaic(scorer="learned", coefficients=SCORER, relations=r) for r in (0.0, 1.0))
    own = np.argsort(plain.values(base, own=5)[5:])
    assert np.argsort(related.values(base, own=5)[5:]).tolist() == own.tolist()


def test_uncertainty_makes_a_level_that_loses_much_worth_less() -> None:
    base = pool((0.3, 0.3, 0.3))
    given_ = plan_input(base, **room(500))
    sure = mosaic(sharpness=1.0, recency=0.0).plan(given_)
    unsure = mosaic(sharpness=1.0, recency=0.0, uncertainty=1.0).plan(given_)
    assert sure.levels.tolist() == [Level.BRIEF, Level.DETAILED, Level.DETAILED]
    assert unsure.objective is not None and sure.objective is not None and unsure.objective < sure.objective


def test_auto_glimpse_restores_the_one_chunk_that_loses_most() -> None:
    """1,000 tokens: DETAILED of all three is the better plan; the first chunk loses 0.15 of all value by it."""
    given_ = plan_input(pool((0.9, 0.2, 0.1)), **room(1_120))
    options = {"sharpness": 1.0, "recency": 0.0, "tau": 2.0}
    assert mosaic(**options).plan(given_).levels.max() == Level.DETAILED
    plan = mosaic(**options, auto_glimpse=0.1).plan(given_)
    assert plan.levels[0] == Level.FULL and list(plan.reasons) == [1]
    assert mosaic(**options, auto_glimpse=0.9).plan(given_).reasons == {}
    small = plan_input(pool((0.9, 0.2, 0.1)), **room(900))
    assert mosaic(**options, auto_glimpse=0.1).plan(small).reasons == {}


def test_steps_of_a_finished_subgoal_lose_value() -> None:
    """Six steps about one thing, then six about another."""
    base = pool([0.3] * 12)
    keys = np.repeat(np.eye(2, dtype=np.float32), 6, axis=0)
    values = mosaic(recency=0.0, boundary=0.75).values(replace(base, keys=keys))
    assert values[:6] == pytest.approx(np.full(6, 0.25)) and values[6:] == pytest.approx(np.ones(6))


def test_large_pools_are_planned_over_a_shortlist() -> None:
    rng = np.random.default_rng(4)
    base = with_keys(pool(rng.normal(0.3, 0.1, 5_000).tolist()))
    options = {"scorer": "learned", "coefficients": SCORER, "damping": 0.1}
    small: PlanInput = plan_input(base, **room(4_000))
    plan = mosaic(**options).plan(small)
    assert 0 < (plan.levels > 0).sum() < 200
    large = mosaic(**options).plan(plan_input(base, **room(200_000)))
    assert (large.levels > 0).sum() > (plan.levels > 0).sum()


@pytest.mark.parametrize(
    "options", [{"scorer": "learned"}, {"damping": 1.5}, {"tau": 0}, {"shortlist": 1}, {"taus": 1}, {"sharpness": 0}]
)
def test_bad_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        make_policy("mosaic", options)

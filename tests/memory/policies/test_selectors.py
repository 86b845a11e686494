"""The selectors by hand: who is chosen, what is paid, what must be kept; and clearing of old tool results."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from memory.config import MemoryConfig
from memory.decide import Decision, decide
from memory.errors import BudgetTooSmall, MustKeepTooLarge
from memory.plan import HIDDEN, ContextPlan, NeedsSummary, PlanInput, Pool
from memory.policies.registry import POLICIES, make_policy
from memory.policies.selector import SHORTLIST
from memory.records import Level
from tests.memory.pools import FlatRecent, given, pool

SELECTORS = ("last-k", "top-k", "rag", "mmr", "pacms")
AROUND = 1_300
"""What `given` counts beside the old chunks."""


def keyed(cosines: list[float], groups: list[int] | None = None, **costs: int) -> Pool:
    """Chunks whose keys are alike exactly within a group; the cosines to the query are given apart."""
    keys = np.eye(len(cosines), dtype=np.float32)[groups or list(range(len(cosines)))]
    return replace(pool(cosines, **costs), keys=keys)


def plan(name: str, asked: PlanInput, **options: Any) -> ContextPlan:
    made = make_policy(name, options).plan(asked)
    assert isinstance(made, ContextPlan)
    return made


def chosen(name: str, asked: Pool, room: int, **options: Any) -> list[int]:
    """Rows shown in full when ``room`` tokens are left for old chunks; the rest is hidden."""
    levels = plan(name, given(asked, budget=AROUND + room), **options).levels
    assert set(levels.tolist()) <= {HIDDEN, Level.FULL}
    return np.flatnonzero(levels == Level.FULL).tolist()


COSINES = [0.5, 0.9, -0.2, 0.4, 0.1]


@pytest.mark.parametrize(
    ("name", "options", "room", "expected"),
    [
        ("last-k", {}, 2_000, [3, 4]),
        ("last-k", {}, 999, []),
        ("top-k", {}, 2_999, [0, 1]),
        ("top-k", {}, 100_000, [0, 1, 2, 3, 4]),
        ("rag", {"k": 3}, 100_000, [0, 1, 3]),
        ("rag", {"k": 3}, 2_000, [0, 1]),
        ("rag", {"k": 0}, 2_000, []),
        ("mmr", {"mult": 1.0}, 2_000, [0, 1]),
        ("pacms", {}, 2_000, [0, 1]),
        ("pacms", {}, 100_000, [0, 1, 3, 4]),
    ],
)
def test_who_is_chosen(name: str, options: dict[str, Any], room: int, expected: list[int]) -> None:
    """1,000 tokens a chunk. pacms leaves out what is of no relevance, whatever room there is."""
    assert chosen(name, keyed(COSINES), room, **options) == expected


def test_redundancy_counts_only_where_the_rule_says_so() -> None:
    """Three copies of the best and one other: relevance takes copies, mmr and pacms one of them and the other."""
    asked = keyed([0.9, 0.9, 0.9, 0.6], groups=[0, 0, 0, 3])
    assert chosen("top-k", asked, 2_000) == [1, 2]
    assert chosen("mmr", asked, 2_000) == [2, 3]
    assert chosen("pacms", asked, 2_000) == [2, 3]


def test_pacms_carries_its_value_and_a_bound() -> None:
    """F = 0.9 + 0.6 with both groups covered; no set within the budget has more."""
    made = plan("pacms", given(keyed([0.9, 0.9, 0.6], groups=[0, 0, 2]), budget=AROUND + 2_000))
    assert made.objective == pytest.approx(0.9 + 0.9 + 0.6)
    assert made.objective is not None and made.upper_bound is not None
    assert made.upper_bound >= made.objective - 1e-9


def test_the_fill_ends_where_a_chunk_does_not_fit_and_mmr_goes_on() -> None:
    asked = keyed([0.1, 0.9, 0.5])
    asked.tokens[1, Level.FULL] = 5_000
    assert chosen("top-k", asked, 2_000) == []
    assert chosen("mmr", asked, 2_000, mult=1.0) == [0, 2]
    assert chosen("pacms", asked, 2_000) == [0, 2]


@pytest.mark.parametrize("name", SELECTORS)
@pytest.mark.parametrize("cosines", [[0.0] * 4, [-0.5, -0.1, -0.9, -0.3]])
def test_recency_decides_without_a_positive_cosine(name: str, cosines: list[float]) -> None:
    assert chosen(name, keyed(cosines), 2_000) == [2, 3]


@pytest.mark.parametrize("name", SELECTORS)
def test_of_equals_the_newer(name: str) -> None:
    assert chosen(name, keyed([0.5] * 4), 2_000, **({"k": 2} if name == "rag" else {})) == [2, 3]


@pytest.mark.parametrize("name", SELECTORS)
def test_a_vector_that_is_not_a_number_is_no_key(name: str) -> None:
    """A cosine of NaN counts as 0, a key with NaN as none: as if the chunk had never been embedded."""
    asked = keyed([0.5, 0.8, 0.0, 0.3])
    assert asked.keys is not None
    asked.keys[2] = 0
    broken = replace(asked, cosines=asked.cosines.copy(), keys=asked.keys.copy())
    broken.cosines[2] = np.nan
    broken.keys[2, 1] = np.nan  # type: ignore[index]
    for room in (1_000, 2_000, 9_000):
        assert chosen(name, broken, room) == chosen(name, asked, room)


@pytest.mark.parametrize("name", SELECTORS)
def test_no_old_chunk_and_no_room(name: str) -> None:
    assert chosen(name, keyed([]), 2_000) == []
    assert chosen(name, keyed([0.5]), -900) == []


@pytest.mark.parametrize("name", SELECTORS)
def test_must_keep_is_chosen_first_and_paid(name: str) -> None:
    """c3 has the worst cosine, and is neither newest; one more chunk fits beside it."""
    asked = keyed(COSINES)
    made = plan(name, given(asked, budget=AROUND + 2_000), must_keep=["c3", "c99"])
    assert made.levels[2] == Level.FULL and (made.levels == Level.FULL).sum() == 2
    assert made.kept is not None and made.kept.tolist() == [False, False, True, False, False]
    assert made.reasons == {3: "must-keep"}


@pytest.mark.parametrize("layout", ["interleaved", "ledger"])
@pytest.mark.parametrize("name", SELECTORS)
def test_must_keep_over_the_budget_is_named(name: str, layout: str) -> None:
    """The recent window gives way first; what then still does not fit is an error with the budget that would do."""
    config = MemoryConfig.model_validate({"layout": layout})
    policy, recent = make_policy(name, {"must_keep": ["c1", "c2"]}), FlatRecent((300, 500))
    asked = given(keyed(COSINES), budget=2_000, recent=recent.tokens(None))
    with pytest.raises(MustKeepTooLarge, match=r"\(2 items\) needs [\d]+ tokens, and the budget is 2000") as caught:
        decide(policy, config, asked, recent)
    assert isinstance(caught.value, BudgetTooSmall)
    enough = replace(asked, budget=caught.value.minimum)
    decision = decide(policy, config, enough, recent)
    assert isinstance(decision, Decision)
    assert decision.fitted.levels[:2].tolist() == [3, 3] and decision.fitted.recent_cap == 48


@pytest.mark.parametrize("share", [0.01, 0.2])
@pytest.mark.parametrize("name", SELECTORS)
def test_the_rest_as_lines_is_paid_for(name: str, share: float) -> None:
    """Whether the lines are few enough to stay or fold, no chosen chunk has to be cut for them."""
    rng = np.random.default_rng(5)
    asked = keyed(rng.uniform(0.1, 1, 60).tolist(), full=400, detailed=100, brief=30, line=int(10_000 * share / 60) + 1)
    recent = FlatRecent()
    policy = make_policy(name, {"rest": "placeholder"})
    decision = decide(policy, MemoryConfig(), given(asked, budget=10_000, recent=recent.tokens(None)), recent)
    assert isinstance(decision, Decision)
    assert (decision.fitted.levels == decision.plan.levels).all() and decision.fitted.tokens <= 10_000
    assert set(decision.plan.levels.tolist()) == {Level.PLACEHOLDER, Level.FULL}


@pytest.mark.parametrize("name", SELECTORS)
def test_what_is_left_buys_nothing_that_was_not_chosen(name: str) -> None:
    recent = FlatRecent()
    asked = given(keyed(COSINES), budget=AROUND + 3_500, recent=recent.tokens(None))
    with_spend, without = (decide(make_policy(name), MemoryConfig(spend=on), asked, recent) for on in (True, False))
    assert isinstance(with_spend, Decision) and isinstance(without, Decision)
    assert (with_spend.fitted.levels == without.fitted.levels).all()


@pytest.mark.parametrize("name", ["mmr", "pacms"])
def test_a_large_pool_competes_by_a_shortlist(name: str) -> None:
    """The most relevant 2,000 and what must be kept; the oldest chunk is of use only as must-keep."""
    count = SHORTLIST + 500
    rng = np.random.default_rng(3)
    keys = rng.normal(size=(count, 8))
    keys /= np.linalg.norm(keys, axis=1, keepdims=True)
    cosines = rng.uniform(0.2, 1.0, count)
    cosines[0] = 0.01
    asked = replace(pool(cosines.tolist()), keys=keys.astype(np.float32))
    rows = chosen(name, asked, 5_000, must_keep=["c1"])
    assert rows[0] == 0 and len(rows) == 5
    assert (cosines[rows[1:]] >= np.sort(cosines)[500]).all()


def test_without_keys_the_caller_is_told() -> None:
    with pytest.raises(ValueError, match="keys"):
        plan("pacms", given(pool([0.5, 0.4])))


@pytest.mark.parametrize(
    ("k", "kinds", "recent", "expected"),
    [
        (3, ["act"] * 5, (), [0, 0, 3, 3, 3]),
        (3, ["act"] * 5, (("visit",), ("search", "search")), [0, 0, 0, 0, 3]),
        (3, ["act", "note", "act", "answer", "act"], (("visit",), ()), [0, 3, 3, 3, 3]),
        (0, ["act", "note"], (), [0, 3]),
        (5, [], (), []),
        (1, None, (), [0, 0, 3]),
    ],
)
def test_keep_last_k(k: int, kinds: list[str] | None, recent: tuple[tuple[str, ...], ...], expected: list[int]) -> None:
    asked = replace(pool([0.5] * len(expected)), kinds=None if kinds is None else tuple(kinds))
    made = plan("keep-last-k", replace(given(asked), recent=recent), k=k)
    assert made.levels.tolist() == expected and made.ceiling is Level.PLACEHOLDER


@pytest.mark.parametrize("name", [*SELECTORS, "keep-last-k"])
def test_compaction_is_the_host_s(name: str) -> None:
    policy = make_policy(name)
    assert not policy.owns_compaction
    asked = policy.compact(given(keyed(COSINES)))
    assert asked == NeedsSummary(1, 5, delegated=True)
    assert policy.compact(given(keyed([]))) is None


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("top-k", {"rest": "brief"}),
        ("last-k", {"must_keep": ["3"]}),
        ("last-k", {"must_keep": ["c0"]}),
        ("rag", {"k": -1}),
        ("mmr", {"mult": 1.5}),
        ("mmr", {"mult": float("nan")}),
        ("pacms", {"k": 3}),
        ("keep-last-k", {"k": -1}),
        ("keep-last-k", {"must_keep": []}),
    ],
)
def test_bad_options_are_refused(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        make_policy(name, options)


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_an_unknown_option_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        make_policy(name, {"levle": 3})

"""The policy as published: levels by hand, missing summaries, ablations by config alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from memory.plan import Pool
from memory.policies.pace import Pace, PaceConfig
from memory.policies.registry import UnknownPolicy, make_policy
from memory.records import Level
from tests.memory.pools import given, pool

# at tau 0.3 these five give W = 1.92, 1.16, 0.90, 0.57, 0.45 (computed by hand from exp(s / 0.3))
COSINES = (0.60, 0.45, 0.375, 0.24, 0.165)


def pace(**options: Any) -> Pace:
    return Pace(PaceConfig.model_validate(options))


def test_weights_and_levels_by_hand() -> None:
    plan = pace().plan(given(pool(COSINES), step=2, budget=100_000))
    shares = np.exp(np.array(COSINES) / 0.3)
    assert plan.values == pytest.approx(5 * shares / shares.sum())
    assert plan.pressure == pytest.approx(0.01)
    assert plan.thresholds == pytest.approx((0.402, 0.804, 1.5075))
    assert plan.levels.tolist() == [Level.FULL, Level.DETAILED, Level.DETAILED, Level.BRIEF, Level.BRIEF]


def test_pressure_raises_the_bar() -> None:
    """At P = 1 the thresholds are 0.6, 1.2, 2.25: W = 1.92, 1.16, 0.90, 0.57, 0.45."""
    plan = pace().plan(given(pool(COSINES), step=200))
    assert plan.levels.tolist() == [Level.DETAILED, Level.BRIEF, Level.BRIEF, Level.PLACEHOLDER, Level.PLACEHOLDER]


def test_no_old_chunk_and_one() -> None:
    assert pace().plan(given(pool(()))).levels.shape == (0,)
    assert pace().plan(given(pool((0.9,)), step=1)).levels.tolist() == [Level.DETAILED]
    assert pace().plan(given(pool((0.9,)), step=150)).levels.tolist() == [Level.BRIEF]


def test_missing_summary_is_full_when_the_budget_allows_it() -> None:
    base = pool(COSINES)
    available = base.available.copy()
    available[1:, 1:3] = False
    tokens = base.tokens.copy()
    tokens[1:, 1:3] = 1000
    bare = Pool(base.ids, tokens, available, base.cosines)
    roomy = pace().plan(given(bare, step=2, budget=100_000))
    assert roomy.levels.tolist() == [3, 3, 3, 3, 3]
    # 500 + 800 around, chunk 1 full 1000, four lines 80: 2,380; two more fulls fit in 4,400 (980 each), by weight
    tight = pace().plan(given(bare, step=2, budget=4_400))
    assert tight.levels.tolist() == [3, 3, 3, 0, 0]
    none = pace().plan(given(bare, step=2, budget=2_000))
    assert none.levels.tolist() == [3, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"levels": ["full", "placeholder"]}, [3, 0, 0, 0, 0]),
        ({"levels": ["full", "brief", "placeholder"]}, [3, 1, 1, 1, 1]),
        ({"pressure": False}, [3, 2, 2, 1, 1]),
        ({"tau": 1.0}, [2, 2, 2, 2, 2]),
        ({"lambda": 1.0}, [2, 1, 1, 0, 0]),
        ({"t_max": 100_000}, [3, 2, 2, 1, 1]),
    ],
)
def test_ablations_are_config_only(options: dict[str, Any], expected: list[int]) -> None:
    """Step 200 of T_max 200 (P = 1); tau 1.0 gives W = 1.24, 1.07, 0.99, 0.87, 0.80 (at P = 0 all above 0.8)."""
    step = 1 if "tau" in options or "levels" in options else 200
    plan = pace(**options).plan(given(pool(COSINES), step=step))
    assert plan.levels.tolist() == expected


def test_spend_never_leaves_the_levels_in_use() -> None:
    plan = pace(levels=["brief", "placeholder"]).plan(given(pool(COSINES), step=1))
    assert plan.ceiling is Level.BRIEF and plan.levels.max() == Level.BRIEF


@pytest.mark.parametrize(
    "options", [{"tau": 0}, {"t_max": 0}, {"levels": ["full"]}, {"lambda": -1}, {"tua": 0.3}, {"thresholds": [3, 2, 1]}]
)
def test_bad_constants_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        pace(**options)


def test_registry_names_what_there_is() -> None:
    assert make_policy("pace", {"tau": 0.1}).name == "pace"
    with pytest.raises(UnknownPolicy, match="did you mean 'pace'"):
        make_policy("pase")


def test_react_keeps_everything() -> None:
    plan = make_policy("react").plan(given(pool(COSINES)))
    assert set(plan.levels.tolist()) == {3} and (np.diff(plan.values) > 0).all()

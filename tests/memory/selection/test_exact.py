"""Both forms on small pools, against brute force and greedy without laziness."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from memory.plan import IntArray
from memory.selection.facility import Selection, select
from memory.selection.levels import LevelSelection, select_levels
from memory.selection.similarity import Keys
from tests.memory.selection.instances import Instance, chunks, items

GUARANTEE = (1 - 1 / np.e) / 2
CLOSE = 1e-5


def run_items(case: Instance) -> tuple[IntArray, Selection]:
    found = select(
        case.values, case.cosines, case.costs[:, 1], case.budget, np.flatnonzero(case.floor).tolist(), using="numpy"
    )
    levels = np.zeros(len(case.values), dtype=np.int64)
    levels[found.chosen] = 1
    return levels, found


def run_chunks(case: Instance) -> tuple[IntArray, LevelSelection]:
    found = select_levels(
        case.values,
        case.fidelity,
        case.costs,
        case.cosines,
        case.budget,
        damping=case.damping,
        floor=case.floor,
        using="numpy",
    )
    assert found.levels.dtype == np.int8
    assert found.base_objective == pytest.approx(case.objective(case.floor), rel=CLOSE)
    return found.levels.astype(np.int64), found


FORMS = pytest.mark.parametrize(
    ("make", "run", "most"), [(items, run_items, 25), (chunks, run_chunks, 10)], ids=["items", "levels"]
)
Make = Callable[[np.random.Generator, int], Instance]
Run = Callable[[Instance], tuple[IntArray, Selection | LevelSelection]]


@FORMS
def test_lazy_equals_plain_greedy(make: Make, run: Run, most: int) -> None:
    for seed in range(1_000):
        case = make(np.random.default_rng(seed), most)
        levels, found = run(case)
        passes = [case.plain(by_cost=True), case.single()]
        if run is run_items:
            passes.append(case.plain(by_cost=False))
        assert any((levels == expected).all() for expected in passes), seed
        assert case.objective(levels) >= max(map(case.objective, passes)) * (1 - 1e-7), seed
        assert found.objective == pytest.approx(case.objective(levels), rel=CLOSE)


@pytest.mark.parametrize("run", [run_items, run_chunks], ids=["items", "levels"])
def test_near_the_optimum_and_under_the_bound(run: Run) -> None:
    shares = []
    for seed in range(240):
        rng = np.random.default_rng(10_000 + seed)
        small = chunks(rng, 6, 4) if seed % 2 else chunks(rng, 12, 2)
        case = items(rng, 12) if run is run_items else small
        levels, found = run(case)
        best, base = case.best(), case.objective(case.floor)
        assert case.cost(levels) == found.cost <= case.budget
        assert (levels >= case.floor).all()
        assert found.upper_bound >= best * (1 - CLOSE)
        assert found.upper_bound >= found.objective * (1 - CLOSE)
        if best - base > 1e-9:
            shares.append((case.objective(levels) - base) / (best - base))
            assert shares[-1] >= GUARANTEE - CLOSE
    assert np.mean(shares) >= 0.98


@FORMS
def test_from_the_floor_to_all_of_the_pool(make: Make, run: Run, most: int) -> None:
    for seed in range(50):
        case = make(np.random.default_rng(seed), most)
        least = case.cost(case.floor)
        whole = int(case.costs[:, -1].sum())
        results = [
            run(Instance(**{**case.__dict__, "budget": budget}))[1]
            for budget in np.linspace(least, whole, 8).astype(int).tolist()
        ]
        assert all(found.cost <= whole for found in results)
        assert all(found.objective <= results[-1].objective * (1 + CLOSE) for found in results)
        full = case.objective(np.full(len(case.values), case.fidelity.shape[1] - 1))
        assert results[-1].objective == pytest.approx(full, rel=CLOSE)


def test_what_is_covered_already_is_not_taken() -> None:
    keys = np.eye(4, dtype=np.float32)[[0, 0, 1, 2]]
    found = select([1.0, 1.0, 1.0, 0.0], Keys(keys), [10, 10, 10, 10], 100)
    assert found.chosen.tolist() == [1, 2], "of two equals the newer one; nothing for an item without relevance"
    assert found.cost == 20


def test_without_items_or_budget_nothing_is_taken() -> None:
    empty = select([], np.zeros((0, 0), dtype=np.float32), np.zeros(0, dtype=np.int64), 10)
    assert empty.chosen.tolist() == [] and empty.objective == empty.upper_bound == empty.cost == 0
    none = select([1.0, 1.0], np.eye(2, dtype=np.float32), [1, 1], 0)
    assert none.chosen.tolist() == [] and none.upper_bound == 0
    alone = select_levels([], np.zeros((0, 4)), np.zeros((0, 4), dtype=np.int64), np.zeros((0, 0), np.float32), 0)
    assert alone.levels.tolist() == []


def test_one_large_item_beats_many_small_ones() -> None:
    """Gain per token alone would fill the budget with the small one and miss nearly everything."""
    found = select([1.0, 100.0], np.eye(2, dtype=np.float32), [1, 1_000], 1_000)
    assert found.chosen.tolist() == [1]


def test_levels_at_one_price_give_the_finest() -> None:
    fidelity = [[0.1, 0.4, 0.7, 1.0]] * 2
    found = select_levels([1.0, 1.0], fidelity, [[10, 50, 50, 50], [10, 20, 30, 300]], np.eye(2, dtype=np.float32), 80)
    assert found.levels.tolist() == [3, 2]
    assert found.cost == 80


def test_fidelity_is_made_to_rise() -> None:
    fidelity = [[0.1, 0.6, 0.5, 1.0]]
    found = select_levels([1.0], fidelity, [[1, 2, 3, 50]], np.eye(1, dtype=np.float32), 10)
    assert found.levels.tolist() == [1]
    assert found.objective == pytest.approx(0.6)


def test_the_unit_of_value_does_not_matter() -> None:
    case = items(np.random.default_rng(5), 25)
    small, large = (
        select(case.values * unit, case.cosines, case.costs[:, 1], case.budget, using="numpy") for unit in (1e-30, 1e30)
    )
    assert small.chosen.tolist() == large.chosen.tolist()
    assert large.objective == pytest.approx(small.objective * 1e60, rel=CLOSE)

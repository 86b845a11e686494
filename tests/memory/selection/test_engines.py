"""The compiled engine takes what numpy takes. Without numba only that it is not needed."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from memory.selection import nearest, staged
from memory.selection.facility import Selection, select, warm_up
from memory.selection.graph import neighbours
from memory.selection.levels import LevelSelection, select_levels
from memory.selection.pool import Pool
from memory.selection.similarity import Cosines, Keys, Neighbours
from memory.selection.solve import engine
from tests.memory.selection.instances import chunks, clustered, items

CLOSE = 1e-5


@pytest.fixture
def numba() -> Any:
    return pytest.importorskip("numba", reason="numba is not installed: the compiled engine was NOT tested")


def same(one: Selection | LevelSelection, other: Selection | LevelSelection) -> None:
    assert one.cost == other.cost
    assert one.method == other.method and one.bound_over == other.bound_over
    assert one.objective == pytest.approx(other.objective, rel=CLOSE)
    assert one.upper_bound == pytest.approx(other.upper_bound, rel=CLOSE)


@pytest.mark.usefixtures("numba")
def test_small_pools() -> None:
    for seed in range(400):
        case = items(np.random.default_rng(seed), 40)
        keep = np.flatnonzero(case.floor).tolist()
        both = [
            select(case.values, case.cosines, case.costs[:, 1], case.budget, keep, using=name)
            for name in ("numpy", "numba")
        ]
        assert both[0].chosen.tolist() == both[1].chosen.tolist(), seed
        same(*both)
        levels = chunks(np.random.default_rng(seed), 20)
        found = [
            select_levels(
                levels.values, levels.fidelity, levels.costs, levels.cosines, levels.budget,
                damping=levels.damping, floor=levels.floor, using=name,
            )
            for name in ("numpy", "numba")
        ]  # fmt: skip
        assert found[0].levels.tolist() == found[1].levels.tolist(), seed
        same(*found)


@pytest.mark.usefixtures("numba")
@pytest.mark.parametrize("method", ["dense", "sparse", "two-stage"])
def test_larger_pools(method: Any) -> None:
    keys, relevance, costs = clustered(1, 600, shared=0.9)
    graph = neighbours(Keys(keys), 16)
    for budget in (5_000, 300_000):
        one, other = (
            select(relevance, graph, costs, budget, [7], method=method, using=name) for name in ("numpy", "numba")
        )
        assert one.chosen.tolist() == other.chosen.tolist()
        same(one, other)
        prices = np.stack([costs // 50, costs // 10, costs], axis=1)
        fidelity = np.tile([0.1, 0.5, 1.0], (600, 1))
        above = int(prices[:, 0].sum()) + budget
        first, second = (
            select_levels(relevance, fidelity, prices, graph, above, method=method, using=name)
            for name in ("numpy", "numba")
        )
        assert first.levels.tolist() == second.levels.tolist()
        same(first, second)


@pytest.mark.usefixtures("numba")
def test_what_the_lists_tell() -> None:
    """Rows of any length, none at all, and an item in its own list."""
    rng = np.random.default_rng(5)
    keys, relevance, _ = clustered(5, 60, dim=8)
    listed = [rng.permutation(60)[: rng.integers(0, 9)] for _ in range(60)]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in listed])])
    items_ = np.concatenate(listed)
    cosines = np.clip((keys @ keys.T)[np.repeat(np.arange(60), np.diff(indptr)), items_], 0, 1)
    graph = Neighbours.from_csr(indptr, items_, cosines, Keys(keys))
    assert (np.repeat(np.arange(60), np.diff(indptr)) == items_).any()
    pool = Pool(relevance, np.tile([0.1, 0.5, 1.0], (60, 1)), np.tile([1, 2, 3], (60, 1)), 0.3, graph)
    numpy, compiled = engine("numpy"), engine("numba")
    problem, other = pool.problem(graph, numpy), pool.problem(graph, compiled)
    assert problem.rows.indices.tolist() == other.rows.indices.tolist()
    assert problem.rows.weights == pytest.approx(other.rows.weights, rel=1e-6)
    levels = rng.integers(0, 3, 60)
    cover = nearest.reached(problem, graph, levels)
    assert cover == pytest.approx(compiled.reached(problem, graph, levels), rel=1e-6)
    gains = nearest.offered(problem, graph, cover)
    assert gains == pytest.approx(compiled.offered(problem, graph, cover), rel=1e-5, abs=1e-7)
    assert gains.any()


@pytest.mark.usefixtures("numba")
def test_equal_items_are_settled_alike() -> None:
    """Copies of one page at one price: exact ties everywhere."""
    keys, relevance, costs = clustered(2, 40)
    copies = np.tile(np.arange(40), 5)
    matrix = Cosines(np.ascontiguousarray((keys @ keys.T)[np.ix_(copies, copies)]))
    chosen = [
        select(relevance[copies], matrix, costs[copies], 20_000, using=name).chosen.tolist()
        for name in ("numpy", "numba")
    ]
    assert chosen[0] == chosen[1]
    assert min(chosen[0]) >= 160, "the newest of five copies"


@pytest.mark.usefixtures("numba")
def test_kernels_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the memory layout of what comes in: no call may wait for the compiler again."""
    from memory.selection import kernels

    keys, relevance, costs = clustered(3, 300)
    cosines = (keys @ keys.T).astype(np.float32)
    graph = neighbours(Keys(keys), 100)
    prices = np.stack([costs // 50, costs], axis=1)
    fidelity = np.tile([0.1, 1.0], (300, 1))

    def everything(change: Any) -> None:
        select(change(relevance), change(cosines), change(costs), 9_000, using="numba")
        found = select(change(relevance), graph, change(costs), 30_000, method="two-stage", using="numba")
        assert found.bound_over == "pool"
        select_levels(
            change(relevance), change(fidelity), change(prices), graph, 90_000, method="sparse", using="numba"
        )

    entries: list[Any] = [
        kernels.greedy, kernels.gains, kernels.first_gains, kernels.cover,
        kernels.pack, kernels.reached, kernels.offered,
    ]  # fmt: skip
    monkeypatch.setattr(staged, "_FEW_CELLS", 2_000)
    warm_up()
    compiled = [len(kernel.signatures) for kernel in entries]
    everything(lambda array: array)
    everything(np.asfortranarray)
    everything(lambda array: np.repeat(array, 2, axis=-1)[..., ::2])
    everything(lambda array: array.astype(np.int32 if array.dtype == np.int64 else np.float32))
    assert [len(kernel.signatures) for kernel in entries] == compiled
    assert compiled == [2, 2, 2, 2, 1, 1, 1], "dense rows and sparse rows"


def test_nothing_is_imported_before_it_is_needed() -> None:
    code = "import sys; import memory.selection.facility, memory.selection.levels; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_numba_numpy_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "memory.selection.compiled", None)  # as if it could not be imported
    engine.cache_clear()
    try:
        assert select([1.0], np.eye(1, dtype=np.float32), [1], 1).chosen.tolist() == [0]
        with pytest.raises(ImportError):
            select([1.0], np.eye(1, dtype=np.float32), [1], 1, using="numba")
    finally:
        engine.cache_clear()

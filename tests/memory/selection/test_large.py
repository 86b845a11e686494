"""Pools past the dense limit: what graph and shortlist reach of the exact answer."""

from __future__ import annotations

import numpy as np
import pytest

from memory.plan import FloatArray, IntArray
from memory.selection import staged
from memory.selection.facility import select
from memory.selection.graph import neighbours
from memory.selection.levels import select_levels
from memory.selection.pool import Method
from memory.selection.similarity import Cosines, Float32Array, Keys, Neighbours
from memory.selection.solve import EngineName
from tests.memory.selection.instances import clustered

COUNT = 3_000
SHORT, LONG = 8_000, 0.45
METHODS: tuple[Method, ...] = ("sparse", "two-stage")


@pytest.fixture(scope="module", params=[0.0, 0.9], ids=["isotropic", "shared direction"])
def pool(request: pytest.FixtureRequest) -> tuple[Float32Array, FloatArray, IntArray, Neighbours, Cosines]:
    keys, relevance, costs = clustered(4, COUNT, shared=request.param)
    return keys, relevance, costs, neighbours(Keys(keys)), Cosines(keys @ keys.T)


Large = tuple[Float32Array, FloatArray, IntArray, Neighbours, Cosines]


def covered(relevance: FloatArray, cosines: Cosines, chosen: IntArray) -> float:
    return float(relevance @ np.maximum(cosines.matrix[:, chosen].astype(np.float64), 0).max(axis=1))


def test_small_budget_takes_two_stages(pool: Large) -> None:
    _, relevance, costs, graph, cosines = pool
    exact = select(relevance, cosines, costs, SHORT)
    found = select(relevance, graph, costs, SHORT)
    assert (found.method, found.bound_over, exact.method) == ("two-stage", "shortlist", "dense")
    assert found.cost <= SHORT
    assert found.objective == pytest.approx(covered(relevance, cosines, found.chosen), rel=1e-5)
    assert found.objective >= 0.9995 * exact.objective


def test_large_budget_needs_the_graph_only(pool: Large) -> None:
    _, relevance, costs, graph, cosines = pool
    budget = int(LONG * costs.sum())
    exact = select(relevance, cosines, costs, budget)
    found = select(relevance, graph, costs, budget)
    assert (found.method, found.bound_over) == ("sparse", "graph")
    assert found.cost <= budget
    assert covered(relevance, cosines, found.chosen) >= 0.9999 * exact.objective


@pytest.mark.parametrize("using", ["numpy", "auto"])
def test_the_graph_decides_alone_where_nothing_else_matters(
    pool: Large, monkeypatch: pytest.MonkeyPatch, using: EngineName
) -> None:
    """As it would with more items: F is that by all cosines still, and its bound holds for any choice."""
    _, relevance, costs, graph, cosines = pool
    monkeypatch.setattr(staged, "_FEW_CELLS", 1 << 17)
    for budget, keep in ((16_000, []), (64_000, [3, 77])):
        exact = select(relevance, cosines, costs, budget, keep)
        found = select(relevance, graph, costs, budget, keep, using=using)
        assert (found.method, found.bound_over) == ("two-stage", "pool")
        assert found.cost <= budget and set(keep) <= set(found.chosen.tolist())
        assert found.objective == pytest.approx(covered(relevance, cosines, found.chosen), rel=1e-6)
        assert found.objective >= 0.9995 * exact.objective
        assert found.upper_bound >= max(found.objective, exact.objective)
        assert found.upper_bound <= 1.1 * exact.upper_bound


def test_a_graph_that_says_too_little_does_not_decide(pool: Large, monkeypatch: pytest.MonkeyPatch) -> None:
    _, relevance, costs, graph, cosines = pool
    monkeypatch.setattr(staged, "_FEW_CELLS", 1 << 17)
    for budget, few in ((1_000, graph), (64_000, graph.nearest(2))):
        found = select(relevance, few, costs, budget)
        assert (found.method, found.bound_over) == ("two-stage", "shortlist")
        assert found.objective == pytest.approx(covered(relevance, cosines, found.chosen), rel=1e-5)


def test_must_keep_is_kept(pool: Large) -> None:
    _, relevance, costs, graph, _ = pool
    keep = [0, 1_500, 2_999]
    for budget in (int(costs[keep].sum()), 60_000, int(LONG * costs.sum())):
        found = select(relevance, graph, costs, budget, keep)
        assert set(keep) <= set(found.chosen.tolist())
        assert found.cost <= budget


def test_levels_take_two_stages(pool: Large) -> None:
    _, relevance, costs, graph, cosines = pool
    prices = np.stack([np.full(COUNT, 5), costs // 20 + 5, costs // 5 + 5, costs + 5], axis=1)
    fidelity = np.tile([0.05, 0.4, 0.7, 1.0], (COUNT, 1))
    for above in (4_000, 30_000):
        budget = 5 * COUNT + above
        exact = select_levels(relevance, fidelity, prices, cosines, budget)
        found = select_levels(relevance, fidelity, prices, graph, budget)
        assert (exact.method, found.method) == ("dense", "two-stage")
        assert found.cost <= budget
        gain = exact.objective - exact.base_objective
        assert found.objective - found.base_objective >= 0.998 * gain
        cover = 0.2 * np.maximum(cosines.matrix, 0) + 0.8 * np.eye(COUNT)
        shown = (cover * fidelity[0][found.levels][None, :]).max(axis=1)
        assert found.objective == pytest.approx(float(relevance @ shown), rel=1e-3)


def test_from_keys_alone(pool: Large) -> None:
    keys, relevance, costs, graph, _ = pool
    one, other = select(relevance, Keys(keys), costs, SHORT), select(relevance, graph, costs, SHORT)
    assert one.chosen.tolist() == other.chosen.tolist()


def test_foreign_rows(pool: Large) -> None:
    """The same neighbours as compressed sparse rows in another order give the same choice."""
    keys, relevance, costs, graph, _ = pool
    few = graph.nearest(32)
    indptr = np.arange(COUNT + 1) * 32
    order = np.concatenate([np.arange(start, stop)[::-1] for start, stop in zip(few.starts, few.stops, strict=True)])
    rows = Neighbours.from_csr(indptr, graph.indices[order], graph.weights[order], Keys(keys))
    for budget in (SHORT, int(LONG * costs.sum())):
        assert (
            select(relevance, rows, costs, budget).chosen.tolist()
            == select(relevance, few, costs, budget).chosen.tolist()
        )


def test_the_bound_of_the_graph_holds_there(pool: Large) -> None:
    _, relevance, costs, graph, _ = pool
    few = graph.nearest(8)
    for budget in (2_000, 20_000, 500_000):
        found = select(relevance, few, costs, budget, method="sparse")
        more = select(relevance, few, costs, budget + 2_000, method="sparse")
        assert found.objective <= found.upper_bound * (1 + 1e-6)
        assert found.upper_bound <= more.upper_bound * (1 + 1e-6)


def test_nothing_relevant() -> None:
    keys, _, costs = clustered(5, COUNT)
    graph = neighbours(Keys(keys), 8)
    for method in METHODS:
        found = select(np.zeros(COUNT), graph, costs, SHORT, [5], method=method)
        assert found.chosen.tolist() == [5]
        assert found.objective == found.upper_bound == 0

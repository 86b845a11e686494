"""What cannot be selected from is refused with a reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from memory.errors import MemoryFault, MustKeepTooLarge
from memory.selection.facility import select
from memory.selection.graph import SimilarityGraph, neighbours
from memory.selection.levels import select_levels
from memory.selection.mmr import mmr
from memory.selection.pool import Method
from memory.selection.ranked import last_k_fill, rag, top_k_fill
from memory.selection.similarity import Cosines, Keys, Neighbours

EYE = np.eye(3, dtype=np.float32)
ONES = [1.0, 1.0, 1.0]
COSTS = [1, 2, 3]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"relevance": [1.0, float("nan"), 1.0]}, "relevance must be finite"),
        ({"relevance": [1.0, -1.0, 1.0]}, "relevance must not be below 0"),
        ({"relevance": [[1.0, 1.0, 1.0]]}, "relevance must be a vector"),
        ({"costs": [1, 2]}, "costs must have shape"),
        ({"costs": [1, -2, 3]}, "costs must not be negative"),
        ({"costs": [1.5, 2.0, 3.0]}, "costs must be whole numbers"),
        ({"budget": -1}, "budget cannot be negative"),
        ({"similarity": np.full((3, 3), np.nan, dtype=np.float32)}, "cosines must be finite"),
        ({"similarity": np.ones((3, 2), dtype=np.float32)}, "square"),
        ({"similarity": np.eye(4, dtype=np.float32)}, "similarity is over 4 items, not 3"),
        ({"must_keep": [3]}, "must-keep items must be from 0 to 2"),
        ({"must_keep": [-1]}, "must-keep items must be from 0 to 2"),
        ({"method": "best"}, "unknown method 'best'"),
        ({"method": "two-stage"}, "needs keys or neighbours"),
    ],
)
def test_facility(change: dict[str, Any], reason: str) -> None:
    given: dict[str, Any] = {"relevance": ONES, "similarity": EYE, "costs": COSTS, "budget": 3, **change}
    with pytest.raises(ValueError, match=reason):
        select(**given)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"values": [1.0, float("inf"), 1.0]}, "values must be finite"),
        ({"fidelity": np.full((3, 2), np.nan)}, "fidelity must be finite"),
        ({"fidelity": -np.ones((3, 2))}, "fidelity must not be below 0"),
        ({"fidelity": np.ones(3)}, "fidelity must have shape"),
        ({"fidelity": np.ones((3, 0))}, "fidelity must have shape"),
        ({"costs": np.ones((3, 3), dtype=int)}, "costs must have shape"),
        ({"costs": np.array([[2, 1]] * 3)}, "a finer level must not cost less"),
        ({"damping": 1.5}, "damping must be from 0 to 1"),
        ({"damping": float("nan")}, "damping must be from 0 to 1"),
        ({"floor": [0, 2, 0]}, "floor must be levels from 0 to 1"),
        ({"floor": [0, 0]}, "floor must be 3 levels"),
        ({"budget": -5}, "budget cannot be negative"),
    ],
)
def test_levels(change: dict[str, Any], reason: str) -> None:
    given: dict[str, Any] = {
        "values": ONES, "fidelity": np.array([[0.1, 1.0]] * 3), "costs": np.array([[1, 2]] * 3),
        "similarity": EYE, "budget": 4, **change,
    }  # fmt: skip
    with pytest.raises(ValueError, match=reason):
        select_levels(**given)


def test_ranked_and_mmr() -> None:
    nan = [1.0, float("nan"), 0.0]
    with pytest.raises(ValueError, match="scores must be finite"):
        top_k_fill(nan, COSTS, 3)
    with pytest.raises(ValueError, match="scores must be finite"):
        rag(nan, COSTS, 3)
    with pytest.raises(ValueError, match="k cannot be negative"):
        rag(ONES, COSTS, 3, k=-1)
    with pytest.raises(ValueError, match="costs must have shape"):
        last_k_fill(np.ones((2, 2), dtype=int), 3)
    with pytest.raises(ValueError, match="scores must be finite"):
        mmr(nan, EYE, COSTS, 3)
    with pytest.raises(ValueError, match="mult must be"):
        mmr(ONES, EYE, COSTS, 3, mult=2.0)
    with pytest.raises(ValueError, match="over 3 items, not 2"):
        mmr(ONES[:2], EYE, COSTS[:2], 3)
    for call in (top_k_fill, rag):
        with pytest.raises(ValueError, match="negative"):
            call(ONES, COSTS, -1)


def test_keys_and_graphs() -> None:
    with pytest.raises(ValueError, match="keys must be finite"):
        Keys(np.array([[np.nan, 1.0]], dtype=np.float32))
    with pytest.raises(ValueError, match="length 1 or 0; key 1 has 2"):
        Keys(np.array([[1.0, 0.0], [2.0, 0.0]], dtype=np.float32))
    with pytest.raises(ValueError, match="a matrix"):
        Keys(np.ones(3, dtype=np.float32))
    with pytest.raises(ValueError, match="below the 128 neighbours"):
        SimilarityGraph(8, dense_limit=10)
    graph = SimilarityGraph(2, k=1, dense_limit=1)
    with pytest.raises(ValueError, match="a key of 2 dimensions"):
        graph.append([1.0, 0.0, 0.0])
    with pytest.raises(ValueError, match="finite"):
        graph.append([np.nan, 0.0])
    with pytest.raises(ValueError, match="keys of 2 dimensions"):
        graph.extend(Keys(EYE))
    assert len(graph) == 0, "a refused key leaves nothing behind"


@pytest.mark.parametrize(
    ("indptr", "indices", "weights", "reason"),
    [
        ([0, 1], [0, 0], [1.0, 1.0], "1 indices and weights expected"),
        ([1, 2], [0], [1.0], "indptr must start at 0"),
        ([0, 2, 1], [0], [1.0], "never fall"),
        ([0, 1], [1], [1.0], "neighbours must be items from 0 to 0"),
        ([0, 1], [0], [float("nan")], "weights must be finite"),
        ([0, 2], [0, 0], [1.0, 1.0], "listed twice"),
    ],
)
def test_sparse_rows(indptr: list[int], indices: list[int], weights: list[float], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Neighbours.from_csr(indptr, indices, weights)


def test_methods_without_what_they_need() -> None:
    graph = Neighbours.from_csr([0, 1, 2, 3], [0, 1, 2], [1.0, 1.0, 1.0])
    methods: tuple[Method, ...] = ("dense", "two-stage")
    for method in methods:
        with pytest.raises(ValueError, match="needs the keys"):
            select(ONES, graph, COSTS, 3, method=method)
    with pytest.raises(ValueError, match="3 keys expected"):
        Neighbours.from_csr([0, 1, 2, 3], [0, 1, 2], [1.0, 1.0, 1.0], Keys(EYE[:2]))
    with pytest.raises(ValueError, match="cosines must be finite"):
        Cosines(np.array([[1.0, np.inf], [-np.inf, 1.0]], dtype=np.float32))
    assert len(neighbours(Keys(EYE))) == 3


def test_must_keep_over_the_budget_carries_the_sizes() -> None:
    with pytest.raises(MustKeepTooLarge, match=r"2 items\) needs 5 tokens, and the budget is 4") as caught:
        select(ONES, EYE, COSTS, 4, [1, 2, 2])
    assert (caught.value.needed, caught.value.budget, caught.value.count) == (5, 4, 2)
    assert isinstance(caught.value, MemoryFault) and "5 tokens" in caught.value.hint
    with pytest.raises(MustKeepTooLarge):
        select_levels(ONES, np.ones((3, 2)), np.array([[2, 3]] * 3), EYE, 5)
    for call in (top_k_fill, rag):
        with pytest.raises(MustKeepTooLarge):
            call(ONES, COSTS, 2, must_keep=[2])
    with pytest.raises(MustKeepTooLarge):
        last_k_fill(COSTS, 2, [2])
    with pytest.raises(MustKeepTooLarge):
        mmr(ONES, EYE, COSTS, 2, [2])

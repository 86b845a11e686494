"""The simple rules, by hand and against a naive MMR."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.plan import FloatArray, IntArray
from memory.selection.mmr import mmr
from memory.selection.ranked import last_k_fill, rag, top_k_fill
from memory.selection.similarity import Cosines, Float32Array, Keys
from tests.memory.selection.instances import unit_keys

SCORES = [0.9, 0.1, 0.5, 0.5, 0.7]
COSTS = [10, 10, 10, 10, 50]


def test_top_k_goes_by_score_up_to_the_first_that_does_not_fit() -> None:
    assert top_k_fill(SCORES, COSTS, 100).tolist() == [0, 1, 2, 3, 4]
    assert top_k_fill(SCORES, COSTS, 70).tolist() == [0, 3, 4], "of equals the newer"
    assert top_k_fill(SCORES, COSTS, 40).tolist() == [0]
    assert top_k_fill(SCORES, COSTS, 40, skip=True).tolist() == [0, 1, 2, 3]
    assert top_k_fill(SCORES, COSTS, 40, [1]).tolist() == [0, 1]
    assert top_k_fill(SCORES, COSTS, 0).tolist() == []
    assert top_k_fill([], np.zeros(0, dtype=int), 5).tolist() == []


def test_last_k_goes_by_age() -> None:
    assert last_k_fill(COSTS, 70).tolist() == [2, 3, 4]
    assert last_k_fill(COSTS, 49).tolist() == []
    assert last_k_fill(COSTS, 49, skip=True).tolist() == [0, 1, 2, 3]
    assert last_k_fill(COSTS, 60, [0]).tolist() == [0, 4]


def test_rag_takes_k_then_cuts_and_keeps_the_order_of_relevance() -> None:
    assert rag(SCORES, COSTS, 100, k=3).tolist() == [0, 4, 3]
    assert rag(SCORES, COSTS, 65, k=3).tolist() == [0, 4]
    assert rag(SCORES, COSTS, 100, k=2, must_keep=[1]).tolist() == [1, 0, 4]
    assert rag(SCORES, COSTS, 15, k=2, must_keep=[1]).tolist() == [1]
    assert rag(np.linspace(0, 1, 30), np.ones(30, dtype=int), 100).tolist() == list(range(29, 19, -1)), "10 by default"
    assert rag(SCORES, COSTS, 100, k=0).tolist() == []


pools = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 20)), max_size=12)


@given(pools, st.integers(0, 100))
def test_fills_are_longest_prefixes(pool: list[tuple[int, int]], budget: int) -> None:
    scores = [float(score) for score, _ in pool]
    costs = np.array([cost for _, cost in pool], dtype=np.int64)
    for order, chosen in (
        (sorted(range(len(pool)), key=lambda i: (-scores[i], -i)), top_k_fill(scores, costs, budget)),
        (list(range(len(pool)))[::-1], last_k_fill(costs, budget)),
    ):
        fitting = [k for k in range(len(pool) + 1) if costs[order[:k]].sum() <= budget]
        # free items at the end of the prefix belong to it
        assert chosen.tolist() == sorted(order[: fitting[-1]])


def naive_mmr(scores: FloatArray, cosines: Float32Array, costs: IntArray, budget: int, mult: float) -> list[int]:
    chosen: list[int] = []
    while True:
        options = [
            i for i in range(len(scores)) if i not in chosen and costs[i] + sum(costs[j] for j in chosen) <= budget
        ]
        if not options:
            return chosen
        worth = {
            i: mult * scores[i] - (1 - mult) * max(float(cosines[i, j]) for j in chosen) if chosen else scores[i]
            for i in options
        }
        chosen.append(max(options, key=lambda i: (worth[i], i)))


def test_mmr_is_the_naive_rule() -> None:
    for seed in range(200):
        rng = np.random.default_rng(seed)
        count = int(rng.integers(1, 25))
        keys = unit_keys(rng, count)
        scores = (keys @ unit_keys(rng, 1)[0]).astype(np.float64)
        costs = rng.integers(0, 50, count)
        budget = int(rng.integers(0, costs.sum() + 2))
        mult = float(rng.choice([0.0, 0.3, 0.5, 1.0]))
        cosines = keys @ keys.T
        expected = naive_mmr(scores, cosines, costs, budget, mult)
        assert mmr(scores, cosines, costs, budget, mult=mult).tolist() == expected
        assert sorted(mmr(scores, Keys(keys), costs, budget, mult=mult).tolist()) == sorted(expected) or mult == 0.0


def test_mmr_keeps_what_must_be_kept_and_stays_away_from_it() -> None:
    keys = np.eye(3, dtype=np.float32)[[0, 0, 1]]
    scores, costs = [0.9, 0.9, 0.8], [1, 1, 1]
    assert mmr(scores, Keys(keys), costs, 2, [0]).tolist() == [0, 2]
    assert mmr(scores, Cosines(keys @ keys.T), costs, 2).tolist() == [1, 2]
    assert mmr(scores, Cosines(keys @ keys.T), [1, 9, 1], 2).tolist() == [0, 2], "what does not fit is skipped"
    assert mmr([], np.zeros((0, 0), dtype=np.float32), np.zeros(0, dtype=int), 5).tolist() == []


def test_mmr_is_the_rule_of_langchain() -> None:
    """With room for exactly k items of equal price the two agree."""
    vectorstores = pytest.importorskip("langchain_core.vectorstores.utils", reason="langchain-core is not installed")
    for seed in range(20):
        rng = np.random.default_rng(seed)
        keys, query = unit_keys(rng, 30), unit_keys(rng, 1)[0]
        theirs = vectorstores.maximal_marginal_relevance(query, [key.tolist() for key in keys], 0.5, 8)
        assert mmr(keys @ query, Keys(keys), np.ones(30, dtype=int), 8).tolist() == theirs

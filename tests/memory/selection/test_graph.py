"""The live graph: always the exact neighbours, whichever way the keys came."""

from __future__ import annotations

import numpy as np
import pytest

from memory.selection.graph import SimilarityGraph, neighbours
from memory.selection.similarity import Cosines, Float32Array, Keys, Neighbours
from tests.memory.selection.instances import clustered


def nearest(keys: Float32Array, k: int) -> Float32Array:
    """(n, k) cosines of the nearest others, by sorting everything."""
    cosines = np.clip(keys @ keys.T, 0, 1)
    np.fill_diagonal(cosines, -1)
    result: Float32Array = np.sort(cosines, axis=1)[:, ::-1][:, :k]
    return result


def check(view: Cosines | Neighbours, keys: Float32Array, k: int) -> None:
    assert isinstance(view, Neighbours) and len(view) == len(keys)
    near, weights = view.indices.reshape(-1, k), view.weights.reshape(-1, k)
    assert np.allclose(weights, nearest(keys, k), atol=1e-6)
    rows = np.arange(len(keys))[:, None]
    assert np.allclose(np.clip((keys @ keys.T)[rows, near], 0, 1), weights, atol=1e-6)
    assert (near != rows).all() and all(len(set(row)) == k for row in near.tolist())


def test_appending_one_by_one_gives_the_exact_neighbours() -> None:
    keys, _, _ = clustered(1, 300, dim=16)
    graph = SimilarityGraph(16, k=10, dense_limit=50)
    for count, key in enumerate(keys, start=1):
        graph.append(key)
        view = graph.view()
        assert len(graph) == len(view) == count
        if count <= 50:
            assert isinstance(view, Cosines)
            assert np.allclose(view.matrix, np.clip(keys[:count] @ keys[:count].T, 0, 1), atol=1e-6)
        elif count in (51, 52, 120, 300):
            check(view, keys[:count], 10)


@pytest.mark.parametrize("parts", [(300,), (40, 260), (50, 1, 249), (200, 100), (290, 10)])
def test_extending_gives_the_same(parts: tuple[int, ...]) -> None:
    keys, _, _ = clustered(1, 300, dim=16)
    graph = SimilarityGraph(16, k=10, dense_limit=50)
    first = 0
    for part in parts:
        graph.extend(Keys(keys[first : first + part]))
        first += part
    check(graph.view(), keys, 10)


def test_small_pools_stay_dense() -> None:
    keys, _, _ = clustered(2, 40, dim=16)
    graph = SimilarityGraph(16, k=10, dense_limit=50)
    graph.extend(Keys(keys[:30]))
    graph.extend(Keys(keys[30:]))
    view = graph.view()
    assert isinstance(view, Cosines)
    assert np.allclose(view.matrix, np.clip(keys @ keys.T, 0, 1), atol=1e-6)
    assert view is graph.view(), "built once"


def test_the_same_calls_give_the_same_bytes() -> None:
    keys, _, _ = clustered(3, 200, dim=8)
    keys[50:100] = keys[:50]  # exact ties
    views = []
    for _ in range(2):
        graph = SimilarityGraph(8, k=5, dense_limit=20)
        for key in keys:
            graph.append(key)
        view = graph.view()
        assert isinstance(view, Neighbours)
        views.append(view.indices.tobytes() + view.weights.tobytes())
    assert views[0] == views[1]


def test_an_item_without_a_key_is_like_nothing() -> None:
    keys, _, _ = clustered(4, 30, dim=8)
    keys[7] = 0
    graph = SimilarityGraph(8, k=3, dense_limit=5)
    graph.extend(Keys(keys))
    view = graph.view()
    assert isinstance(view, Neighbours)
    assert view.own[7] == 0 and view.own.sum() == 29
    assert not view.weights.reshape(-1, 3)[7].any()


def test_memory_is_bounded() -> None:
    keys, _, _ = clustered(5, 2_000, dim=8)
    graph = SimilarityGraph(8, k=4, dense_limit=64)
    for key in keys:
        graph.append(key)
    held = sum(value.nbytes for value in vars(graph).values() if isinstance(value, np.ndarray))
    assert held <= 1.5 * 2_000 * (4 * 8 + 8 * 4 + 12)


def test_fewer_items_than_neighbours() -> None:
    keys, _, _ = clustered(6, 3, dim=8)
    view = neighbours(Keys(keys), 10)
    check(view, keys, 2)
    assert len(neighbours(Keys(keys[:1]))) == 1 and len(neighbours(Keys(keys[:0]))) == 0

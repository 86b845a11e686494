"""What the lists of nearest neighbours tell: the rows of a sparse problem, and how well all items are covered.

An item that is better covered than by the last of its own list is covered no better by any item that is not listed. So
the lists alone tell its cover by all cosines, and what others would still add to it.
"""

from __future__ import annotations

import numpy as np

from memory.plan import FloatArray, IntArray
from memory.selection.coverage import Problem, Rows, positions
from memory.selection.similarity import Float32Array, Neighbours


def pack(graph: Neighbours, value: Float32Array, own_weight: Float32Array, damping: np.float32) -> Rows:
    """The rows of a sparse problem: first the item itself, then its neighbours. ``value``, ``own_weight``: see
    `Problem`."""
    items = np.arange(len(graph))
    row, position = positions(graph.starts, graph.stops, items)
    client = graph.indices[position]
    weights = damping * graph.weights[position] * value[client]
    weights[client == row] = 0
    stops = np.cumsum(graph.stops - graph.starts + 1)
    starts = np.concatenate([np.zeros(1, dtype=np.int64), stops[:-1]])[: len(graph)]
    indices, packed = np.empty(len(row) + len(graph), dtype=np.int32), np.empty(len(row) + len(graph), dtype=np.float32)
    indices[starts], packed[starts] = items, value * own_weight
    place = np.arange(len(row)) + row + 1
    indices[place], packed[place] = client, weights
    return Rows(starts, stops, indices, packed, len(graph), False)


def reached(problem: Problem, graph: Neighbours, levels: IntArray) -> Float32Array:
    """(n,) how well each item is covered by itself and by those it lists, shown at ``levels`` (n,)."""
    items = np.arange(len(graph))
    shown = problem.fidelity[items, levels]
    row, position = positions(graph.starts, graph.stops, items)
    cover = shown * problem.own_weight
    by_other = np.float32(problem.damping) * shown[graph.indices[position]] * graph.weights[position]
    by_other[graph.indices[position] == row] = 0
    np.maximum.at(cover, row, by_other)
    return cover


def offered(problem: Problem, graph: Neighbours, cover: Float32Array) -> FloatArray:
    """(n, L) what each level of each item would add to itself and to those that list it, in ``unit``."""
    items = np.arange(len(graph))
    row, position = positions(graph.starts, graph.stops, items)
    item, cosine = graph.indices[position], np.float32(problem.damping) * graph.weights[position]
    cosine[item == row] = 0
    gains = np.empty(problem.fidelity.shape)
    for level in range(problem.levels):
        over = np.maximum(problem.fidelity[item, level] * cosine - cover[row], 0) * problem.value[row]
        own = np.maximum(problem.fidelity[:, level] * problem.own_weight - cover, 0) * problem.value
        gains[:, level] = np.bincount(item, weights=over, minlength=len(graph)) + own
    return gains

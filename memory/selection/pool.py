"""From what the caller has (values, costs, similarity) to a solved problem, by the method that suits its size."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import numpy as np

from memory.plan import FloatArray, IntArray
from memory.selection.coverage import Problem, Rows
from memory.selection.graph import DENSE_LIMIT, neighbours
from memory.selection.lazy import Engine
from memory.selection.similarity import Cosines, Float32Array, Keys, Neighbours, Similarity, cosine_matrix
from memory.selection.solve import Solution, solve

Method: TypeAlias = Literal["auto", "dense", "sparse", "two-stage"]
BoundOver: TypeAlias = Literal["pool", "graph", "shortlist"]

_LONG_SEARCH = 0.3
"""From this share of the pool's tokens on, many items are taken and the graph alone is as good."""

_WIDER = 1.5
"""The shortlist is what the graph would take with this multiple of the room."""

_MAX_CELLS = 1 << 26
"""Most cosines held at once by the second stage."""


def solve_pool(
    value: FloatArray,
    fidelity: FloatArray,
    costs: IntArray,
    damping: float,
    similarity: Similarity,
    floor: IntArray,
    room: int,
    *,
    method: Method,
    worker: Engine,
    both: bool,
) -> tuple[Solution, Method, BoundOver]:
    """The solution, how it was found, and what its upper bound holds for."""
    count = len(value)
    if method not in get_args(Method):
        raise ValueError(f"unknown method {method!r}")
    if len(similarity) != count:
        raise ValueError(f"similarity is over {len(similarity)} items, not {count}")
    if method == "auto":
        method = _suited(similarity, costs, room)
    if method == "dense":
        problem = _dense(value, fidelity, costs, damping, similarity)
        return solve(problem, floor, room, worker, both=both), "dense", "pool"
    if isinstance(similarity, Cosines):
        raise ValueError(f"{method} needs keys or neighbours; all cosines are best used as they are")
    graph = similarity if isinstance(similarity, Neighbours) else neighbours(similarity)
    problem = _sparse(value, fidelity, costs, damping, graph)
    if method == "sparse":
        return solve(problem, floor, room, worker, both=both), "sparse", "graph"
    if graph.keys is None:
        raise ValueError("two-stage needs the keys of the neighbours")
    return _two_stage(problem, graph.keys, floor, room, worker, both=both), "two-stage", "shortlist"


def _suited(similarity: Similarity, costs: IntArray, room: int) -> Method:
    if isinstance(similarity, Cosines):
        return "dense"
    keys = similarity.rows if isinstance(similarity, Keys) else similarity.keys
    if keys is None:
        return "sparse"
    if len(similarity) <= DENSE_LIMIT:
        return "dense"
    whole = int((costs[:, -1] - costs[:, 0]).sum())
    return "sparse" if room >= _LONG_SEARCH * whole else "two-stage"


def _dense(value: FloatArray, fidelity: FloatArray, costs: IntArray, damping: float, similarity: Similarity) -> Problem:
    if isinstance(similarity, Cosines):
        matrix = similarity.matrix
    else:
        keys = similarity.rows if isinstance(similarity, Keys) else similarity.keys
        if keys is None:
            raise ValueError("dense needs the keys of the neighbours")
        matrix = cosine_matrix(keys)
    own = np.maximum(matrix.diagonal().astype(np.float64), 0.0)
    items = np.arange(len(value))
    return Problem(Rows.of_matrix(matrix), value, items, 1 - damping + damping * own, damping, fidelity, costs)


def _sparse(value: FloatArray, fidelity: FloatArray, costs: IntArray, damping: float, graph: Neighbours) -> Problem:
    rows = Rows(graph.starts, graph.stops, graph.indices, graph.weights, len(value), False)
    own = 1 - damping + damping * np.maximum(graph.own, 0.0)
    return Problem(rows, value, np.arange(len(value)), own, damping, fidelity, costs)


def _two_stage(
    problem: Problem, keys: Float32Array, floor: IntArray, room: int, worker: Engine, *, both: bool
) -> Solution:
    """The graph proposes a shortlist; all cosines of the shortlist decide.

    The pass by gain is needed for the guarantee and rarely wins, so it runs on the graph only.
    """
    start = np.zeros(len(problem.value))
    worker.cover(problem, start, floor)
    first = worker.first_gains(problem, start, floor)
    wide = worker.greedy(problem, start, floor, first, int(room * _WIDER), True)
    clients = np.flatnonzero(problem.value > 0)
    chosen = np.flatnonzero((wide.levels > floor) | (floor > 0))
    chosen = _shortest(chosen, problem, floor, _MAX_CELLS // max(1, len(clients)))
    base = np.zeros(len(problem.value))
    worker.cover(problem, base, np.zeros_like(floor))
    part = _part(problem, keys, chosen, clients)
    found = solve(part, floor[chosen], room, worker, both=False, covered=base[clients])
    levels = floor.copy()
    levels[chosen] = found.levels
    evaluations = int(np.count_nonzero(first)) + wide.evaluations + found.evaluations
    objective, cover = found.objective, found.best
    if both:
        narrow = worker.greedy(problem, start, floor, first, room, True)
        by_gain = worker.greedy(problem, start, floor, first, room, False)
        evaluations += narrow.evaluations + by_gain.evaluations
        if problem.objective(by_gain.best) > problem.objective(narrow.best):
            shown = np.flatnonzero(by_gain.levels > 0)
            other = _part(problem, keys, shown, clients)
            reached = base[clients]
            worker.cover(other, reached, by_gain.levels[shown])
            if other.objective(reached) > objective:
                levels, cover, objective = by_gain.levels, reached, other.objective(reached)
    return Solution(levels, cover, objective, found.base, found.upper_bound, evaluations)


def _shortest(chosen: IntArray, problem: Problem, floor: IntArray, most: int) -> IntArray:
    """At most ``most`` of the shortlist, those of the highest value per token; what must be kept stays."""
    if len(chosen) <= most:
        return chosen
    worth = problem.value[chosen] / np.maximum(problem.costs[chosen, -1], 1)
    worth[floor[chosen] > 0] = np.inf
    return np.sort(chosen[np.argsort(-worth, kind="stable")[:most]])


def _part(problem: Problem, keys: Float32Array, chosen: IntArray, clients: IntArray) -> Problem:
    """The problem of the candidates ``chosen`` and ``clients``, with all cosines."""
    matrix = keys[chosen] @ keys[clients].T
    place = np.searchsorted(clients, chosen)
    place[place == len(clients)] = 0
    own = np.where(clients[place] == chosen, place, -1) if len(clients) else np.full(len(chosen), -1)
    return Problem(
        Rows.of_matrix(matrix),
        problem.value[clients],
        own,
        problem.own_weight[chosen],
        problem.damping,
        problem.fidelity[chosen],
        problem.costs[chosen],
    )

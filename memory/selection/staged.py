"""Few of many: the neighbour graph proposes a shortlist, all cosines of the shortlist decide.

Where that would be many cosines, and the choice on the graph already covers nearly every item better than what is not
among its neighbours ever could, the graph decides alone.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from memory.plan import IntArray
from memory.selection.bound import knapsack_bound
from memory.selection.coverage import Problem, Rows
from memory.selection.lazy import Engine, Run
from memory.selection.similarity import Float32Array, Neighbours
from memory.selection.solve import ENOUGH, Solution, solve

_SEED = 16
"""The seed is what the graph would take with this part of the room."""

_WIDER = 2
"""The shortlist is what the graph would take with this multiple of the room."""

_MAX_CELLS = 1 << 26
"""Most cosines held at once by the second stage."""

_FEW_CELLS = 1 << 22
"""Cosines that cost about as much as the graph: up to these it does not decide alone."""

_NEGLIGIBLE = 1e-4
"""Share of F that all items which are not among the neighbours may still add where the graph decides alone."""


def two_stage(
    problem: Problem,
    graph: Neighbours,
    keys: Float32Array,
    floor: IntArray,
    room: int,
    worker: Engine,
    *,
    both: bool,
) -> tuple[Solution, bool]:
    """Maximise F of the sparse ``problem`` of ``graph`` over ``keys`` (n, d), by all cosines of few: (the solution,
    whether its upper bound holds for the whole pool, not for the shortlist only).

    A graph does not know that any item covers all others a little. So a seed is taken first, and what it covers by all
    its cosines is the ground that the graph then adds to. The pass by gain is needed for the guarantee and rarely
    wins, so it runs on the graph only.
    """
    clients = np.flatnonzero(problem.value > 0)
    if not len(clients):
        return Solution(floor, 0.0, 0.0, 0.0, 0), False
    start = np.zeros_like(problem.value)
    worker.cover(problem, start, floor)
    first = worker.first_gains(problem, start, floor)
    seed = worker.greedy(problem, start, floor, first, room // _SEED, True)
    base = np.zeros_like(problem.value)
    worker.cover(problem, base, np.zeros_like(floor))
    base[clients] /= problem.value[clients]
    ground = _ground(problem, keys, clients, base, floor, seed, worker)
    gains = worker.first_gains(problem, ground, seed.levels)
    near = worker.greedy(problem, ground, seed.levels, gains, room - room // _SEED + seed.room, True)
    evaluations = 2 * int(np.count_nonzero(first)) + seed.evaluations + near.evaluations
    found = _near(problem, graph, keys, floor, room, near.levels, problem.objective(start), worker)
    whole = found is not None
    if found is None:
        wide = worker.greedy(problem, ground, seed.levels, gains, _WIDER * room, True)
        chosen = _shortlist(problem, wide.levels, floor, _MAX_CELLS // len(clients))
        part = _part(problem, keys, chosen, clients)
        found = solve(part, floor[chosen], room, worker, both=False, covered=base[clients])
        levels = floor.copy()
        levels[chosen] = found.levels
        evaluations += wide.evaluations
        found = replace(found, levels=levels)
    found = replace(found, evaluations=evaluations + found.evaluations)
    if both and found.objective < ENOUGH * found.upper_bound:
        by_gain = worker.greedy(problem, start, floor, first, room, False)
        found = replace(found, evaluations=found.evaluations + by_gain.evaluations)
        shown = np.flatnonzero(by_gain.levels > 0)
        other = _part(problem, keys, shown, clients)
        reached = base[clients]
        worker.cover(other, reached, by_gain.levels[shown])
        objective = other.objective(reached)
        if objective > found.objective:
            found = replace(
                found, levels=by_gain.levels, objective=objective, upper_bound=max(found.upper_bound, objective)
            )
    return found, whole


def _ground(
    problem: Problem,
    keys: Float32Array,
    clients: IntArray,
    base: Float32Array,
    floor: IntArray,
    seed: Run,
    worker: Engine,
) -> Float32Array:
    """(n,) what the seed covers on the graph, and the best of it by all its cosines, times value."""
    shown = _shortlist(problem, seed.levels, floor, max(1, _FEW_CELLS // len(clients)))
    cover = base[clients]
    worker.cover(_part(problem, keys, shown, clients), cover, seed.levels[shown])
    ground = seed.best.copy()
    ground[clients] = np.maximum(ground[clients], cover * problem.value[clients])
    return ground


def _near(
    problem: Problem,
    graph: Neighbours,
    keys: Float32Array,
    floor: IntArray,
    room: int,
    levels: IntArray,
    base: float,
    worker: Engine,
) -> Solution | None:
    """The choice ``levels`` of the graph with its F and an upper bound over the pool by all cosines, or None where a
    shortlist decides better or at little cost."""
    value, shown = problem.value, np.flatnonzero(levels > 0)
    if len(shown) * np.count_nonzero(value) <= _FEW_CELLS or not len(graph.weights):
        return None
    last = np.where(graph.stops > graph.starts, graph.weights[np.maximum(graph.stops - 1, 0)], 1.0)
    most = np.float32(problem.damping * problem.fidelity.max()) * last  # what an item not listed could cover
    cover = worker.reached(problem, graph, levels)
    open_ = np.flatnonzero((cover < most) & (value > 0))
    if len(open_) * len(shown) > _FEW_CELLS:
        return None
    cosines = np.maximum(keys[open_] @ keys[shown].T, 0)
    scale = np.float32(problem.damping) * problem.fidelity[shown, levels[shown]]
    cover[open_] = np.maximum(cover[open_], (cosines * scale).max(axis=1))
    objective = float(np.dot(value.astype(np.float64), cover))
    missed = float(np.dot(value[open_].astype(np.float64), np.maximum(most[open_] - cover[open_], 0)))
    if missed > _NEGLIGIBLE * objective:
        return None
    gains = worker.offered(problem, graph, cover)
    gains[np.arange(problem.levels)[None, :] <= levels[:, None]] = 0.0
    extra = problem.costs - problem.costs[np.arange(len(floor)), floor][:, None]
    bound = objective + missed + knapsack_bound(gains, np.maximum(extra, 0), room)[0]
    return Solution(levels, objective, base, bound, int(np.count_nonzero(gains)))


def _shortlist(problem: Problem, wide: IntArray, floor: IntArray, most: int) -> IntArray:
    """What is taken in ``wide`` or must be kept; at most ``most`` of it, those of the highest value per token."""
    chosen = np.flatnonzero((wide > floor) | (floor > 0))
    if len(chosen) <= most:
        return chosen
    worth = problem.value[chosen] / np.maximum(problem.costs[chosen, -1], 1)
    worth[floor[chosen] > 0] = np.inf
    return np.sort(chosen[np.argsort(-worth, kind="stable")[:most]])


def _part(problem: Problem, keys: Float32Array, chosen: IntArray, clients: IntArray) -> Problem:
    """The problem of the candidates ``chosen`` and ``clients``, with all cosines."""
    place = np.minimum(np.searchsorted(clients, chosen), len(clients) - 1)
    own = np.where((clients[place] == chosen) & (problem.damping < 1), place, -1)
    return Problem(
        Rows.of_matrix(keys[chosen] @ keys[clients].T),
        problem.value[clients],
        problem.unit,
        own,
        problem.own_weight[chosen],
        problem.fidelity[chosen],
        np.float32(problem.damping) * problem.fidelity[chosen],
        problem.costs[chosen],
        problem.damping,
    )

"""Few of many: the neighbour graph proposes a shortlist, all cosines of the shortlist decide."""

from __future__ import annotations

import numpy as np

from memory.plan import IntArray
from memory.selection.coverage import Problem, Rows
from memory.selection.lazy import Engine, Run
from memory.selection.similarity import Float32Array
from memory.selection.solve import Solution, solve

_SEED = 16
"""The seed is what the graph would take with this part of the room."""

_WIDER = 2
"""The shortlist is what the graph would take with this multiple of the room."""

_MAX_CELLS = 1 << 26
"""Most cosines held at once by the second stage."""


def two_stage(
    problem: Problem, keys: Float32Array, floor: IntArray, room: int, worker: Engine, *, both: bool
) -> Solution:
    """Maximise F of the sparse ``problem`` over ``keys`` (n, d), with all cosines of what the graph would take if it
    had more room.

    A graph does not know that any item covers all others a little. So a seed is taken first, and what it covers by all
    its cosines is the ground that the graph then adds to. The pass by gain is needed for the guarantee and rarely
    wins, so it runs on the graph only.
    """
    clients = np.flatnonzero(problem.value > 0)
    if not len(clients):
        return Solution(floor, problem.value, 0.0, 0.0, 0.0, 0)
    start = np.zeros_like(problem.value)
    worker.cover(problem, start, floor)
    first = worker.first_gains(problem, start, floor)
    seed = worker.greedy(problem, start, floor, first, room // _SEED, True)
    base = np.zeros_like(problem.value)
    worker.cover(problem, base, np.zeros_like(floor))
    wide = _widened(problem, keys, clients, base, seed, room, worker)
    chosen = _shortlist(problem, wide.levels, floor, _MAX_CELLS // len(clients))
    part = _part(problem, keys, chosen, clients)
    found = solve(part, floor[chosen], room, worker, both=False, covered=base[clients])
    levels = floor.copy()
    levels[chosen] = found.levels
    evaluations = 2 * int(np.count_nonzero(first)) + seed.evaluations + wide.evaluations + found.evaluations
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
    return Solution(levels, cover, objective, found.base, max(found.upper_bound, objective), evaluations)


def _widened(
    problem: Problem, keys: Float32Array, clients: IntArray, base: Float32Array, seed: Run, room: int, worker: Engine
) -> Run:
    """What the graph takes with more room, on the ground of what the seed covers by all its cosines."""
    shown = np.flatnonzero(seed.levels > 0)
    ground = base[clients]
    worker.cover(_part(problem, keys, shown, clients), ground, seed.levels[shown])
    cover = base.copy()
    cover[clients] = ground
    gains = worker.first_gains(problem, cover, seed.levels)
    return worker.greedy(problem, cover, seed.levels, gains, _WIDER * room, True)


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
        problem.scale[chosen],
        problem.costs[chosen],
        problem.damping,
    )

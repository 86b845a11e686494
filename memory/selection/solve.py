"""Both greedy passes, the best single element and the upper bound, on one problem."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

from memory.plan import IntArray
from memory.selection.bound import knapsack_bound
from memory.selection.coverage import Problem
from memory.selection.lazy import Engine, NumpyEngine, Run
from memory.selection.similarity import Float32Array

_AHEAD = 0.8
"""Gains are also computed anew down to this share of the price that decides: it falls as they shrink."""

ENOUGH = 0.8
"""On a graph the pass by gain is left out where the first reaches this share of its upper bound: the other could only
be better by what is missing, and costs as much again."""

EngineName = Literal["auto", "numpy", "numba"]


@dataclass(frozen=True, slots=True)
class Solution:
    """``levels`` (n,); ``objective`` F, ``base`` F of the floor alone and ``upper_bound`` in the problem's unit."""

    levels: IntArray
    objective: float
    base: float
    upper_bound: float
    evaluations: int


@cache
def engine(name: EngineName = "auto") -> Engine:
    """The engine ``name``; ``auto`` is numba where it is installed, else numpy.

    Raises ImportError for ``numba`` where it is not.
    """
    if name == "numpy":
        return NumpyEngine()
    try:
        from memory.selection.compiled import NumbaEngine
    except ImportError:
        if name == "numba":
            raise
        return NumpyEngine()
    return NumbaEngine()


def solve(
    problem: Problem,
    floor: IntArray,
    room: int,
    worker: Engine,
    *,
    both: bool,
    covered: Float32Array | None = None,
    enough: float = 1.0,
) -> Solution:
    """Maximise F over levels not coarser than ``floor`` (n,) that cost at most ``room`` tokens more than it.

    By gain per token, and with ``both`` also by gain; the better one, or the best single element, is kept: at least
    (1 - 1/e)/2 of what the optimum gains over the floor (Leskovec et al. 2007). ``covered`` (m,): cover that is there
    already. The pass by gain is left out where the first reaches ``enough`` of its own upper bound.
    """
    start = np.zeros_like(problem.value) if covered is None else covered.copy()
    worker.cover(problem, start, floor)
    base = problem.objective(start)
    first = worker.first_gains(problem, start, floor)
    extra = problem.costs - problem.costs[np.arange(len(floor)), floor][:, None]
    above = np.maximum(extra, 0)
    by_ratio = worker.greedy(problem, start, floor, first, room, True)
    bound = min(base + knapsack_bound(first, above, room)[0], _bound(problem, by_ratio, above, room, worker))
    runs = [by_ratio]
    if both and problem.objective(by_ratio.best) < enough * bound:
        runs.append(worker.greedy(problem, start, floor, first, room, False))
    best = max(runs, key=lambda run: problem.objective(run.best))
    levels, cover = best.levels, best.best
    alone = np.where(extra <= room, first, 0.0)
    if alone.size and base + alone.max() > problem.objective(cover):
        candidate, level = divmod(int(alone.argmax()), problem.levels)
        levels, cover = floor.copy(), start
        levels[candidate] = level
        problem.take(cover, candidate, level)
    return Solution(
        levels,
        objective := problem.objective(cover),
        base,
        max(bound, objective),  # below it by rounding only
        int(np.count_nonzero(first)) + sum(run.evaluations for run in runs),
    )


def _bound(problem: Problem, run: Run, extra: IntArray, room: int, worker: Engine) -> float:
    """F of the run plus the most that anything within ``room`` could still add to it.

    Old gains are upper bounds; those that the result leans on are computed anew until it leans on new ones only, which
    is as good as computing all.
    """
    gains, old = run.gains.copy(), run.gains > 0
    while True:
        bound, price = knapsack_bound(gains, extra, room)
        candidates, levels = np.nonzero(old & (gains >= _AHEAD * price * extra))
        if not len(candidates):
            return problem.objective(run.best) + bound
        gains[candidates, levels] = worker.gains(problem, run.best, candidates, levels)
        old[candidates, levels] = False

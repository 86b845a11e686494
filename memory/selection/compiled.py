"""The engine on numba. Importing this needs numba; a kernel is compiled when first called and cached on disk."""

from __future__ import annotations

import numpy as np

from memory.plan import FloatArray, IntArray
from memory.selection import kernels
from memory.selection.coverage import Problem
from memory.selection.lazy import Run, first_queue
from memory.selection.similarity import Float32Array, Int32Array


class NumbaEngine:
    """`NumpyEngine`, compiled: the same choice from the same input."""

    def cover(self, problem: Problem, best: Float32Array, levels: IntArray) -> None:
        kernels.cover(*_arrays(problem), best, levels)

    def first_gains(self, problem: Problem, best: Float32Array, levels: IntArray) -> FloatArray:
        return kernels.first_gains(*_arrays(problem), best.copy(), levels)

    def gains(self, problem: Problem, best: Float32Array, candidates: IntArray, levels: IntArray) -> FloatArray:
        # one layout only: another would be compiled anew
        candidates, levels = np.ascontiguousarray(candidates), np.ascontiguousarray(levels)
        return kernels.gains(*_arrays(problem), best.copy(), candidates, levels)

    def greedy(
        self, problem: Problem, best: Float32Array, levels: IntArray, first: FloatArray, room: int, by_cost: bool
    ) -> Run:
        cover, shown, gains = best.copy(), levels.copy(), first.copy()
        queue = first_queue(problem, levels, first, room, by_cost)
        left, evaluations = kernels.greedy(*_arrays(problem), cover, shown, gains, problem.costs, room, by_cost, *queue)
        return Run(shown, cover, gains, int(left), int(evaluations))


def _arrays(problem: Problem) -> tuple[kernels.Arrays, Int32Array | None]:
    rows = problem.rows
    arrays = kernels.Arrays(
        rows.starts,
        rows.stops,
        rows.weights,
        problem.value,
        problem.own,
        problem.own_weight,
        problem.fidelity,
        problem.scale,
    )
    return arrays, None if rows.dense else rows.indices

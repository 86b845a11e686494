"""The engine on numba. Importing this needs numba; a kernel is compiled when first called and cached on disk."""

from __future__ import annotations

import numpy as np

from memory.plan import FloatArray, IntArray
from memory.selection import kernels
from memory.selection.coverage import Problem
from memory.selection.lazy import Run
from memory.selection.similarity import Float32Array, Int32Array


class NumbaEngine:
    """`NumpyEngine`, compiled: the same choice from the same input."""

    def cover(self, problem: Problem, best: Float32Array, levels: IntArray) -> None:
        kernels.cover(*_arrays(problem), best, levels)

    def first_gains(self, problem: Problem, best: Float32Array, levels: IntArray) -> FloatArray:
        finer = np.arange(problem.levels)[None, :] > levels[:, None]
        candidates, finest = np.nonzero(finer)
        result = np.zeros(problem.fidelity.shape)
        result[candidates, finest] = self.gains(problem, best, candidates, finest)
        return result

    def gains(self, problem: Problem, best: Float32Array, candidates: IntArray, levels: IntArray) -> FloatArray:
        return kernels.gains(*_arrays(problem), best.copy(), candidates, levels)

    def greedy(
        self, problem: Problem, best: Float32Array, levels: IntArray, first: FloatArray, room: int, by_cost: bool
    ) -> Run:
        cover, shown, gains = best.copy(), levels.copy(), first.copy()
        left, evaluations = kernels.greedy(*_arrays(problem), cover, shown, gains, problem.costs, room, by_cost)
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

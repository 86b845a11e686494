"""The engine on numba. Importing this needs numba; a kernel is compiled when first called and cached on disk."""

from __future__ import annotations

import numpy as np

from memory.plan import FloatArray, IntArray
from memory.selection import kernels
from memory.selection.coverage import Problem, Rows
from memory.selection.lazy import Run, first_queue
from memory.selection.similarity import Float32Array, Int32Array, Neighbours


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

    def pack(self, graph: Neighbours, value: Float32Array, own_weight: Float32Array, damping: np.float32) -> Rows:
        count = len(graph)
        stops = np.cumsum(graph.stops - graph.starts + 1)
        starts = np.concatenate([np.zeros(1, dtype=np.int64), stops[:-1]])[:count]
        size = int(stops[-1]) if count else 0
        indices, weights = np.empty(size, dtype=np.int32), np.empty(size, dtype=np.float32)
        kernels.pack(_lists(graph), value, own_weight, damping, starts, indices, weights)
        return Rows(starts, stops, indices, weights, count, False)

    def reached(self, problem: Problem, graph: Neighbours, levels: IntArray) -> Float32Array:
        shown = problem.fidelity[np.arange(len(levels)), levels]
        cover: Float32Array = shown * problem.own_weight
        kernels.reached(_lists(graph), np.float32(problem.damping) * shown, cover)
        return cover

    def offered(self, problem: Problem, graph: Neighbours, cover: Float32Array) -> FloatArray:
        gains = np.zeros(problem.fidelity.shape)
        scale = np.float32(problem.damping) * problem.fidelity
        kernels.offered(_lists(graph), problem.value, problem.own_weight, problem.fidelity, scale, cover, gains)
        return gains


def _lists(graph: Neighbours) -> kernels.Lists:
    return kernels.Lists(graph.starts, graph.stops, graph.indices, graph.weights)


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

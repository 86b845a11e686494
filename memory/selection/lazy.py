"""The lazy queue (CELF): the same choice as plain greedy, with few gains computed again.

All levels of all candidates are in one queue. What a level adds only shrinks as others are taken, and so does what it
adds per token: a coarser level of the same candidate is only taken first when its ratio was better, so the ratio of
what remains to the finer one never exceeds its old key. A level that did not fit never fits later: tokens paid for a
coarser level are missing from the room by the same amount. Hence an old key is an upper bound, and whatever stands on
top with a fresh key is the best of all.

Leskovec et al. 2007; Minoux 1978.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from memory.plan import FloatArray, IntArray
from memory.selection import nearest
from memory.selection.coverage import Problem, Rows
from memory.selection.similarity import Float32Array, Neighbours

FREE = 1e-6
"""Tokens that a level without a price counts as, in a ratio."""

_FIRST_BATCH = 8
_MAX_BATCH = 256


@dataclass(frozen=True, slots=True)
class Run:
    """One greedy pass. ``levels`` (n,), ``best`` (m,) each client's cover, ``gains`` (n, L) upper bounds of what each
    level would still add, ``room`` tokens left, ``evaluations`` gains computed."""

    levels: IntArray
    best: Float32Array
    gains: FloatArray
    room: int
    evaluations: int


class Engine(Protocol):
    """Where the work is done: `NumpyEngine`, or the compiled one of `memory.selection.compiled`."""

    def cover(self, problem: Problem, best: Float32Array, levels: IntArray) -> None:
        """Raise ``best`` (m,) in place by every candidate at its level of ``levels`` (n,)."""

    def first_gains(self, problem: Problem, best: Float32Array, levels: IntArray) -> FloatArray:
        """(n, L) what each level finer than ``levels`` adds; 0 elsewhere."""

    def gains(self, problem: Problem, best: Float32Array, candidates: IntArray, levels: IntArray) -> FloatArray:
        """(b,) what each (candidate, level) adds."""

    def greedy(
        self, problem: Problem, best: Float32Array, levels: IntArray, first: FloatArray, room: int, by_cost: bool
    ) -> Run:
        """Take levels while they fit ``room``: by gain per token, or by gain. Arguments are not changed."""

    def pack(self, graph: Neighbours, value: Float32Array, own_weight: Float32Array, damping: np.float32) -> Rows:
        """See `memory.selection.nearest`, also for the next two."""

    def reached(self, problem: Problem, graph: Neighbours, levels: IntArray) -> Float32Array: ...

    def offered(self, problem: Problem, graph: Neighbours, cover: Float32Array) -> FloatArray: ...


class NumpyEngine:
    """The reference: everything in numpy."""

    def cover(self, problem: Problem, best: Float32Array, levels: IntArray) -> None:
        problem.cover(best, levels)

    def first_gains(self, problem: Problem, best: Float32Array, levels: IntArray) -> FloatArray:
        result = np.zeros(problem.fidelity.shape)
        finer = np.arange(problem.levels)[None, :] > levels[:, None]
        candidates, finest = np.nonzero(finer)
        result[candidates, finest] = problem.gains(best, candidates, finest)
        return result

    def gains(self, problem: Problem, best: Float32Array, candidates: IntArray, levels: IntArray) -> FloatArray:
        return problem.gains(best, candidates, levels)

    def greedy(
        self, problem: Problem, best: Float32Array, levels: IntArray, first: FloatArray, room: int, by_cost: bool
    ) -> Run:
        queue = _Queue(problem, best.copy(), levels.copy(), first.copy(), room, by_cost)
        queue.run()
        return Run(queue.levels, queue.best, queue.gains, queue.room, queue.evaluations)

    def pack(self, graph: Neighbours, value: Float32Array, own_weight: Float32Array, damping: np.float32) -> Rows:
        return nearest.pack(graph, value, own_weight, damping)

    def reached(self, problem: Problem, graph: Neighbours, levels: IntArray) -> Float32Array:
        return nearest.reached(problem, graph, levels)

    def offered(self, problem: Problem, graph: Neighbours, cover: Float32Array) -> FloatArray:
        return nearest.offered(problem, graph, cover)


class _Queue:
    """State of one pass. Heap entries are (-key, -element) with element = candidate * L + level: of equal keys the
    newer candidate is first, then its finer level."""

    def __init__(
        self, problem: Problem, best: Float32Array, levels: IntArray, gains: FloatArray, room: int, by_cost: bool
    ) -> None:
        self.problem, self.best, self.levels, self.gains, self.room, self.by_cost = (
            problem, best, levels, gains, room, by_cost,
        )  # fmt: skip
        self.evaluations = 0
        self._taken = 0
        self._costs = problem.costs.tolist()
        elements, keys = first_queue(problem, levels, gains, room, by_cost)
        self._heap = list(zip((-keys).tolist(), (-elements).tolist(), strict=True))
        self._fresh = [0] * gains.size

    def run(self) -> None:
        """Take levels until nothing that adds something fits."""
        batch = _FIRST_BATCH
        while self._heap:
            element = -self._heap[0][1]
            if not self._fits(element):
                heapq.heappop(self._heap)
            elif self._fresh[element] == self._taken:
                heapq.heappop(self._heap)
                self._take(element)
                batch = _FIRST_BATCH
            else:
                self._renew(batch)
                batch = min(2 * batch, _MAX_BATCH)

    def _extra(self, element: int) -> int:
        """Tokens that the element costs now; negative for one that is not finer than what is shown."""
        candidate, level = divmod(element, self.problem.levels)
        shown = int(self.levels[candidate])
        return self._costs[candidate][level] - self._costs[candidate][shown] if level > shown else -1

    def _fits(self, element: int) -> bool:
        return 0 <= self._extra(element) <= self.room

    def _take(self, element: int) -> None:
        candidate, level = divmod(element, self.problem.levels)
        self.room -= self._extra(element)
        self.problem.take(self.best, candidate, level)
        self.levels[candidate] = level
        self.gains[candidate, : level + 1] = 0.0
        self._taken += 1

    def _renew(self, batch: int) -> None:
        """Compute the gains of the first ``batch`` elements anew, as far as they are old ones."""
        stale: list[int] = []
        while self._heap and len(stale) < batch:
            element = -self._heap[0][1]
            if self._fits(element):
                if self._fresh[element] == self._taken:
                    break
                stale.append(element)
            heapq.heappop(self._heap)
        elements = np.array(stale, dtype=np.int64)
        candidates, levels = np.divmod(elements, self.problem.levels)
        gains = self.problem.gains(self.best, candidates, levels)
        self.gains[candidates, levels] = gains
        self.evaluations += len(stale)
        for key, element, gain in zip(self._keys(elements, gains).tolist(), stale, gains.tolist(), strict=True):
            self._fresh[element] = self._taken
            if gain > 0:
                heapq.heappush(self._heap, (-key, -element))

    def _keys(self, elements: IntArray, gains: FloatArray) -> FloatArray:
        return _keys(self.problem, self.levels, elements, gains, self.by_cost)


def first_queue(
    problem: Problem, levels: IntArray, gains: FloatArray, room: int, by_cost: bool
) -> tuple[IntArray, FloatArray]:
    """(elements, keys) of all that adds something and fits, in order: element = candidate * L + level."""
    fits = problem.costs - problem.costs[np.arange(len(levels)), levels][:, None] <= room
    elements = np.flatnonzero((gains > 0) & fits)[::-1]
    keys = _keys(problem, levels, elements, gains.ravel()[elements], by_cost)
    order = np.argsort(-keys)
    ordered = keys[order]
    if (ordered[1:] == ordered[:-1]).any():  # rare, and sorting with care takes seven times as long
        order = np.argsort(-keys, kind="stable")
    return elements[order], ordered


def _keys(problem: Problem, levels: IntArray, elements: IntArray, gains: FloatArray, by_cost: bool) -> FloatArray:
    if not by_cost:
        return gains
    candidates, finer = np.divmod(elements, problem.levels)
    extra = problem.costs[candidates, finer] - problem.costs[candidates, levels[candidates]]
    result: FloatArray = gains / np.maximum(extra, FREE)
    return result

"""From what the caller has (values, costs, similarity) to a solved problem, by the method that suits its size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from memory.plan import FloatArray, IntArray
from memory.selection.coverage import Problem, Rows
from memory.selection.graph import DENSE_LIMIT, neighbours
from memory.selection.lazy import Engine
from memory.selection.similarity import Cosines, Float32Array, Keys, Neighbours, Similarity
from memory.selection.solve import ENOUGH, Solution, solve
from memory.selection.staged import two_stage

Method: TypeAlias = Literal["auto", "dense", "sparse", "two-stage"]
BoundOver: TypeAlias = Literal["pool", "graph", "shortlist"]

_LONG_SEARCH = 0.3
"""From this share of the pool's tokens on, many items are taken and the graph alone is as good."""

_FEW = 24
"""Neighbours that are enough then."""


@dataclass(frozen=True, slots=True)
class Pool:
    """n items: ``value`` (n,) r, ``fidelity`` and ``costs`` (n, L), ``damping`` c, who is like whom."""

    value: FloatArray
    fidelity: FloatArray
    costs: IntArray
    damping: float
    similarity: Similarity

    def __len__(self) -> int:
        return len(self.value)

    def problem(self, source: Float32Array | Neighbours, worker: Engine) -> Problem:
        """The problem of covering all with all cosines, or with the neighbours of each.

        Undamped cosines hold that of an item with itself already. Left in its place there, it does not change the
        order of a sum, and equal items have equal gains to the last bit.
        """
        dense = isinstance(source, np.ndarray)
        own = source.diagonal() if isinstance(source, np.ndarray) else source.own
        unit = float(self.value.max(initial=0.0)) or 1.0
        value = (self.value / unit).astype(np.float32)
        own_weight = (1 - self.damping + self.damping * np.maximum(own, 0)).astype(np.float32)
        fidelity = self.fidelity.astype(np.float32, order="C")
        damping = np.float32(self.damping)
        return Problem(
            Rows.of_matrix(source)
            if isinstance(source, np.ndarray)
            else worker.pack(source, value, own_weight, damping),
            value,
            unit,
            np.arange(len(self)) if dense and self.damping < 1 else np.full(len(self), -1),
            own_weight,
            fidelity,
            damping * fidelity if dense else fidelity,
            np.ascontiguousarray(self.costs),
            self.damping,
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """``levels`` (n,), how they were found, F of them and of the floor alone, and an upper bound of F over
    ``bound_over``."""

    levels: IntArray
    objective: float
    base: float
    upper_bound: float
    bound_over: BoundOver
    evaluations: int
    method: Method


def solve_pool(pool: Pool, floor: IntArray, room: int, *, method: Method, worker: Engine, both: bool) -> Answer:
    """Maximise F with at most ``room`` tokens above ``floor`` (n,). Raises ValueError where the method has not what it
    needs."""
    if method not in get_args(Method):
        raise ValueError(f"unknown method {method!r}")
    if len(pool.similarity) != len(pool):
        raise ValueError(f"similarity is over {len(pool.similarity)} items, not {len(pool)}")
    suited = _suited(pool, room) if method == "auto" else method
    if suited == "dense":
        problem = pool.problem(_cosines(pool.similarity), worker)
        return _answer(problem, solve(problem, floor, room, worker, both=both), "pool", suited)
    graph = _graph(pool.similarity, suited)
    if method == "auto" and suited == "sparse":
        graph = graph.nearest(_FEW)
    problem = pool.problem(graph, worker)
    if suited == "sparse":
        found = solve(problem, floor, room, worker, both=both, enough=ENOUGH)
        return _answer(problem, found, "graph", suited)
    if graph.keys is None:
        raise ValueError("two-stage needs the keys of the neighbours")
    found, whole = two_stage(problem, graph, graph.keys, floor, room, worker, both=both)
    return _answer(problem, found, "pool" if whole else "shortlist", suited)


def _graph(similarity: Similarity, method: Method) -> Neighbours:
    if isinstance(similarity, Cosines):
        raise ValueError(f"{method} needs keys or neighbours; all cosines are best used as they are")
    return similarity if isinstance(similarity, Neighbours) else neighbours(similarity)


def _answer(problem: Problem, found: Solution, over: BoundOver, method: Method) -> Answer:
    unit = problem.unit
    return Answer(
        found.levels,
        found.objective * unit,
        found.base * unit,
        found.upper_bound * unit,
        over,
        found.evaluations,
        method,
    )


def _suited(pool: Pool, room: int) -> Method:
    similarity = pool.similarity
    if isinstance(similarity, Cosines):
        return "dense"
    keys = similarity.rows if isinstance(similarity, Keys) else similarity.keys
    if keys is None:
        return "sparse"
    if len(pool) <= DENSE_LIMIT:
        return "dense"
    whole = int((pool.costs[:, -1] - pool.costs[:, 0]).sum())
    return "sparse" if room >= _LONG_SEARCH * whole else "two-stage"


def _cosines(similarity: Similarity) -> Float32Array:
    if isinstance(similarity, Cosines):
        return similarity.matrix
    keys = similarity.rows if isinstance(similarity, Keys) else similarity.keys
    if keys is None:
        raise ValueError("dense needs the keys of the neighbours")
    matrix: Float32Array = keys @ keys.T
    return matrix

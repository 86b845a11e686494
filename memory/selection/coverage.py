"""The objective of both selectors: how well a set of levels covers the pool, and what one more level would add.

F(S) = sum_i r_i * max_{(j, g) in S} phi_jg * c_ij with c_ij = (1 - c) [i = j] + c * max(0, cos_ij). Plain facility
location (PACMS) is the case of two levels, "out" with phi 0 and cost 0 and "in" with phi 1, and c = 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memory.plan import FloatArray, IntArray
from memory.selection.similarity import Float32Array, Int32Array

_BLOCK = 1 << 18
"""Similarities looked at in one go."""


@dataclass(frozen=True, slots=True)
class Rows:
    """For each of n candidates what it shares with m clients. ``dense``: its cosines to all m in order, ``indices`` is
    empty. Otherwise r_i * c_ij of some clients i, itself among them: the value of a client would have to be gathered
    for every gain, which takes three times as long."""

    starts: IntArray
    stops: IntArray
    indices: Int32Array
    weights: Float32Array
    clients: int
    dense: bool

    @classmethod
    def of_matrix(cls, matrix: Float32Array) -> Rows:
        """Rows of (n, m) cosines; not copied if a row is contiguous."""
        count, clients = matrix.shape
        if matrix.strides[1] != 4 or matrix.strides[0] % 4 or (count > 1 and matrix.strides[0] < 4 * clients):
            matrix = np.ascontiguousarray(matrix)
        stride = matrix.strides[0] // 4
        length = (count - 1) * stride + clients if count and clients else 0
        flat = np.lib.stride_tricks.as_strided(matrix, (length,), (4,), writeable=False)
        starts = np.arange(count, dtype=np.int64) * stride
        return cls(starts, starts + clients, np.zeros(0, dtype=np.int32), flat, clients, True)


def positions(starts: IntArray, stops: IntArray, candidates: IntArray) -> tuple[IntArray, IntArray]:
    """Where the entries of the rows ``candidates`` stand: (row in ``candidates``, position), flat."""
    lengths = stops[candidates] - starts[candidates]
    rows = np.repeat(np.arange(len(candidates)), lengths)
    shift = starts[candidates] - (np.cumsum(lengths) - lengths)
    return rows, np.arange(len(rows)) + shift[rows]


@dataclass(frozen=True, slots=True)
class Problem:
    """n candidates with L levels each, covering m clients.

    ``value`` (m,) is r in units of ``unit``, at most 1; ``own`` (n,) which client a candidate is, -1 if its row says
    all, and ``own_weight`` (n,) its c_jj; ``fidelity`` (n, L) is phi, non-decreasing along a row, and ``scale`` (n, L)
    what a row is multiplied by; ``costs`` (n, L) tokens, non-decreasing. ``best`` (m,), the cover of each client, is
    times r where rows are not dense. Covers and gains are float32, three times as fast as float64.
    """

    rows: Rows
    value: Float32Array
    unit: float
    own: IntArray
    own_weight: Float32Array
    fidelity: Float32Array
    scale: Float32Array
    costs: IntArray
    damping: float

    @property
    def levels(self) -> int:
        return int(self.fidelity.shape[1])

    def gains(self, best: Float32Array, candidates: IntArray, levels: IntArray) -> FloatArray:
        """(b,) what each (candidate, level) adds to F, in ``unit``, where ``best`` (m,) is each client's cover."""
        scale = self.scale[candidates, levels]
        if not self.rows.dense:
            return self._sparse(best, candidates, scale)
        own = self.own[candidates]
        known = own >= 0
        result = self._dense(best, candidates, scale)
        mine = own[known]
        direct = self.fidelity[candidates, levels][known] * self.own_weight[candidates][known]
        result[known] += self.value[mine] * np.maximum(direct - best[mine], 0)
        return result

    def _dense(self, best: Float32Array, candidates: IntArray, scale: Float32Array) -> FloatArray:
        rows = self.rows
        result = np.empty(len(candidates))
        step = max(1, _BLOCK // max(1, rows.clients))
        for first in range(0, len(candidates), step):
            part = slice(first, first + step)
            over = np.array([rows.weights[rows.starts[j] : rows.stops[j]] for j in candidates[part]])
            over *= scale[part, None]
            over -= best
            np.maximum(over, 0, out=over)
            own = self.own[candidates[part]]
            known = np.flatnonzero(own >= 0)
            over[known, own[known]] = 0
            # einsum adds up a row in the same order whatever the number of rows, so that gains never rise by rounding
            result[part] = np.einsum("ij,j->i", over, self.value)
        return result

    def _sparse(self, best: Float32Array, candidates: IntArray, scale: Float32Array) -> FloatArray:
        row, position = positions(self.rows.starts, self.rows.stops, candidates)
        over = scale[row] * self.rows.weights[position] - best[self.rows.indices[position]]
        sums = np.bincount(row, weights=np.maximum(over, 0), minlength=len(candidates))
        return np.asarray(sums, dtype=np.float64)

    def take(self, best: Float32Array, candidate: int, level: int) -> None:
        """Raise ``best`` in place by what ``candidate`` at ``level`` covers."""
        rows = self.rows
        row = slice(rows.starts[candidate], rows.stops[candidate])
        cover = self.scale[candidate, level] * rows.weights[row]
        if rows.dense:
            np.maximum(best, cover, out=best)
        else:
            client = rows.indices[row]
            best[client] = np.maximum(best[client], cover)
        own = self.own[candidate]
        if own >= 0:
            best[own] = max(best[own], self.fidelity[candidate, level] * self.own_weight[candidate])

    def cover(self, best: Float32Array, levels: IntArray) -> None:
        """Raise ``best`` in place by every candidate at its level of ``levels`` (n,)."""
        shown = np.flatnonzero(self.fidelity[np.arange(len(levels)), levels] > 0)
        for candidate in shown.tolist():
            self.take(best, candidate, int(levels[candidate]))

    def objective(self, best: Float32Array) -> float:
        """F in ``unit``, from each client's cover (m,)."""
        return float(np.dot(self.value.astype(np.float64), best) if self.rows.dense else best.sum(dtype=np.float64))

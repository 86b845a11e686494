"""Why each candidate was kept or dropped: scores, order, gains and a reason in words."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from memory.plan import FloatArray, IntArray
from memory.selection.similarity import Float32Array
from runners.service.selecting import Working

_NOTHING = 1e-9
"""Gains below this share of F add nothing."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One candidate. ``order``: place in the order of choice, from 0; None when dropped. ``gain``: what it added to F
    when it was chosen, or would add to what is chosen (``pacms`` and ``mmr`` only)."""

    id: str
    kept: bool
    tokens: int
    score: float
    order: int | None
    gain: float | None
    reason: str


def explain(working: Working) -> tuple[Decision, ...]:
    """One decision for each candidate, in their order. O(m k) for m that competed and k chosen, besides the gains."""
    order, gains = _order(working)
    places = {int(row): place for place, row in enumerate(order)}
    room = working.ask.budget - int(working.costs[working.chosen].sum())
    decisions = []
    for row, candidate in enumerate(working.ask.candidates):
        reason = _why_kept(working, row) if row in places else _why_dropped(working, row, gains, room)
        decisions.append(
            Decision(
                candidate.id,
                row in places,
                int(working.costs[row]),
                float(working.scores[row]),
                places.get(row),
                gains.get(row),
                reason,
            )
        )
    return tuple(decisions)


def _order(working: Working) -> tuple[IntArray, dict[int, float]]:
    """Chosen rows in order of choice; gains by row, where the strategy has cosines."""
    if working.cosines is not None:
        return _by_gain(working, working.cosines)
    by_age = working.ask.strategy == "last-k" or not (working.scores > 0).any()
    rest = np.setdiff1d(working.chosen, working.keep)[::-1]
    if not by_age:
        rest = rest[np.lexsort((-rest, -working.scores[rest]))]
    return np.concatenate([working.keep, rest]), {}


def _by_gain(working: Working, cosines: Float32Array) -> tuple[IntArray, dict[int, float]]:
    """The chosen, must-keep first, then always the one that adds most to F(S) = sum_i rel_i max_{j in S} cos_ij."""
    rows = working.rows
    value = np.maximum(working.scores[rows], 0.0)
    keep = np.searchsorted(rows, working.keep)
    chosen = np.searchsorted(rows, working.chosen)
    covered = np.zeros(len(rows))
    gains: dict[int, float] = {}
    order: list[int] = []

    def gain(item: int) -> float:
        return float(value @ np.maximum(cosines[item] - covered, 0.0))

    def take(item: int) -> None:
        gains[int(rows[item])] = gain(item)
        np.maximum(covered, cosines[item], out=covered)
        order.append(int(rows[item]))

    for item in keep.tolist():
        take(item)
    waiting = [(-gain(item), -item, item) for item in np.setdiff1d(chosen, keep).tolist()]
    heapq.heapify(waiting)
    while waiting:
        _, _, item = heapq.heappop(waiting)
        now = (-gain(item), -item, item)
        if waiting and now > waiting[0]:
            heapq.heappush(waiting, now)  # its old gain was an upper bound
        else:
            take(item)
    dropped = np.setdiff1d(np.arange(len(rows)), chosen)
    gains.update({int(rows[item]): gain(item) for item in dropped.tolist()})
    return np.array(order, dtype=np.int64), gains


def _why_kept(working: Working, row: int) -> str:
    if row in working.keep:
        return "must-keep"
    if working.cosines is not None:
        return "adds to what is covered" if working.ask.strategy == "pacms" else "relevant, and unlike what is chosen"
    return "among the newest" if working.ask.strategy == "last-k" else "among the most relevant"


def _why_dropped(working: Working, row: int, gains: dict[int, float], room: int) -> str:
    if row in working.duplicates:
        return "the same text stands in a kept candidate"
    if int(working.costs[row]) > working.ask.budget:
        return "longer than the whole budget"
    if row in gains and gains[row] <= _NOTHING * max(_total(working.scores), _NOTHING):
        return _covered_by(working, row)
    if int(working.costs[row]) > room:
        return "no room left; what was chosen is worth more"
    if working.cosines is not None and row not in gains:
        return "not among the most relevant, which compete"
    return "ranked below what was chosen"


def _covered_by(working: Working, row: int) -> str:
    if working.scores[row] <= 0:
        return "not relevant to the query"
    assert working.cosines is not None
    within = np.searchsorted(working.rows, working.chosen)
    if not len(within):
        return "adds nothing"
    nearest = int(working.chosen[working.cosines[np.searchsorted(working.rows, row), within].argmax()])
    return f"covered by {working.ask.candidates[nearest].id}"


def _total(scores: FloatArray) -> float:
    return float(np.maximum(scores, 0.0).sum())

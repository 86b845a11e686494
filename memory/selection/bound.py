"""How much any choice within a budget could still add, from what each element would add alone."""

from __future__ import annotations

import numpy as np

from memory.plan import FloatArray, IntArray


def knapsack_bound(gains: FloatArray, costs: IntArray, room: int) -> tuple[float, float]:
    """(bound, price): the fractional multiple-choice knapsack, and what a token is worth where its room ends.

    ``gains`` (n, L) >= 0, upper bounds of what each level of each candidate adds; ``costs`` (n, L) tokens above the
    floor, where both are 0. Since F is submodular, no levels within ``room`` add more than the bound. The price is 0
    if everything fits.
    """
    gain, cost = _steps(gains, costs)
    free = cost == 0
    bound = float(gain[free].sum())
    gain, cost = gain[~free], cost[~free]
    order = np.argsort(-gain / cost)
    spent = np.cumsum(cost[order])
    whole = int(np.searchsorted(spent, room, side="right"))
    bound += float(gain[order[:whole]].sum())
    if whole == len(order):
        return bound, 0.0
    last = order[whole]
    price = float(gain[last] / cost[last])
    left = room - (int(spent[whole - 1]) if whole else 0)
    return bound + price * left, price


def _steps(gains: FloatArray, costs: IntArray) -> tuple[FloatArray, IntArray]:
    """The corners of each candidate's concave hull of (cost, gain), as flat differences (gain, cost) of positive gain:
    the best ratio first, then the best from there, and so on."""
    live = (gains > 0).any(axis=1)
    gains, costs = gains[live], costs[live]
    count, levels = gains.shape
    if levels == 2:
        return gains[:, 1], costs[:, 1]
    rows = np.arange(count)
    at_gain, at_cost = np.zeros(count), np.zeros(count, dtype=np.int64)
    found_gain, found_cost = [], []
    for _ in range(levels - 1):
        more, extra = gains - at_gain[:, None], costs - at_cost[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where((more > 0) & (extra >= 0), more / extra, -1.0)
        best = ratio.argmax(axis=1)
        taken = ratio[rows, best] > 0
        if not taken.any():
            break
        found_gain.append(more[rows, best][taken])
        found_cost.append(extra[rows, best][taken])
        at_gain = np.where(taken, gains[rows, best], at_gain)
        at_cost = np.where(taken, costs[rows, best], at_cost)
    if not found_gain:
        return np.zeros(0), np.zeros(0, dtype=np.int64)
    return np.concatenate(found_gain), np.concatenate(found_cost)

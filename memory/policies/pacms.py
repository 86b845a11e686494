"""pacms: the steps that together cover everything relevant best (PACMS, section 3)."""

from __future__ import annotations

import numpy as np

from memory.plan import ContextPlan, PlanInput
from memory.policies.alike import Alike
from memory.policies.base import PolicyBase
from memory.policies.selector import SelectorConfig, offered, planned, shortlist
from memory.selection.facility import select
from memory.selection.ranked import last_k_fill


class PacmsConfig(SelectorConfig):
    """Facility location has no constants."""


class Pacms(PolicyBase):
    """Maximise F(S) = sum_i rel_i * max_{j in S} max(0, cos_ij), rel_i = max(0, cos(i, query)), under the budget, by
    lazy greedy: at least (1 - 1/e)/2 of the optimum. The plan carries F and an upper bound on it, both over the
    shortlist. What adds nothing is not chosen, so some of the budget may stay unused."""

    name = "pacms"
    needs = frozenset({"keys"})

    def __init__(self, config: PacmsConfig | None = None) -> None:
        self.config = config or PacmsConfig()
        self._alike = Alike()

    def plan(self, given: PlanInput) -> ContextPlan:
        """O(n d) for the similarities of each chunk that is new in the shortlist of n. Without a positive cosine
        recency decides."""
        offer = offered(given, self.config)
        if offer.recency:
            return planned(offer, last_k_fill(offer.costs, offer.room, offer.kept))
        if given.still:
            return planned(offer, offer.kept)
        rows = shortlist(offer)
        found = select(
            offer.relevance[rows],
            self._alike.cosines(given.pool.keys, rows),
            offer.costs[rows],
            offer.room,
            np.searchsorted(rows, offer.kept).tolist(),
        )
        return planned(offer, rows[found.chosen], objective=found.objective, upper_bound=found.upper_bound)

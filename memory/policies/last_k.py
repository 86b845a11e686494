"""last-k: the newest steps that the budget holds (PACMS, baselines)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from memory.plan import ContextPlan, PlanInput
from memory.policies.base import PolicyBase
from memory.policies.selector import SelectorConfig, offered, planned
from memory.selection.ranked import last_k_fill


class LastKConfig(SelectorConfig):
    """Nothing of its own."""


class LastK(PolicyBase):
    """Truncation by age: blind to what a step says. Ends at the first chunk, from the newest on, that does not fit."""

    name = "last-k"

    def __init__(self, config: LastKConfig | None = None) -> None:
        self.config = config or LastKConfig()

    def plan(self, given: PlanInput) -> ContextPlan:
        """O(M). A chunk is worth more the newer it is."""
        offer = offered(given, self.config)
        count = len(given.pool)
        offer = replace(offer, relevance=np.arange(1, count + 1, dtype=np.float64) / max(1, count))
        return planned(offer, last_k_fill(offer.costs, offer.room, offer.kept))

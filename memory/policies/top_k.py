"""top-k: the most relevant steps that the budget holds (PACMS, baselines)."""

from __future__ import annotations

from memory.plan import ContextPlan, PlanInput
from memory.policies.base import PolicyBase
from memory.policies.selector import SelectorConfig, offered, planned
from memory.selection.ranked import top_k_fill


class TopKConfig(SelectorConfig):
    """Nothing of its own."""


class TopK(PolicyBase):
    """Best cosine first, the newer among equals. Ends at the first chunk that does not fit."""

    name = "top-k"

    def __init__(self, config: TopKConfig | None = None) -> None:
        self.config = config or TopKConfig()

    def plan(self, given: PlanInput) -> ContextPlan:
        """O(M log M)."""
        offer = offered(given, self.config)
        return planned(offer, top_k_fill(offer.relevance, offer.costs, offer.room, offer.kept))

"""rag: a fixed number of the most relevant steps, then cut to the budget (PACMS, baselines)."""

from __future__ import annotations

from pydantic import Field

from memory.plan import ContextPlan, PlanInput
from memory.policies.base import PolicyBase
from memory.policies.selector import SelectorConfig, offered, planned
from memory.selection.ranked import rag


class RagConfig(SelectorConfig):
    """Retrieval as most frameworks ship it."""

    k: int = Field(10, ge=0)
    """Chunks retrieved, whatever the budget could hold."""


class Rag(PolicyBase):
    """The k best cosines, cut in order of relevance, shown in order of time."""

    name = "rag"

    def __init__(self, config: RagConfig | None = None) -> None:
        self.config = config or RagConfig.model_validate({})

    def plan(self, given: PlanInput) -> ContextPlan:
        """O(M log M)."""
        offer = offered(given, self.config)
        return planned(offer, rag(offer.relevance, offer.costs, offer.room, self.config.k, offer.kept))

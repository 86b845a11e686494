"""mmr: relevance against redundancy, pair by pair, by LangChain's rule (Carbonell and Goldstein 1998)."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from memory.plan import ContextPlan, PlanInput
from memory.policies.base import PolicyBase
from memory.policies.selector import SelectorConfig, keys_of, offered, planned, shortlist
from memory.selection.mmr import mmr
from memory.selection.ranked import last_k_fill
from memory.selection.similarity import Keys


class MmrConfig(SelectorConfig):
    """The constant of the rule."""

    mult: float = Field(0.5, ge=0, le=1)
    """Weight of the similarity to the query; the rest is the weight of the similarity to what is chosen already."""


class Mmr(PolicyBase):
    """First the best match; then what scores best on mult * cos(query) - (1 - mult) * max cos(chosen). What does not
    fit is skipped. Of a large pool the most relevant compete (the rule's own ``fetch_k``)."""

    name = "mmr"
    needs = frozenset({"keys"})

    def __init__(self, config: MmrConfig | None = None) -> None:
        self.config = config or MmrConfig.model_validate({})

    def plan(self, given: PlanInput) -> ContextPlan:
        """O(n d) for each chunk chosen, n the shortlist. Without a positive cosine recency decides."""
        offer = offered(given, self.config)
        if offer.recency:
            return planned(offer, last_k_fill(offer.costs, offer.room, offer.kept))
        rows = shortlist(offer)
        chosen = mmr(
            offer.scores[rows],
            Keys(keys_of(given.pool, rows)),
            offer.costs[rows],
            offer.room,
            np.searchsorted(rows, offer.kept).tolist(),
            mult=self.config.mult,
        )
        return planned(offer, rows[chosen])

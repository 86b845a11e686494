"""ReAct: the whole history, always FULL. The baseline that ends when the budget does."""

from __future__ import annotations

import numpy as np
from pydantic import BaseModel, ConfigDict

from memory.plan import ContextPlan, PlanInput
from memory.policies.base import PolicyBase
from memory.records import Level


class ReactConfig(BaseModel):
    """ReAct has no constants."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class React(PolicyBase):
    """Everything FULL; under ``overflow: fit`` the oldest steps give way first, as a truncating loop would do."""

    name = "react"

    def __init__(self, config: ReactConfig | None = None) -> None:
        self.config = config or ReactConfig()

    def plan(self, given: PlanInput) -> ContextPlan:
        """FULL for every chunk; a chunk is worth more the newer it is."""
        count = len(given.pool)
        levels = np.full(count, int(Level.FULL), dtype=np.int8)
        return ContextPlan(levels, np.arange(1, count + 1, dtype=np.float64) / max(1, count))

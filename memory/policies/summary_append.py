"""summary-append: every old step is shown as its own summary, appended in order; the newest steps stay raw.

The "cumulative summaries at each step" of the PACE paper's baselines. What is left to the summariser decides its
longevity: the context grows by one summary a step.
"""

from __future__ import annotations

import numpy as np
from pydantic import BaseModel, ConfigDict

from memory.plan import ContextPlan, PlanInput
from memory.policies.base import PolicyBase
from memory.policies.blocks import recency
from memory.policies.pace import fill_missing
from memory.records import Level


class SummaryAppendConfig(BaseModel):
    """summary-append has no constants: how long a summary is, is the summariser's setting."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class SummaryAppend(PolicyBase):
    """DETAILED for every old chunk. A summary that is not there yet is FULL where the budget allows it, else the
    placeholder: unlike the published baseline, the loop does not wait."""

    name = "summary-append"

    def __init__(self, config: SummaryAppendConfig | None = None) -> None:
        self.config = config or SummaryAppendConfig()

    def plan(self, given: PlanInput) -> ContextPlan:
        """O(M)."""
        count = len(given.pool)
        values = recency(count)
        wanted = np.full(count, int(Level.DETAILED), dtype=np.int8)
        return ContextPlan(fill_missing(wanted, values, given), values, ceiling=Level.DETAILED)

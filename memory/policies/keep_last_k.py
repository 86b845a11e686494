"""keep-last-k: old tool results are cleared, the newest K stay (MiroThinker; provider-side clearing does the same)."""

from __future__ import annotations

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from memory.plan import BoolArray, ContextPlan, PlanInput
from memory.policies.base import PolicyBase
from memory.records import Level


class KeepLastKConfig(BaseModel):
    """How many stay."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    k: int = Field(5, ge=0)
    """Tool results that stay whole, counted from the newest, those of the recent window included."""


class KeepLastK(PolicyBase):
    """Steps with a tool result are FULL while among the newest K, and their one line after that; steps without one
    (answers, notes) stay FULL.

    The published form keeps thought and call and replaces the observation by a fixed sentence. A chunk has no such
    level: its placeholder names the tool, the page or query, the size and the outcome, and leaves the thought out. It
    is the nearest there is, and shorter.
    """

    name = "keep-last-k"
    needs = frozenset({"kinds"})

    def __init__(self, config: KeepLastKConfig | None = None) -> None:
        self.config = config or KeepLastKConfig.model_validate({})

    def plan(self, given: PlanInput) -> ContextPlan:
        """O(M). A chunk is worth more the newer it is."""
        count = len(given.pool)
        result = _has_result(given)
        newer = np.cumsum(result[::-1])[::-1] + sum(bool(tools) for tools in given.recent)
        cleared = result & (newer > self.config.k)
        levels = np.where(cleared, int(Level.PLACEHOLDER), int(Level.FULL)).astype(np.int8)
        values = np.arange(1, count + 1, dtype=np.float64) / max(1, count)
        return ContextPlan(levels, values, ceiling=Level.PLACEHOLDER)


def _has_result(given: PlanInput) -> BoolArray:
    """(M,) whether a step has a tool result; where the kinds are unknown every step has."""
    kinds = given.pool.kinds
    if kinds is None:
        return np.ones(len(given.pool), dtype=np.bool_)
    return np.array([kind == "act" for kind in kinds], dtype=np.bool_)

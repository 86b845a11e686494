"""summary-restart: near the budget the history becomes one summary and starts anew (ReSum).

Published: at 0.9 of the budget the context is question + summary, no recent turns kept. Here the recent window stays
(set ``memory.recent: 1``, as the shipped file does, for the closest form): the newest step has not been read by the
model when the summary is made, and a result that nobody saw must not vanish. The summary covers all before it.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from memory.plan import ContextPlan, NeedsSummary, PlanInput
from memory.policies.base import PolicyBase
from memory.policies.blocks import in_force, may_ask, planned_tokens, text_bound, under_blocks

KIND = "summary"


class SummaryRestartConfig(BaseModel):
    """When a history is summarised, and into how much."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    share: float = Field(0.9, gt=0, le=1)
    """Part of the budget that a plan may take before it is summarised."""
    tokens: int = Field(2_000, ge=100, le=32_000)
    """Most tokens of the summary."""


class SummaryRestart(PolicyBase):
    """Everything FULL after the summary; the summary is remade, its predecessor merged, when that is too much."""

    name = "summary-restart"
    owns_compaction = True

    def __init__(self, config: SummaryRestartConfig | None = None) -> None:
        self.config = config or SummaryRestartConfig.model_validate({})

    def plan(self, given: PlanInput) -> ContextPlan | NeedsSummary:
        """O(M). Asks at most once a step: what it asked for covers every old chunk."""
        plan = summarised(given)
        if planned_tokens(plan, given) > self.config.share * given.budget and may_ask(given):
            return next_summary(given, plan, self.config.tokens) or plan
        return plan

    def compact(self, given: PlanInput) -> NeedsSummary | None:
        """A summary of all that the last one does not cover, now."""
        return next_summary(given, summarised(given), self.config.tokens)


def summarised(given: PlanInput) -> ContextPlan:
    """The newest summary in place of what it covers; all after it FULL."""
    return under_blocks(given, in_force(given.blocks, {KIND}, len(given.pool))[-1:])


def uncovered(given: PlanInput, plan: ContextPlan) -> int:
    """Old chunks after the summary."""
    return max(0, len(given.pool) - (plan.blocks[-1].last if plan.blocks else 0))


def next_summary(given: PlanInput, plan: ContextPlan, tokens: int) -> NeedsSummary | None:
    """The summary merged with every old chunk after it; None when there is none."""
    count, fresh = len(given.pool), uncovered(given, plan)
    if fresh == 0:
        return None
    merge = plan.blocks[-1] if plan.blocks else None
    return NeedsSummary(count - fresh + 1, count, KIND, merge, text_bound(tokens, given.budget))

"""summary-rolling: one running summary; every few steps it takes in what became old since."""

from __future__ import annotations

from pydantic import Field

from memory.plan import ContextPlan, NeedsSummary, PlanInput
from memory.policies.blocks import may_ask, planned_tokens
from memory.policies.summary_restart import (
    SummaryRestart,
    SummaryRestartConfig,
    next_summary,
    summarised,
    uncovered,
)


class SummaryRollingConfig(SummaryRestartConfig):
    """When the running summary is brought up to date."""

    every: int = Field(10, ge=1)
    """Old steps after the summary that bring it up to date; sooner when ``share`` of the budget is reached."""


class SummaryRolling(SummaryRestart):
    """Old summary + new steps -> new summary."""

    name = "summary-rolling"

    def __init__(self, config: SummaryRollingConfig | None = None) -> None:
        self.rolling = config or SummaryRollingConfig.model_validate({})
        super().__init__(self.rolling)

    def plan(self, given: PlanInput) -> ContextPlan | NeedsSummary:
        """O(M). Asks at most once a step."""
        plan = summarised(given)
        full = planned_tokens(plan, given) > self.rolling.share * given.budget
        if (full or uncovered(given, plan) >= self.rolling.every) and may_ask(given):
            return next_summary(given, plan, self.rolling.tokens) or plan
        return plan

"""fold-range: the history is a list of blocks; the model replaces a suffix of it by its own words (AgentFold).

The model folds by the tool ``fold(from_step, text)`` (`agent.control.fold`); this policy shows what it folded. A fold
ends at the newest finished step; where that is still in the recent window, the fold shows as soon as the step is old.
"""

from __future__ import annotations

from memory.plan import ContextPlan, NeedsSummary, PlanInput
from memory.policies.blocks import in_force, text_bound, under_blocks
from memory.policies.folds import FoldConfig, FoldPolicy, uncovered_run

KIND = "fold"


class FoldRangeConfig(FoldConfig):
    """fold-range has no constants beyond the rule's."""


class FoldRange(FoldPolicy):
    """Folds in place of what they cover, everything else FULL."""

    name = "fold-range"

    def __init__(self, config: FoldRangeConfig | None = None) -> None:
        super().__init__(config or FoldRangeConfig.model_validate({}))

    def plan(self, given: PlanInput) -> ContextPlan | NeedsSummary:
        """O(M + blocks)."""
        folds = in_force(given.blocks, {KIND}, len(given.pool))
        return self.by_rule(given, folds, KIND) or under_blocks(given, folds)

    def compact(self, given: PlanInput) -> NeedsSummary | None:
        """The newest steps that are not folded, folded."""
        run = uncovered_run(len(given.pool), in_force(given.blocks, {KIND}, len(given.pool)))
        return NeedsSummary(*run, KIND, tokens=text_bound(self.config.tokens, given.budget)) if run else None

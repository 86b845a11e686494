"""fold-branch: a sub-task is worked on in a branch; only the message it returns stays (Context-Folding).

The model opens a branch by ``branch(description, prompt)`` and ends it by ``return_result(message)`` (see
`agent.control.branch`). Inside, everything before the branch stays in view: the branch works on a copy of the main
thread. After it, its steps are gone and its message stands for them. Where a plan nears the budget, a summary is
forced: of the open branch's steps, else of the newest steps that nothing stands for, at last of everything.
"""

from __future__ import annotations

from pydantic import Field

from memory.plan import Block, ContextPlan, NeedsSummary, PlanInput
from memory.policies.blocks import in_force, may_ask, planned_tokens, text_bound, under_blocks
from memory.policies.folds import FoldConfig, FoldPolicy, uncovered_run
from memory.stored import ChunkFacts

KIND = "branch"
FORCED = "summary"
BRANCH_TOOL, RETURN_TOOL = "branch", "return_result"


class FoldBranchConfig(FoldConfig):
    """When a summary is forced."""

    share: float = Field(0.9, gt=0, le=1)
    """Part of the budget that a plan may take before a summary is forced."""


class FoldBranch(FoldPolicy):
    """Branches' messages and forced summaries in place of what they cover, everything else FULL."""

    name = "fold-branch"

    def __init__(self, config: FoldBranchConfig | None = None) -> None:
        self.branching = config or FoldBranchConfig.model_validate({})
        super().__init__(self.branching)
        self._opened = 0

    def ingest(self, facts: ChunkFacts) -> None:
        """Note where a branch is open: it guides what a forced summary covers, nothing else."""
        super().ingest(facts)
        if RETURN_TOOL in facts.tools or facts.kind == "answer":
            self._opened = 0
        elif BRANCH_TOOL in facts.tools and not self._opened:
            self._opened = facts.number

    def plan(self, given: PlanInput) -> ContextPlan | NeedsSummary:
        """O(M + blocks). Every text that it asks for covers a chunk that none did, or is one in place of several."""
        folds = in_force(given.blocks, {KIND, FORCED}, len(given.pool))
        need = self.by_rule(given, folds, KIND)
        if need is not None:
            return need
        plan = under_blocks(given, folds)
        if planned_tokens(plan, given) > self.branching.share * given.budget and may_ask(given):
            return self._forced(given, folds) or plan
        return plan

    def compact(self, given: PlanInput) -> NeedsSummary | None:
        """The forced summary, now."""
        return self._forced(given, in_force(given.blocks, {KIND, FORCED}, len(given.pool)))

    def _forced(self, given: PlanInput, folds: tuple[Block, ...]) -> NeedsSummary | None:
        tokens = text_bound(self.config.tokens, given.budget)
        run = uncovered_run(len(given.pool), folds)
        if run is not None:
            first, last = run
            if first <= self._opened < last:
                first = self._opened + 1
            return NeedsSummary(first, last, FORCED, tokens=tokens)
        if len(folds) > 1:
            return NeedsSummary(folds[0].first, folds[-1].last, FORCED, tokens=tokens)
        return None

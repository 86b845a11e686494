"""boundary: the steps of a finished subgoal are folded together, the running one stays whole (after HiAgent).

Where subgoals end is read from the steps (`memory.scoring.subgoals`), not asked of the model. When the texts of
finished subgoals take more than their share of the budget, the two oldest become one.
"""

from __future__ import annotations

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from memory.plan import Block, ContextPlan, NeedsSummary, PlanInput
from memory.policies.base import PolicyBase
from memory.policies.blocks import in_force, may_ask, text_bound, under_blocks
from memory.scoring.subgoals import BoundaryRule, boundaries
from memory.stored import ChunkFacts

KIND = "subgoal"
_LOOK = 4
"""Longest segments looked ahead: a session that comes from another policy catches up a few at a time."""


class BoundaryConfig(BaseModel):
    """When a subgoal is over, and how long the text is that stands for it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    drop: float = Field(0.5, ge=0, le=1)
    """A chunk whose cosine to the running subgoal is below this share of what is usual in it begins another one."""
    drop_at_change: float = Field(0.65, ge=0, le=1)
    """The same where the tools change as well."""
    least: int = Field(3, ge=1)
    """Fewest steps of a subgoal that ends by a shift of topic."""
    most: int = Field(32, ge=2, le=256)
    """Most steps of a subgoal."""
    tokens: int = Field(600, ge=100, le=32_000)
    """Most tokens of the text of one subgoal."""
    share: float = Field(0.6, gt=0, le=1)
    """Part of the budget for the texts of finished subgoals."""

    def rule(self) -> BoundaryRule:
        """As the finder takes it."""
        return BoundaryRule(self.drop, self.drop_at_change, min(self.least, self.most), self.most)


class Boundary(PolicyBase):
    """Finished subgoals as texts, the running one FULL."""

    name = "boundary"
    owns_compaction = True
    needs = frozenset({"keys"})

    def __init__(self, config: BoundaryConfig | None = None) -> None:
        self.config = config or BoundaryConfig.model_validate({})
        self._kinds: list[str] = []
        self._tools: list[tuple[str, ...]] = []

    def ingest(self, facts: ChunkFacts) -> None:
        """Note what was done."""
        self._kinds.append(facts.kind)
        self._tools.append(facts.tools)

    def plan(self, given: PlanInput) -> ContextPlan | NeedsSummary:
        """O(M + blocks). Every text covers a finished subgoal that none did, or is one in place of two."""
        done = in_force(given.blocks, {KIND}, len(given.pool))
        if may_ask(given):
            need = self._finished(given, done) or self._merged(given, done)
            if need is not None:
                return need
        return under_blocks(given, done)

    def compact(self, given: PlanInput) -> NeedsSummary | None:
        """The running subgoal's old steps, or the two oldest texts as one."""
        done = in_force(given.blocks, {KIND}, len(given.pool))
        first, last = (done[-1].last if done else 0) + 1, len(given.pool)
        tokens = text_bound(self.config.tokens, given.budget)
        if first <= last:
            return NeedsSummary(first, last, KIND, tokens=tokens)
        return self._pair(done, tokens)

    def _finished(self, given: PlanInput, done: tuple[Block, ...]) -> NeedsSummary | None:
        """The oldest finished subgoal without a text."""
        start, count = done[-1].last if done else 0, len(given.pool)
        end = min(count, start + _LOOK * self.config.most)
        if end - start < 2:
            return None
        keys = given.pool.keys[start:end] if given.pool.keys is not None else np.zeros((end - start, 1), np.float32)
        known = len(self._kinds) >= end
        found = boundaries(
            keys,
            self._kinds[start:end] if known else None,
            self._tools[start:end] if known else None,
            self.config.rule(),
        )
        if not found:
            return None
        return NeedsSummary(start + 1, start + found[0], KIND, tokens=text_bound(self.config.tokens, given.budget))

    def _merged(self, given: PlanInput, done: tuple[Block, ...]) -> NeedsSummary | None:
        if sum(block.tokens for block in done) <= self.config.share * given.budget:
            return None
        return self._pair(done, text_bound(self.config.tokens, given.budget))

    def _pair(self, done: tuple[Block, ...], tokens: int) -> NeedsSummary | None:
        """The two oldest texts as one; of more than two the oldest pair, so that new ones stay as they are."""
        if len(done) < 2:
            return None
        return NeedsSummary(done[1].first, done[1].last, KIND, done[0], tokens)

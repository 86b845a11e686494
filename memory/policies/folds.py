"""The scripted rule that folds where no model does, and what folding policies know of the session's steps. Pure."""

from __future__ import annotations

from bisect import bisect_right

from pydantic import BaseModel, ConfigDict, Field

from memory.plan import Block, NeedsSummary, PlanInput
from memory.policies.base import PolicyBase
from memory.policies.blocks import may_ask, text_bound
from memory.stored import ChunkFacts


class FoldConfig(BaseModel):
    """How a session folds when its model does not."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    auto_fold: bool = False
    """Fold by rule: every ``every`` old steps after the last fold, and each question when it is answered."""
    every: int = Field(10, ge=1)
    tokens: int = Field(2_000, ge=100, le=32_000)
    """Most tokens of a text made by rule."""


class FoldPolicy(PolicyBase):
    """What folding policies keep of the steps: which ones answered a question."""

    owns_compaction = True

    def __init__(self, config: FoldConfig) -> None:
        self.config = config
        self._answers: list[int] = []

    def ingest(self, facts: ChunkFacts) -> None:
        """Note answers."""
        if facts.kind == "answer":
            self._answers.append(facts.number)

    def by_rule(self, given: PlanInput, folds: tuple[Block, ...], kind: str) -> NeedsSummary | None:
        """The fold that the rule wants now, if any. It ends at an old chunk that no fold covers, so each one makes
        progress. Of a finished question all steps are folded together, its earlier folds with them."""
        if not self.config.auto_fold or not may_ask(given):
            return None
        count, covered = len(given.pool), folds[-1].last if folds else 0
        tokens = text_bound(self.config.tokens, given.budget)
        answered = bisect_right(self._answers, count) - 1
        if answered >= 0 and self._answers[answered] > covered:
            first = self._question_start(min(covered + 1, count))
            return NeedsSummary(first, self._answers[answered], kind, tokens=tokens)
        if count - covered >= self.config.every:
            return NeedsSummary(covered + 1, count, kind, tokens=tokens)
        return None

    def _question_start(self, number: int) -> int:
        """First step of the question that step ``number`` belongs to."""
        before = bisect_right(self._answers, number - 1) - 1
        return self._answers[before] + 1 if before >= 0 else 1


def uncovered_run(count: int, folds: tuple[Block, ...]) -> tuple[int, int] | None:
    """The newest run of old chunks that no fold covers, first and last; None when all are covered."""
    last = count
    for fold in reversed(folds):
        if fold.last < last:
            return fold.last + 1, last
        last = min(last, fold.first - 1)
    return (1, last) if last >= 1 else None

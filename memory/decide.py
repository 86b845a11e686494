"""From what a policy is given to what is shown: plan, hold steady, fit, spend.

Pure: the same for a running session and for a replay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from memory.config import MemoryConfig
from memory.fit import FitInput, RecentWindow, fit
from memory.layout import Interleaved, Layout, Ledger, ledger_base
from memory.plan import FOLDED, HIDDEN, ContextPlan, FittedPlan, LevelArray, NeedsSummary, PlanInput
from memory.ports import ContextPolicy
from memory.records import Level
from memory.spend import spend


@dataclass(frozen=True, slots=True)
class Decision:
    """A plan and what became of it under the budget."""

    plan: ContextPlan
    fitted: FittedPlan


def layout_of(config: MemoryConfig, budget: int) -> Layout:
    """The cost model of the configured layout."""
    return Ledger(ledger_base(budget)) if config.layout == "ledger" else Interleaved()


def decide(
    policy: ContextPolicy, config: MemoryConfig, given: PlanInput, recent: RecentWindow
) -> Decision | NeedsSummary:
    """Raises ContextExhausted or BudgetTooSmall."""
    plan = policy.plan(given)
    if isinstance(plan, NeedsSummary):
        return plan
    layout = layout_of(config, given.budget)
    around = FitInput(given.step, given.budget, given.fixed_tokens, recent, config.overflow, layout)
    boundary = config.layout != "ledger" or given.shown is None or given.step % config.batch == 0
    if not boundary:
        plan = steady(plan, given)
    fitted = fit(plan, given.pool, around)
    if config.spend and boundary:
        fitted = spend(fitted, plan, given.pool, around)
    return Decision(plan, fitted)


def steady(plan: ContextPlan, given: PlanInput) -> ContextPlan:
    """Between batches nothing in focus moves: a change there re-reads all that follows it. New promotions are free,
    since they are appended behind everything else."""
    if given.shown is None:
        return plan
    levels = plan.levels.copy()
    held = given.shown > int(Level.PLACEHOLDER)
    levels[: len(held)][held] = given.shown[held]
    return replace(plan, levels=levels)


def shown_codes(shown_as: LevelArray, fitted: FittedPlan) -> LevelArray:
    """Codes of what is rendered, (M,): ``shown_as`` are the levels with aliases resolved."""
    codes = np.where(fitted.levels == HIDDEN, np.int8(HIDDEN), shown_as)
    return np.where(fitted.folded, np.int8(FOLDED), codes).astype(np.int8)

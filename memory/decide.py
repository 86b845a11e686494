"""From what a policy is given to what is shown: plan, hold steady, fit, spend.

Pure: the same for a running session and for a replay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from memory.config import MemoryConfig
from memory.errors import BudgetTooSmall
from memory.fit import FitInput, RecentWindow, fit
from memory.layout import Interleaved, Layout, Ledger, ledger_base
from memory.plan import FOLDED, HIDDEN, BoolArray, ContextPlan, FittedPlan, LevelArray, NeedsSummary, PlanInput
from memory.ports import ContextPolicy
from memory.records import Level
from memory.spend import spend

BATCH_SHARE = 0.95
"""Share of the budget that a batch may fill in the ledger layout; the rest is for the steps until the next one."""
PROMOTIONS = 16
"""Chunks that may join the focus section between two batches, a step."""


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
    layout = layout_of(config, given.budget)
    # a new question changes what matters: waiting for the next batch would show it the old one's steps
    asked = given.task_from == given.step
    boundary = config.layout != "ledger" or given.shown is None or asked or len(given.pool) % config.batch == 0
    still = not boundary and _nothing_fits(given, layout)
    # a window smaller than what is reserved of it leaves less than nothing, which policies need not know
    plan = policy.plan(replace(given, ledger_base=layout.base(0), budget=max(1, given.budget), still=still))
    if isinstance(plan, NeedsSummary):
        return plan
    around = FitInput(given.step, given.budget, given.fixed_tokens, recent, config.overflow, layout)
    if not boundary:
        plan = steady(plan, given, layout)
    elif config.layout == "ledger" and config.overflow == "fit":
        # what is filled to the brim now must be cut at the very next step, and every cut breaks the prefix
        slack = replace(around, budget=int(given.budget * BATCH_SHARE))
        try:
            return Decision(plan, _fitted(plan, given, config, slack))
        except BudgetTooSmall:
            pass
    return Decision(plan, _fitted(plan, given, config, around, may_spend=boundary))


def _fitted(
    plan: ContextPlan, given: PlanInput, config: MemoryConfig, around: FitInput, *, may_spend: bool = True
) -> FittedPlan:
    fitted = fit(plan, given.pool, around)
    return spend(fitted, plan, given.pool, around) if config.spend and may_spend else fitted


def steady(plan: ContextPlan, given: PlanInput, layout: Layout) -> ContextPlan:
    """The plan between two batches: nothing in focus moves, since a change there re-reads all that follows it.

    Promotions are free where they are appended behind everything else; the most valuable ones take what room is left.
    """
    if given.shown is None or plan.blocks:
        # what stands for a run of steps is appended by itself, and takes those out of the focus
        return plan
    levels = _held(given)
    if plan.kept is not None:
        levels[plan.kept] = plan.levels[plan.kept]
    room = _room(levels, given, layout)
    if room < 0 and given.since is not None:
        _drop_last(levels, given, room, plan.kept)
        return replace(plan, levels=levels)
    waiting = (plan.levels > int(Level.PLACEHOLDER)) & (levels == Level.PLACEHOLDER)
    values = np.where(waiting, plan.values, -1.0)
    most = min(PROMOTIONS, len(values))
    rows = np.sort(np.argpartition(values, len(values) - most)[len(values) - most :])
    rows = rows[waiting[rows]]
    costs = given.pool.tokens[rows, plan.levels[rows]]
    order = np.argsort(-plan.values[rows], kind="stable")
    for place in order[np.cumsum(costs[order]) <= room]:
        levels[rows[place]] = plan.levels[rows[place]]
    return replace(plan, levels=levels)


def _held(given: PlanInput) -> LevelArray:
    """(M,) what is in focus stays there."""
    levels = np.full(len(given.pool), int(Level.PLACEHOLDER), dtype=np.int8)
    if given.shown is not None:
        levels[: len(given.shown)] = np.maximum(given.shown, np.int8(Level.PLACEHOLDER))
    return levels


def _room(levels: LevelArray, given: PlanInput, layout: Layout) -> int:
    return given.budget - given.fixed_tokens - given.recent_tokens - layout.total(levels, given.pool, 0)[0]


def _nothing_fits(given: PlanInput, layout: Layout) -> bool:
    """Whether what is in focus leaves no room for any other chunk, at its shortest: then it stays as it is, whatever
    is planned."""
    levels = _held(given)
    room = _room(levels, given, layout)
    least = np.where(levels == Level.PLACEHOLDER, given.pool.tokens[:, Level.BRIEF], room + 1)
    return not (least <= room).any()


def _drop_last(levels: LevelArray, given: PlanInput, room: int, kept: BoolArray | None) -> None:
    """Take chunks out of the focus from its end until the rest fits: a cut further in front re-reads what follows."""
    since = given.since if given.since is not None else np.zeros(0, dtype=np.int64)
    free = levels[: len(since)] > int(Level.PLACEHOLDER)
    if kept is not None:
        free &= ~kept[: len(since)]
    rows = np.flatnonzero(free)
    last_first = rows[np.lexsort((-rows, -since[rows]))]
    costs = np.cumsum(given.pool.tokens[last_first, levels[last_first]])
    dropped = last_first[: int(np.searchsorted(costs, -room)) + 1]
    levels[dropped] = Level.PLACEHOLDER


def shown_codes(shown_as: LevelArray, fitted: FittedPlan) -> LevelArray:
    """Codes of what is rendered, (M,): ``shown_as`` are the levels with aliases resolved.

    A ledger has a line for every chunk that is not in focus, whatever the plan said and a placeholder stands for.
    """
    if fitted.ledger_base:
        codes = np.where(fitted.levels <= int(Level.PLACEHOLDER), np.int8(Level.PLACEHOLDER), shown_as)
    else:
        codes = np.where(fitted.levels == HIDDEN, np.int8(HIDDEN), shown_as)
    return np.where(fitted.folded, np.int8(FOLDED), codes).astype(np.int8)

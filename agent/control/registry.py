"""Which policy brings which control tools."""

from __future__ import annotations

from dataclasses import dataclass

from agent.control.base import Bound
from agent.control.branch import Branch, BranchState, ReturnResult
from agent.control.fold import Fold
from tools.toolset import AnyTool

REPEATABLE = frozenset({Fold.name, Branch.name, ReturnResult.name})
"""Control tools do the same when a step is finished after a crash: the memory folds a thing once."""


@dataclass(frozen=True, slots=True)
class Control:
    """Tools of a session, and what binds them to its memory once that is open."""

    bound: Bound
    tools: tuple[AnyTool, ...] = ()


def control_for(policy: str) -> Control:
    """The control tools of a policy by its name; none for most."""
    bound = Bound()
    if policy == "fold-range":
        return Control(bound, (Fold(bound),))
    if policy == "fold-branch":
        state = BranchState(bound)
        return Control(bound, (Branch(state), ReturnResult(state)))
    return Control(bound)

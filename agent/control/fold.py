"""fold: the model replaces the newest steps by its own words (AgentFold)."""

from __future__ import annotations

import re
from typing import ClassVar

from pydantic import Field

from agent.control.base import Bound
from memory.policies.blocks import in_force
from memory.policies.fold_range import KIND
from memory.records import Observation
from tools.base import Arguments, CallContext, ToolError

_STEP = re.compile(r"\[?\s*c?(\d{1,9})\s*(?:[-–—]\s*c?\d{1,9})?\s*\]?", re.IGNORECASE | re.ASCII)


class FoldArguments(Arguments):
    from_step: int | str = Field(description="first step to fold, e.g. c12; all steps from it to the newest are folded")
    text: str = Field(description="what stands in their place: findings with their sources, what failed, what is open")


class Fold:
    """A fold is a suffix of the known steps; it may take in earlier folds whole, never a part of one."""

    name: ClassVar[str] = "fold"
    description = (
        "Replace your newest steps, from from_step to the last finished one, by a text of your own, to keep the "
        "context short. Fold a step by itself when its details may matter, a whole line of work once it is done or has "
        "failed. Name the ids ([c12]) of steps that matter: glimpse still shows them in full."
    )
    arguments: type[Arguments] = FoldArguments
    timeout_s = 30.0

    def __init__(self, bound: Bound) -> None:
        self._bound = bound

    async def run(self, arguments: FoldArguments, context: CallContext) -> Observation:
        """Raises ToolError: invalid_arguments, not_found."""
        memory = self._bound.memory
        newest = context.step - 1
        first = self._first(str(arguments.from_step), newest)
        if not arguments.text.strip():
            raise ToolError("invalid_arguments", "the text is empty: write what the steps found")
        try:
            block = await memory.fold(first, newest, KIND, arguments.text)
        except ValueError as fault:
            raise ToolError("invalid_arguments", str(fault)) from fault
        note = f"c{first}-c{newest} folded into {block.tokens} tokens" if newest > first else f"c{first} folded"
        return Observation(context.call_id, self.name, f"{note}; glimpse shows a folded step in full.")

    async def aclose(self) -> None:
        return None

    def _first(self, given: str, newest: int) -> int:
        match = _STEP.fullmatch(given.strip())
        if match is None:
            raise ToolError("invalid_arguments", f"{given[:64]!r} is no step; write it as c12")
        first = int(match.group(1))
        if newest < 1:
            raise ToolError("not_found", "there is no finished step to fold yet")
        if first == 0:
            raise ToolError("invalid_arguments", "the question cannot be folded; steps begin at c1")
        if first > newest:
            raise ToolError("not_found", f"there is no finished step c{first}; the newest is c{newest}")
        for fold in in_force(self._bound.memory.blocks, {KIND}, newest):
            if fold.first < first <= fold.last:
                after = f" or c{fold.last + 1}" if fold.last < newest else ""
                whole = f"c{first} is inside the fold c{fold.first}-c{fold.last}"
                raise ToolError("invalid_arguments", f"{whole}: fold from c{fold.first}{after}")
        return first

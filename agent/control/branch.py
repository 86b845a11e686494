"""branch and return_result: a sub-task in a branch of which only the message stays (Context-Folding).

Whether a branch is open follows from the committed steps alone, so that a session that is opened again knows it; the
calls of the step under way are added to that. An answer ends a branch as well: its steps then stay in the history.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from agent.control.base import Bound, FoldingMemory
from memory.policies.fold_branch import BRANCH_TOOL, KIND, RETURN_TOOL
from memory.records import Observation
from tools.base import Arguments, CallContext, ToolError


class BranchArguments(Arguments):
    description: str = Field(description="the sub-task in a few words")
    prompt: str = Field(description="what exactly to find out or do, and what the result must contain")


class ReturnArguments(Arguments):
    message: str = Field(description="the result of the sub-task: all that the main thread will see of this branch")


class BranchState:
    """Shared by the two tools of a session."""

    def __init__(self, bound: Bound) -> None:
        self.bound = bound
        self._step = 0
        self._now: list[str] = []
        """Calls of the step under way that took effect."""

    async def opened(self, step: int) -> int | None:
        """The step whose call opened the branch that is open now; None in the main thread."""
        if self._step != step:
            self._step, self._now = step, []
        if self._now:
            return step if self._now[-1] == BRANCH_TOOL else None
        return await opened_by(self.bound.memory)

    def note(self, tool: str) -> None:
        """A call took effect."""
        self._now.append(tool)


async def opened_by(memory: FoldingMemory) -> int | None:
    """The committed step that opened the branch that is open, None in the main thread. Reads only steps that called
    one of the two tools, newest first."""
    for facts in reversed(memory.facts):
        if facts.kind == "answer":
            return None
        if BRANCH_TOOL not in facts.tools and RETURN_TOOL not in facts.tools:
            continue
        chunk = await memory.recall.chunk(facts.number)
        worked = [
            item.tool
            for item in chunk.step.observations
            if item.error is None and item.tool in (BRANCH_TOOL, RETURN_TOOL)
        ]
        if worked:
            return facts.number if worked[-1] == BRANCH_TOOL else None
    return None


class Branch:
    """Opens a branch; a branch cannot branch."""

    name: ClassVar[str] = BRANCH_TOOL
    description = (
        "Begin a sub-task in a branch: you keep seeing all that you see now, work on the sub-task in the following "
        "steps, and end it with return_result. Only the message that you return stays in the context; the steps in "
        "between are folded away. Use it for anything that takes several searches and has one short result."
    )
    arguments: type[Arguments] = BranchArguments
    timeout_s = 30.0

    def __init__(self, state: BranchState) -> None:
        self._state = state

    async def run(self, arguments: BranchArguments, context: CallContext) -> Observation:
        """Raises ToolError: invalid_arguments, forbidden."""
        if not arguments.prompt.strip():
            raise ToolError("invalid_arguments", "the prompt is empty: say what the branch has to find out")
        opened = await self._state.opened(context.step)
        if opened is not None:
            raise ToolError(
                "forbidden", f"a branch cannot branch: the one opened at c{opened} is open; end it with {RETURN_TOOL}"
            )
        self._state.note(BRANCH_TOOL)
        text = (
            f"Branch {arguments.description.strip()!r} is open. In it, only this counts: {arguments.prompt.strip()}\n"
            f"End it with {RETURN_TOOL}(message)."
        )
        return Observation(context.call_id, self.name, text)

    async def aclose(self) -> None:
        return None


class ReturnResult:
    """Ends the open branch: its message stands for its steps, this one included."""

    name: ClassVar[str] = RETURN_TOOL
    description = (
        "End the open branch. The message is all that stays of it: put every finding that the main thread needs there, "
        "with sources and the ids ([c12]) of the steps that hold them."
    )
    arguments: type[Arguments] = ReturnArguments
    timeout_s = 30.0

    def __init__(self, state: BranchState) -> None:
        self._state = state

    async def run(self, arguments: ReturnArguments, context: CallContext) -> Observation:
        """Raises ToolError: invalid_arguments, forbidden."""
        if not arguments.message.strip():
            raise ToolError("invalid_arguments", "the message is empty: it is all that stays of the branch")
        opened = await self._state.opened(context.step)
        if opened is None:
            raise ToolError("forbidden", "no branch is open: this is the main thread; answer, or open one with branch")
        if opened == context.step:
            raise ToolError("forbidden", "the branch was opened in this very step and has done nothing yet")
        try:
            await self._state.bound.memory.fold(opened + 1, context.step, KIND, arguments.message)
        except ValueError as fault:
            raise ToolError("invalid_arguments", str(fault)) from fault
        self._state.note(RETURN_TOOL)
        return Observation(context.call_id, self.name, f"The branch opened at c{opened} has ended; its message stays.")

    async def aclose(self) -> None:
        return None

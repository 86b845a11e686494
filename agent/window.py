"""How many tokens a context may have: configured, learned from the provider, calibrated to its counts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from agent.errors import ContextTooLong, Stop
from memory.fit import input_budget
from memory.records import Usage
from memory.tokens import Calibration

SHRINK = 0.8
MAX_SHRINKS = 4


@dataclass(frozen=True, slots=True)
class Learned:
    """What a provider's refusals taught. ``window``: in its tokens, when it said so. ``ceiling``: in ours."""

    window: int | None = None
    ceiling: int | None = None


class Window:
    """The input budget of a session, in our tokens.

    A provider that says "too long" lowers the learned window; a rebuilt context is at most 0.8 times as large, at most
    four times in a row, then the run stops by name. ``save`` is told of what was learned, so that a session that is
    opened again need not learn it again.
    """

    def __init__(
        self,
        window: int,
        reserved_output: int,
        configured: int | None,
        *,
        calibrate: bool = False,
        learned: Learned | None = None,
        save: Callable[[Learned], Awaitable[None]] | None = None,
    ) -> None:
        self._window = window
        self._reserved = reserved_output
        self._configured = configured
        self._calibration = Calibration() if calibrate else None
        self._save = save
        self._shrinks = 0
        self.learned = learned or Learned()

    def budget(self) -> int:
        """Tokens that the next context may have, by our counter."""
        window = min(self._window, self.learned.window or self._window)
        budget = input_budget(window, self._reserved, self._configured)
        if self._calibration is not None:
            budget = self._calibration.budget(budget)
        return budget if self.learned.ceiling is None else min(budget, self.learned.ceiling)

    async def shrink(self, sent: int, fault: ContextTooLong) -> None:
        """The provider refused ``sent`` of our tokens. Raises Stop when shrinking has not helped."""
        self._shrinks += 1
        if self._shrinks > MAX_SHRINKS:
            raise Stop("context_exhausted", f"the model refused {MAX_SHRINKS} ever smaller contexts: {fault}")
        known = self.learned.window
        window = min(known or fault.limit, fault.limit) if fault.limit else known
        self.learned = Learned(window, int(sent * SHRINK))
        if self._save is not None:
            await self._save(self.learned)

    def observe(self, counted: int, usage: Usage) -> None:
        """A context was accepted: what held it is the new normal, and the provider's count calibrates ours."""
        self._shrinks = 0
        if self._calibration is not None:
            self._calibration.observe(counted, usage.input_total)

"""How many tokens a context may have: configured, learned from the provider, calibrated to its counts."""

from __future__ import annotations

from agent.errors import ContextTooLong, Stop
from memory.fit import input_budget
from memory.records import Usage
from memory.tokens import Calibration

SHRINK = 0.8
MAX_SHRINKS = 4


class Window:
    """The input budget of a session, in our tokens.

    A provider that says "too long" lowers the learned window; a rebuilt context is at most 0.8 times as large, at most
    four times in a row, then the run stops by name.
    """

    def __init__(
        self,
        window: int,
        reserved_output: int,
        configured: int | None,
        *,
        calibrate: bool = False,
        learned: int | None = None,
    ) -> None:
        self._reserved = reserved_output
        self._configured = configured
        self._calibration = Calibration() if calibrate else None
        self.window = min(window, learned) if learned else window
        self._ceiling: int | None = None
        self._shrinks = 0

    def budget(self) -> int:
        """Tokens that the next context may have, by our counter."""
        budget = input_budget(self.window, self._reserved, self._configured)
        if self._calibration is not None:
            budget = self._calibration.budget(budget)
        return budget if self._ceiling is None else min(budget, self._ceiling)

    def shrink(self, sent: int, fault: ContextTooLong) -> None:
        """The provider refused ``sent`` of our tokens. Raises Stop when shrinking has not helped."""
        self._shrinks += 1
        if self._shrinks > MAX_SHRINKS:
            raise Stop("context_exhausted", f"the model refused {MAX_SHRINKS} ever smaller contexts: {fault}")
        self._ceiling = int(sent * SHRINK)
        if fault.limit:
            self.window = min(self.window, fault.limit)

    def observe(self, counted: int, usage: Usage) -> None:
        """A context was accepted: what held it is the new normal, and the provider's count calibrates ours."""
        self._shrinks = 0
        if self._calibration is not None:
            self._calibration.observe(counted, usage.input_total)

"""What can go wrong in the memory.

::

    MemoryFault
    ├── BudgetTooSmall        no cut makes the request fit; carries the minimum that would
    │   └── MustKeepTooLarge  what a selection must keep exceeds its budget by itself
    ├── ContextExhausted      ``overflow: stop`` and the unfitted plan exceeds the budget
    ├── IllegalContext        a rendered request broke a rule of the wire (a bug, never sent)
    ├── StoreFault
    │   ├── StoreBusy         another process writes, or owns the session
    │   ├── StoreFull         no room on the disk
    │   ├── StoreCorrupt      the file is damaged, or is not ours
    │   └── StoreTooNew       written by a later version
    ├── NotStored             no such chunk, step or session
    ├── EncoderFault          the encoder failed or is unreachable (``retryable`` says which)
    ├── SummaryRejected       a summary that must not replace anything (empty, refusal, cut, longer than its source)
    └── SummaryFailed         the summariser itself broke: its process died, or it took too long
"""

from __future__ import annotations


class MemoryFault(Exception):
    """Root of the memory's errors. ``retryable``: the same call may succeed later. ``hint``: what a person can do."""

    retryable: bool = False
    hint: str = ""

    def __init__(self, message: str, *, hint: str = "", retryable: bool | None = None) -> None:
        super().__init__(message)
        if hint:
            self.hint = hint
        if retryable is not None:
            self.retryable = retryable


class BudgetTooSmall(MemoryFault):
    """No sequence of cuts fits the budget. ``minimum`` is the smallest budget (tokens) that would."""

    def __init__(self, *, budget: int, minimum: int) -> None:
        super().__init__(f"budget of {budget} tokens is too small: this request needs at least {minimum}")
        self.budget = budget
        self.minimum = minimum
        self.hint = f"raise the budget to {minimum} tokens or more"


class MustKeepTooLarge(BudgetTooSmall):
    """What must be kept costs more than the whole budget. ``needed`` and ``budget`` in tokens, ``count`` items."""

    def __init__(self, *, needed: int, budget: int, count: int) -> None:
        MemoryFault.__init__(
            self, f"what must be kept ({count} items) needs {needed} tokens, and the budget is {budget}"
        )
        self.needed = self.minimum = needed
        self.budget = budget
        self.count = count
        self.hint = f"raise the budget to {needed} tokens or more, or keep less"


class ContextExhausted(MemoryFault):
    """The plan as the policy made it exceeds the budget and ``overflow`` is ``stop``: the session's longevity ends."""

    def __init__(self, *, step: int, budget: int, needed: int) -> None:
        super().__init__(f"context exhausted at step {step}: the plan needs {needed} of {budget} tokens")
        self.step = step
        self.budget = budget
        self.needed = needed


class IllegalContext(MemoryFault):
    """A rendered request breaks a rule that every provider enforces."""


class StoreFault(MemoryFault):
    """The store could not do what was asked."""


class StoreBusy(StoreFault):
    """Locked by, or owned by, another process."""

    retryable = True


class StoreFull(StoreFault):
    """No room left on the device."""


class StoreCorrupt(StoreFault):
    """The file is damaged, truncated, or not a longstride store."""


class StoreTooNew(StoreFault):
    """The schema is newer than this version knows."""


class NotStored(MemoryFault):
    """No such chunk, step, range or session."""


class EncoderFault(MemoryFault):
    """The encoder failed."""


class SummaryRejected(MemoryFault):
    """A produced summary was not acceptable; the level stays absent."""


class SummaryFailed(MemoryFault):
    """The summariser broke before it gave a summary."""

    retryable = True

"""What can be wrong before, or beside, a run.

::

    RunnerFault
    ├── ConfigError       a configuration file, an option or a value that cannot be used; one line per problem
    └── UsageFault        bad input on the command line that is no configuration: no such corpus, empty question
"""

from __future__ import annotations

from collections.abc import Sequence


class RunnerFault(Exception):
    """Root of the runners' errors. ``hint``: what a person can do."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class ConfigError(RunnerFault):
    """Configuration that cannot be used. ``problems``: one line each, naming the key and where it stands."""

    def __init__(self, problems: str | Sequence[str], *, hint: str = "") -> None:
        self.problems: tuple[str, ...] = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(self.problems), hint=hint)


class UsageFault(RunnerFault):
    """The command line asks for something that is not there, or for nothing."""

"""How a command ends: which fault is whose, what is said of it, and the exit code.

0: done. 1: the run ended without completing, or something outside failed. 2: bad input. 130: interrupted.
"""

from __future__ import annotations

from typing import TypeAlias

from agent.errors import AgentFault, AuthFailed, ModelMissing, Status, Stop, UnusableTool
from memory.errors import BudgetTooSmall, MemoryFault, NotStored
from runners.errors import ConfigError, RunnerFault

DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
Fault: TypeAlias = MemoryFault | AgentFault | RunnerFault
FAULTS: tuple[type[Fault], ...] = (MemoryFault, AgentFault, RunnerFault)
_BAD_INPUT = (RunnerFault, BudgetTooSmall, NotStored, AuthFailed, ModelMissing, UnusableTool)


def status_code(status: Status) -> int:
    """Exit code of a run that ended with ``status``."""
    if status == "completed":
        return DONE
    return INTERRUPTED if status == "interrupted" else FAILED


def fault_code(fault: Fault) -> int:
    """Exit code of a command that ``fault`` ended."""
    if isinstance(fault, Stop):
        return status_code(fault.status)
    return BAD_INPUT if isinstance(fault, _BAD_INPUT) else FAILED


def fault_lines(fault: Fault) -> list[str]:
    """What to tell the person: one line per problem, with what can be done."""
    problems = list(fault.problems) if isinstance(fault, ConfigError) else [" ".join(str(fault).split())]
    if fault.hint:
        problems[-1] += f" ({fault.hint})"
    return problems

"""Dialects: how a model's text becomes a decision, and how a context becomes a request.

A dialect owns the wording (system prompt, tool descriptions, observation shapes) that a family of models was trained
on; the memory counts exactly what the dialect will send, because it renders through the dialect's `StepFormat`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from memory.plan import Context
from memory.ports import StepFormat
from memory.records import Reply, Request, ToolCall, ToolSpec


@dataclass(frozen=True, slots=True)
class Decision:
    """What a reply says: tool calls, or an answer. Exactly one of ``calls`` and ``answer`` is set."""

    thought: str = ""
    calls: tuple[ToolCall, ...] = ()
    answer: str = ""


@dataclass(frozen=True, slots=True)
class Situation:
    """What the loop knows and a context may have forgotten; the `guided` dialect makes its legal actions from it."""

    step: int
    """The step about to be taken."""
    task_step: int = 1
    """1 at the first step of the question in force."""
    steps_left: int | None = None
    listed: tuple[str, ...] = ()
    """URLs that searches of this question listed, in order, not yet visited."""
    visited: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()
    compressed: tuple[str, ...] = ()
    """Ids of old chunks that the context of this step shows below FULL (``c7``), or only inside a range."""
    files: tuple[tuple[str, int], ...] = ()
    """Parts of attached files that were asked for, by name and number from 1, in order."""
    glimpsed: tuple[str, ...] = ()
    """Ids already glimpsed for the question in force."""
    last_tools: tuple[str, ...] = ()
    """Names of the tools of the step before; empty at the first step of a question."""


class Dialect(Protocol):
    """One way of talking to models."""

    name: str

    def step_format(self, tools: Sequence[ToolSpec]) -> StepFormat:
        """How requests are written with these tools on offer."""
        ...

    def request(self, context: Context, tools: Sequence[ToolSpec], situation: Situation) -> Request:
        """The request for this context."""
        ...

    def parse(self, reply: Reply, step: int) -> Decision:
        """Read a reply; call ids become ``s{step}.{i}``. Raises ParseFailure; never executes half a reply."""
        ...

"""What a run tells those who listen (terminal, trajectory file, service): frozen events over one bus."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from agent.errors import Status
from memory.plan import Context
from memory.records import Observation, Step, ToolCall, Usage

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ContextSummary:
    """A context in figures. By level: placeholder (range lines included), brief, detailed, full of the *old* chunks."""

    tokens: int
    budget: int
    pressure: float
    fixed_tokens: int
    recent_tokens: int
    tokens_by_level: tuple[int, int, int, int]
    counts_by_level: tuple[int, int, int, int]
    unfitted_tokens: int
    """What the plan would have taken before it was made to fit."""
    prefix_tokens: int | None = None
    """Longest common prefix with the request before: what a provider's cache could hold."""

    @classmethod
    def of(cls, context: Context) -> ContextSummary:
        return cls(
            tokens=context.tokens,
            budget=context.budget,
            pressure=context.plan.pressure,
            fixed_tokens=context.fixed_tokens,
            recent_tokens=context.recent_tokens,
            tokens_by_level=context.tokens_by_level,
            counts_by_level=context.counts_by_level,
            unfitted_tokens=context.fitted.unfitted_tokens,
            prefix_tokens=context.prefix_tokens,
        )


@dataclass(frozen=True, slots=True)
class StepStarted:
    """A context was built and goes to the model now."""

    step: int
    context: ContextSummary
    pending_summaries: int = 0

    @classmethod
    def of(cls, context: Context, pending_summaries: int = 0) -> StepStarted:
        return cls(context.step, ContextSummary.of(context), pending_summaries)


@dataclass(frozen=True, slots=True)
class ModelReplied:
    """The model's whole reply is here. ``seconds``: how long the call took."""

    step: int
    usage: Usage
    seconds: float


@dataclass(frozen=True, slots=True)
class ToolStarted:
    step: int
    call: ToolCall


@dataclass(frozen=True, slots=True)
class ToolFinished:
    step: int
    observation: Observation


@dataclass(frozen=True, slots=True)
class StepCommitted:
    """The step is on the disk."""

    step: Step


@dataclass(frozen=True, slots=True)
class SummaryProgress:
    """The background summariser moved. ``failed``: given up or rejected so far."""

    pending: int
    done: int
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Finished:
    """The question ended. ``text``: the answer, or why there is none."""

    status: Status
    text: str


AnyEvent: TypeAlias = (
    StepStarted | ModelReplied | ToolStarted | ToolFinished | StepCommitted | SummaryProgress | Finished
)
Listener: TypeAlias = Callable[[AnyEvent], None]


class Bus:
    """Hands each event to every listener, in order of subscription, at once.

    Listeners are synchronous and quick. One that fails is logged with its traceback and goes on being told: a broken
    display never breaks a run.
    """

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Start telling ``listener``; returns what ends that (calling it twice is fine)."""
        self._listeners.append(listener)

        def end() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return end

    def emit(self, event: AnyEvent) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception:
                log.exception("a listener failed on %s", type(event).__name__)

"""Limits of a run: steps, tokens, money, time. All model calls count: steps, summaries, extracts, judges."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from agent.errors import Stop
from memory.ports import Clock
from memory.records import Usage
from memory.stored import Purpose, UsageRow

_log = logging.getLogger(__name__)


class LimitsConfig(BaseModel):
    """Where a run ends by itself; null sets no limit. Tokens are input and output of all calls together."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_steps: int | None = Field(default=None, ge=1, le=10**9)
    max_tokens: int | None = Field(default=None, ge=1, le=10**15)
    max_cost_usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    max_seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class Spent:
    """What was used so far. ``tokens`` and ``cost`` are lower bounds while calls with unknown figures exist."""

    steps: int
    tokens: int
    cost: float
    seconds: float
    calls_without_tokens: int
    calls_without_cost: int


class Limits:
    """Counts what a run uses and says when it is enough.

    ``spent``: usage of an earlier part of the run, counted in from the start. ``seconds``: time of that part; what
    counts is time at work, not the pause between. A step is a call made for a step.
    """

    def __init__(
        self, config: LimitsConfig, clock: Clock, *, spent: Iterable[UsageRow] = (), seconds: float = 0.0
    ) -> None:
        self.config = config
        self._clock = clock
        self._started = clock.monotonic() - seconds
        self._steps = 0
        self._tokens = 0
        self._cost = 0.0
        self._without_tokens = 0
        self._without_cost = 0
        self._warned: set[str] = set()
        for row in spent:
            self.record(row)

    @property
    def steps_left(self) -> int | None:
        """None without a limit."""
        return None if self.config.max_steps is None else max(0, self.config.max_steps - self._steps)

    @property
    def seconds_left(self) -> float | None:
        """None without a limit."""
        limit = self.config.max_seconds
        return None if limit is None else max(0.0, limit - (self._clock.monotonic() - self._started))

    def spent(self) -> Spent:
        return Spent(
            steps=self._steps,
            tokens=self._tokens,
            cost=self._cost,
            seconds=self._clock.monotonic() - self._started,
            calls_without_tokens=self._without_tokens,
            calls_without_cost=self._without_cost,
        )

    def record(self, row: UsageRow, estimate: int | None = None) -> None:
        """Count one call in. Never raises: calls of the background are told here too, and stop the run at `check`."""
        self.charge(row.usage, row.purpose, row.model, estimate)

    def charge(self, usage: Usage, purpose: Purpose = "step", model: str = "", estimate: int | None = None) -> None:
        """Count one call in. ``estimate``: its tokens by our own count, which stand in where the provider says none. A
        figure that stays unknown is remembered as such, and said once when a limit hangs on it."""
        self._steps += purpose == "step"
        known = usage.input_total is not None and usage.output is not None
        self._tokens += estimate if estimate and not known else (usage.input_total or 0) + (usage.output or 0)
        self._cost += usage.cost or 0.0
        if not known and not estimate:
            self._without_tokens += 1
            self._warn("tokens", model, self.config.max_tokens)
        if usage.cost is None:
            self._without_cost += 1
            self._warn("cost", model, self.config.max_cost_usd)

    def check(self, coming_tokens: int = 0) -> None:
        """Raises Stop ("budget"), naming the limit, when it is reached or ``coming_tokens`` more would pass it."""
        limits, spent = self.config, self.spent()
        if limits.max_steps is not None and spent.steps >= limits.max_steps:
            raise Stop("budget", f"limit of {limits.max_steps} steps reached (max_steps)")
        if limits.max_tokens is not None and spent.tokens + max(coming_tokens, 1) > limits.max_tokens:
            used = f"{spent.tokens} used{_without(spent.calls_without_tokens)}"
            raise Stop("budget", f"limit of {limits.max_tokens} tokens reached: {used} (max_tokens)")
        if limits.max_cost_usd is not None and spent.cost >= limits.max_cost_usd:
            used = f"{spent.cost:.4f} spent{_without(spent.calls_without_cost)}"
            raise Stop("budget", f"limit of {limits.max_cost_usd:g} US dollars reached: {used} (max_cost_usd)")
        if limits.max_seconds is not None and spent.seconds >= limits.max_seconds:
            raise Stop("budget", f"limit of {limits.max_seconds:g} seconds reached (max_seconds)")

    def _warn(self, figure: str, model: str, limit: float | None) -> None:
        if limit is not None and f"{figure} {model}" not in self._warned:
            self._warned.add(f"{figure} {model}")
            _log.warning("the %s of calls to %s is unknown: they are not in the limit", figure, model or "the model")


def _without(calls: int) -> str:
    return f", {calls} calls of unknown size not counted" if calls else ""

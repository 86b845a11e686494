"""Where a run stands, all its workers together: results, what is under way, money, time, and how far to go."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from runners.bench.crew import Sign, Strength
from runners.bench.rows import RunPlan, TrialKey, TrialRow
from runners.bench.trial import Pulse, without_result

EVERY_S = 0.25
"""How often what is under way is told of, at most; results are told of at once."""


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Of the whole run over all its workers, its earlier parts' money included. None: no limit."""

    max_cost: float | None = None
    max_seconds: float | None = None


NO_LIMITS = RunLimits()


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands. ``scores``: the mean of the first measure so far, by policy; None where a judge has to.
    ``cost``: of results and of trials under way. ``workers``, ``lost``: of a cluster."""

    done: int
    planned: int
    scores: Mapping[str, float | None]
    cost: float | None
    without_result: int
    under_way: int = 0
    workers: int = 0
    lost: int = 0
    last: TrialRow | None = None


class Standing:
    """``rows``: all results so far, which whoever writes them keeps up to date; ``measure``: the one that is told."""

    def __init__(
        self,
        plan: RunPlan,
        rows: Mapping[TrialKey, TrialRow],
        measure: str,
        limits: RunLimits,
        told: Callable[[Progress], None] | None = None,
    ) -> None:
        self._plan, self._rows, self._measure, self._limits, self._told = plan, rows, measure, limits, told
        self._keys = list(plan.trial_keys())
        self._under_way: dict[TrialKey, Pulse] = {}
        self._strength = Strength(0, 0)
        self._started, self._next = time.monotonic(), 0.0

    @property
    def seconds_left(self) -> float | None:
        """None without a limit."""
        limit = self._limits.max_seconds
        return None if limit is None else max(0.0, limit - (time.monotonic() - self._started))

    def take(self, sign: Sign) -> None:
        """A row has been written down by now."""
        if isinstance(sign, Strength):
            self._strength = sign
        elif isinstance(sign, Pulse):
            self._under_way[sign.key] = sign
        else:
            self._under_way.pop(sign.key, None)
        now = time.monotonic()
        if self._told is not None and (isinstance(sign, TrialRow) or now >= self._next):
            self._next = now + EVERY_S
            self._told(self.progress(sign if isinstance(sign, TrialRow) else None))

    def limit(self) -> str:
        """The limit that is reached; empty for none."""
        most = self._limits.max_cost
        if most is not None and (spent := self._spent(list(self._rows.values())) or 0.0) >= most:
            return f"the limit of {most:g} US dollars is reached: {spent:.4f} spent"
        return self.out_of_time if self.seconds_left == 0 else ""

    @property
    def out_of_time(self) -> str:
        """What is said when no seconds are left."""
        return f"the limit of {self._limits.max_seconds:g} seconds is reached"

    def cut_short(self) -> list[TrialRow]:
        """Trials under way as rows without a result: what they have cost stays on record."""
        return [
            replace(without_result(key, "interrupted", "the run was stopped"), steps=pulse.steps, usage=pulse.usage)
            for key, pulse in self._under_way.items()
        ]

    def progress(self, last: TrialRow | None = None) -> Progress:
        """Over the trials of this plan."""
        mine = [self._rows[key] for key in self._keys if key in self._rows]
        return Progress(
            done=sum(row.finished for row in mine),
            planned=len(self._keys),
            scores={variant.label: _mean(mine, variant.label, self._measure) for variant in self._plan.variants},
            cost=self._spent(mine),
            without_result=sum(not row.finished and row.key not in self._under_way for row in mine),
            under_way=len(self._under_way),
            workers=self._strength.present,
            lost=self._strength.lost,
            last=last,
        )

    def _spent(self, rows: Sequence[TrialRow]) -> float | None:
        """US dollars. What a trial under way has cost holds its earlier parts, which a row may tell of."""
        used = [row.usage for row in rows if row.key not in self._under_way]
        costs = [usage.cost for usage in (*used, *(pulse.usage for pulse in self._under_way.values()))]
        known = [cost for cost in costs if cost is not None]
        return sum(known) if known else None


def _mean(rows: Sequence[TrialRow], label: str, measure: str) -> float | None:
    """A trial without a result counts 0; a finished one without measures has no gold to be held against."""
    mine = [row for row in rows if row.policy == label and (row.measures or not row.finished)]
    scored = any(measure in row.measures for row in mine)
    return sum(row.measures.get(measure, 0.0) for row in mine) / len(mine) if scored else None

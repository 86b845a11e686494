"""The lines of a results file: what was planned, and how each trial ended."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from agent.errors import Status
from memory.records import JsonValue, Usage

FINISHED: frozenset[str] = frozenset({"completed", "budget", "stuck", "refused", "model_empty", "context_exhausted"})
"""Statuses that are a result. After any other the trial is taken up again."""
_NOTHING = Usage()


@dataclass(frozen=True, slots=True)
class Variant:
    """One column of the comparison: a policy with everything else that decides a run. ``config``: as sessions store
    it, as a JSON text."""

    label: str
    config_hash: str
    config: str

    def tree(self) -> dict[str, JsonValue]:
        """The configuration."""
        tree: dict[str, JsonValue] = json.loads(self.config)
        return tree


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What a run is about: policies x tasks x rollouts, or one shard of it."""

    benchmark: str
    data: str
    """Where the data was; only the hash has to stay the same."""
    dataset: str
    """SHA-256 (hex) of the data."""
    options: dict[str, str]
    variants: tuple[Variant, ...]
    tasks: tuple[str, ...]
    rollouts: int = 1
    seed: int | None = None
    shard: tuple[int, int] = (1, 1)
    """(i, n): every n-th trial from the i-th on."""
    corpus: str | None = None
    versions: dict[str, str] = field(default_factory=dict)

    def trial_keys(self) -> Iterator[TrialKey]:
        """The trials of this shard. All policies of one question are neighbours, so that a run that was cut short can
        be compared as far as it went."""
        place, of = self.shard
        for rollout in range(1, self.rollouts + 1):
            for at, task in enumerate(self.tasks):
                if (at + (rollout - 1) * len(self.tasks)) % of == place - 1:
                    yield from (TrialKey(variant.label, task, rollout) for variant in self.variants)


@dataclass(frozen=True, slots=True)
class Kept:
    """Where sessions of a run are that no folder holds. ``run``: how their names begin; ``database``: its address,
    without a password."""

    run: str
    database: str


@dataclass(frozen=True, slots=True)
class TrialKey:
    """One question under one policy, the ``rollout``-th time (from 1)."""

    policy: str
    task: str
    rollout: int

    def __str__(self) -> str:
        return f"{self.policy}/{self.task}#{self.rollout}"


@dataclass(frozen=True, slots=True)
class TrialRow:
    """How a trial ended. Texts of a private set are sealed (`runners.bench.cipher`)."""

    policy: str
    task: str
    rollout: int
    status: Status
    answer: str = ""
    message: str = ""
    measures: dict[str, float] = field(default_factory=dict)
    """By the official rule, when it ended; reports tell them anew."""
    steps: int = 0
    tool_calls: int = 0
    tool_errors: int = 0
    unsupported: int = 0
    """Attachments that could not be read by this backbone."""
    usage: Usage = _NOTHING
    context_tokens: int = 0
    """Of all requests, by our own count."""
    peak_tokens: int = 0
    prefix_tokens: int = 0
    """Of those, what a prompt cache can hold: the common prefix with the request before."""
    seconds: float = 0.0
    """At work, over all attempts."""
    attempts: int = 1
    visited: tuple[str, ...] = ()
    """Addresses of the pages read; none for private sets."""
    session: str = ""
    ended: float = 0.0
    worker: str = ""
    """Who ran it, of the workers of a cluster: host/number."""

    @property
    def key(self) -> TrialKey:
        return TrialKey(self.policy, self.task, self.rollout)

    @property
    def finished(self) -> bool:
        return self.status in FINISHED


@dataclass(frozen=True, slots=True)
class GradeRow:
    """What a judge said of one trial. ``scorer``: its model; ``measures``: of a table that it helped to compare."""

    policy: str
    task: str
    rollout: int
    scorer: str
    grade: str
    measures: dict[str, float] = field(default_factory=dict)
    extracted: str = ""
    reason: str = ""
    confidence: float | None = None
    answer_hash: str = ""
    """Of the answer that was graded: a grade of another answer is void."""
    usage: Usage = _NOTHING

    @property
    def key(self) -> TrialKey:
        return TrialKey(self.policy, self.task, self.rollout)


def difference(ours: Mapping[str, JsonValue], theirs: Mapping[str, JsonValue], prefix: str = "") -> list[str]:
    """Dotted keys whose values differ."""
    found: list[str] = []
    for key in sorted({*ours, *theirs}):
        a, b = ours.get(key), theirs.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            found += difference(a, b, f"{prefix}{key}.")
        elif a != b:
            found.append(f"{prefix}{key}")
    return found

"""From what a person asked for to a plan: the data, the policies with their configurations, the tasks."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from runners.bench.datasets import registry
from runners.bench.rows import RunPlan, Variant
from runners.bench.tasks import Benchmark, Dataset
from runners.config import RunConfig, config_hash, config_tree, load_config
from runners.errors import UsageFault
from runners.request import ConfigRequest

LOCKSTEP = "summaries.publish=lockstep"
"""Summaries appear at a fixed step, not when they happen to be ready: so that a run repeats."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What `bench run` was asked for."""

    benchmark: str
    data: Path
    policies: tuple[str, ...]
    backbone: str | None = None
    profile: str | None = None
    config: Path | None = None
    overrides: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    ids: tuple[str, ...] = ()
    limit: int | None = None
    rollouts: int = 1
    shard: tuple[int, int] = (1, 1)
    seed: int | None = None
    corpus: str | None = None


def plan_run(request: RunRequest) -> tuple[RunPlan, Benchmark, Dataset]:
    """Raises UsageFault and ConfigError."""
    which = registry.benchmark(request.benchmark)
    variants = variants_of(request)
    dataset = registry.load(which, request.data, request.options)
    tasks = registry.pick(dataset.tasks, request.ids, request.limit, request.seed)
    plan = RunPlan(
        benchmark=which.name,
        data=str(request.data.resolve()),
        dataset=dataset.hash,
        options=dict(request.options),
        variants=variants,
        tasks=tuple(task.id for task in tasks),
        rollouts=request.rollouts,
        seed=request.seed,
        shard=request.shard,
        corpus=request.corpus,
        versions={"longstride": version("longstride"), "python": platform.python_version()},
    )
    return plan, which, dataset


def reload(plan: RunPlan, data: Path | None = None) -> tuple[Benchmark, Dataset]:
    """The data of a recorded plan. Raises UsageFault when it is not there any more, or has changed."""
    which = registry.benchmark(plan.benchmark)
    dataset = registry.load(which, data or Path(plan.data), plan.options)
    if dataset.hash != plan.dataset:
        raise UsageFault(
            f"the dataset has changed: {plan.dataset[:12]} when it was run, {dataset.hash[:12]} now",
            hint="restore the data, or name it: --data PATH",
        )
    return which, dataset


def variants_of(request: RunRequest) -> tuple[Variant, ...]:
    """One for each policy. Raises ConfigError and UsageFault (two of one name)."""
    variants = []
    for name in request.policies:
        options = (LOCKSTEP, *request.overrides)
        config = load_config(ConfigRequest(request.profile, name, request.backbone, request.config, options))
        variants.append(Variant(label_of(name, config), config_hash(config), json.dumps(config_tree(config))))
    labels = [variant.label for variant in variants]
    if len(set(labels)) < len(labels):
        raise UsageFault(f"--policy: {', '.join(labels)}: a name stands twice")
    if not labels:
        raise UsageFault("--policy is empty")
    return tuple(variants)


def label_of(name: str, config: RunConfig) -> str:
    """The policy's name in tables: that of its file."""
    return Path(name).stem if name.endswith((".yaml", ".yml")) else config.policy.variant or config.policy.name


def shard_of(text: str) -> tuple[int, int]:
    """``i/n``. Raises UsageFault."""
    place, _, of = text.partition("/")
    if place.isdecimal() and of.isdecimal() and 1 <= int(place) <= int(of):
        return int(place), int(of)
    raise UsageFault(f"--shard {text}: must look like 1/4, from 1/n to n/n")


def options_of(given: Sequence[str]) -> dict[str, str]:
    """``key=value`` each. Raises UsageFault."""
    found: dict[str, str] = {}
    for option in given:
        key, equals, value = option.partition("=")
        if not equals or not key:
            raise UsageFault(f"-o {option}: must look like key=value")
        found[key] = value
    return found

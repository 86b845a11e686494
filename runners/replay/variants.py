"""What is compared: policies with their options, budgets, lambdas and layouts, configured as runs are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Literal, TypeAlias

from memory.config import MemoryConfig
from memory.encoders.factory import EncoderConfig
from memory.policies.registry import POLICIES
from memory.records import JsonValue
from memory.summaries.config import SummaryConfig
from runners.config import RunConfig, load_config
from runners.errors import ConfigError, UsageFault
from runners.layers import did_you_mean, key_paths
from runners.request import ConfigRequest

Scope: TypeAlias = Literal["history", "request"]


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to build contexts. ``label`` is the policy as asked for (a packaged variant, or a file).

    ``budget`` tokens are for the old chunks (scope ``history``: whatever else a request holds comes on top) or for the
    whole request.
    """

    label: str
    policy: str
    options: Mapping[str, JsonValue]
    budget: int
    memory: MemoryConfig
    summaries: SummaryConfig = field(default_factory=SummaryConfig)
    scope: Scope = "history"
    lam: float | None = None
    changed: tuple[str, ...] = field(default=())
    """Options given on the command line that this variant took."""


@dataclass(frozen=True, slots=True)
class VariantRequest:
    """What the command line asks for."""

    policies: Sequence[str]
    budgets: Sequence[int]
    lambdas: Sequence[float] = ()
    layouts: Sequence[str] = ()
    scope: Scope = "history"
    profile: str | None = None
    file: Path | None = None
    options: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """The variants, and the encoder that they share."""

    variants: tuple[Variant, ...]
    encoder: EncoderConfig


def make_plan(request: VariantRequest) -> Plan:
    """Raises ConfigError or UsageFault: unknown policy, a budget that is none, an option that no policy knows."""
    if not request.policies or not request.budgets:
        raise UsageFault("a replay needs at least one policy and one budget")
    if any(budget < 1 for budget in request.budgets):
        raise UsageFault(f"--budget: must be positive, not {min(request.budgets)}")
    shared = [option for option in request.options if not option.startswith("policy.")]
    own = [option for option in request.options if option.startswith("policy.")]
    variants: list[Variant] = []
    taken: set[str] = set()
    config: RunConfig | None = None
    for policy in dict.fromkeys(request.policies):
        plain = _load(request, policy, shared)
        known = {".".join(("policy", *keys)) for keys in key_paths(POLICIES[plain.policy.name].config)}
        mine = [option for option in own if option.partition("=")[0].strip() in known]
        taken.update(mine)
        lambdas = request.lambdas if "policy.lambda" in known and request.lambdas else (None,)
        layouts = request.layouts or (None,)
        for lam, layout, budget in product(lambdas, layouts, request.budgets):
            extra = [*mine, *([f"policy.lambda={lam}"] if lam is not None else [])]
            extra += [f"memory.layout={layout}"] if layout is not None else []
            config = _load(request, policy, [*shared, *extra])
            variants.append(_variant(config, policy, budget, request.scope, lam, tuple(mine)))
    foreign = [option for option in own if option not in taken]
    if foreign or config is None:
        names = sorted({".".join(k) for p in POLICIES.values() for k in key_paths(p.config)})
        key = foreign[0].partition("=")[0].removeprefix("policy.")
        raise ConfigError(f"-c {foreign[0]}: none of these policies has it{did_you_mean(key, names)}")
    return Plan(tuple(variants), config.encoder)


def joined(plans: Sequence[Plan]) -> Plan:
    """Several plans as one. Raises UsageFault when their encoders differ."""
    if len({plan.encoder for plan in plans}) != 1:
        raise UsageFault("one replay has one encoder")
    return Plan(tuple(variant for plan in plans for variant in plan.variants), plans[0].encoder)


def _load(request: VariantRequest, policy: str, options: Sequence[str]) -> RunConfig:
    return load_config(ConfigRequest(request.profile, policy, None, request.file, tuple(options)))


def _variant(
    config: RunConfig, label: str, budget: int, scope: Scope, lam: float | None, changed: tuple[str, ...]
) -> Variant:
    options = config.policy.options.model_dump(mode="json", by_alias=True)
    name = Path(label).stem if label.endswith((".yaml", ".yml")) else label
    return Variant(name, config.policy.name, options, budget, config.memory, config.summaries, scope, lam, changed)

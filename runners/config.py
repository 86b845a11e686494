"""The configuration of a run: one frozen object, put together from files and options in a fixed order.

``configs/default.yaml``, then the profile, the policy file, the backbone file, the user's own YAML, then ``-c
key.path=value``; later wins. Each section's class lives beside what it configures; a new section is one line here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, SerializeAsAny, field_validator

from agent.backbones.factory import BackboneConfig
from agent.dialects.registry import dialect_names
from agent.limits import LimitsConfig
from memory.config import MemoryConfig
from memory.encoders.factory import EncoderConfig
from memory.policies.registry import POLICIES
from memory.records import JsonValue
from memory.summaries.config import SummaryConfig
from runners.choices import Choice, Kind, choice_layer, packaged_layer, read_text, split_choices
from runners.environment import looks_secret
from runners.errors import ConfigError
from runners.layers import Layer, Merged, Tree, did_you_mean, key_paths, merge, option_layer, validated, yaml_layer
from runners.request import ConfigRequest
from runners.scorers import with_coefficients
from tools.mcp.config import SERVER_NAME, McpServerConfig
from tools.python.config import PythonConfig
from tools.search.config import SearchConfig
from tools.visit.config import VisitConfig
from tools.web.policy import FetchConfig

LABELS = frozenset({"profile", "variant"})
"""Fields that say where values came from: runs that differ in nothing else are the same run."""
_FILES: tuple[Kind, ...] = ("policy", "backbone")


class Sections(BaseModel):
    """Every section whose class is fixed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    profile: str = "default"
    dialect: str = "guided"
    """How the model is talked to; a backbone's file names the one that suits it."""
    backbone: BackboneConfig = BackboneConfig()
    limits: LimitsConfig = LimitsConfig()
    memory: MemoryConfig = MemoryConfig()
    encoder: EncoderConfig = EncoderConfig()
    summaries: SummaryConfig = SummaryConfig()
    summary_backbone: BackboneConfig | None = None
    """The model of ``summaries.kind: llm``; null: the same as ``backbone``."""
    python: PythonConfig = PythonConfig()
    search: SearchConfig = SearchConfig()
    visit: VisitConfig = VisitConfig()
    fetch: FetchConfig = FetchConfig()
    mcp: dict[str, McpServerConfig] = {}
    """MCP servers by a name of the user's, which begins the names of their tools."""

    @field_validator("dialect")
    @classmethod
    def _known_dialect(cls, value: str) -> str:
        if value not in dialect_names():
            raise ValueError(f"unknown dialect: choose from {', '.join(dialect_names())}")
        return value

    @field_validator("mcp")
    @classmethod
    def _usable_servers(cls, value: dict[str, McpServerConfig]) -> dict[str, McpServerConfig]:
        for name, server in value.items():
            if not SERVER_NAME.fullmatch(name):
                raise ValueError(f"the server name {name!r} is not of 1-24 small letters, digits and -")
            secret = next((variable for variable in server.env if looks_secret(variable)), None)
            if secret:
                raise ValueError(f"{name}.env holds {secret}, and is stored: name it in {name}.pass_env instead")
        return value


class PolicySection(BaseModel):
    """The context policy. ``name`` is of the registry and ``options`` of that entry's config class; ``variant`` is the
    file it came from. In YAML the options stand beside the name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    options: SerializeAsAny[BaseModel]
    variant: str = ""


class RunConfig(Sections):
    """Everything that decides how a run goes, without secrets."""

    policy: PolicySection


def load_config(request: ConfigRequest | None = None) -> RunConfig:
    """Put the layers together. Raises ConfigError: each problem names the key and the file or option it stands in."""
    request = request or ConfigRequest()
    own = [_file_layer(request.file)] if request.file else []
    typed = [option_layer(option) for option in request.options]
    asked = {"profile": request.profile, "policy": request.policy, "backbone": request.backbone}
    commanded = {kind: Choice(name, f"--{kind}") for kind, name in asked.items() if name is not None}

    chosen_below, default = split_choices(packaged_layer("default.yaml"))
    chosen_above: dict[str, Choice] = {}
    above = []
    for layer in (*own, *typed):
        choices, rest = split_choices(layer)
        chosen_above |= choices
        above.append(rest)
    chosen_above |= commanded

    profile = (chosen_below | chosen_above)["profile"]
    chosen_by_profile, profile_layer = split_choices(choice_layer("profile", profile))
    chosen = chosen_below | chosen_by_profile | chosen_above
    files = [choice_layer(kind, chosen[kind]) for kind in _FILES]
    merged = merge([default, profile_layer, *files, *above])
    return build_config(merged, profile=profile.name, variant=chosen["policy"].name)


def config_tree(config: RunConfig) -> Tree:
    """The configuration as plain JSON values, in the shape of the YAML files: what a session stores."""
    tree: Tree = config.model_dump(mode="json", by_alias=True)
    options = config.policy.options.model_dump(mode="json", by_alias=True)
    tree["policy"] = {"name": config.policy.name, "variant": config.policy.variant, **options}
    return tree


def stored_config(tree: Mapping[str, JsonValue], origin: str) -> RunConfig:
    """The inverse of `config_tree`; ``origin`` names the session in errors. Raises ConfigError."""
    rest = dict(tree)
    profile = rest.pop("profile", "")
    policy = rest.get("policy")
    policy = dict(policy) if isinstance(policy, dict) else {}
    variant = policy.pop("variant", "")
    rest["policy"] = policy
    return build_config(merge([Layer(origin, rest)]), profile=str(profile), variant=str(variant))


def config_hash(config: RunConfig) -> str:
    """SHA-256 (hex) of the canonical JSON of the configuration, labels left out. It never held a secret."""
    return tree_hash(config_tree(config))


def tree_hash(config: JsonValue) -> str:
    """`config_hash` of a configuration as it is stored."""
    tree = _without_labels(config)
    canonical = json.dumps(tree, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def build_config(merged: Merged, *, profile: str, variant: str) -> RunConfig:
    """Merged layers, choices taken out, as a configuration. Raises ConfigError with every problem."""
    tree = dict(merged.tree)
    options = tree.pop("policy", {})
    tree["profile"] = profile
    problems: list[str] = []
    policy = sections = None
    try:
        policy = _policy(options if isinstance(options, dict) else {}, merged, variant)
    except ConfigError as fault:
        problems += fault.problems
    try:
        elsewhere = [f"policy.{key}" for entry in POLICIES.values() for (key, *_) in key_paths(entry.config)]
        sections = validated(Sections, Merged(tree, merged.origins), elsewhere=elsewhere)
    except ConfigError as fault:
        problems += fault.problems
    if policy is None or sections is None:
        raise ConfigError(problems)
    return RunConfig(policy=policy, **{name: getattr(sections, name) for name in Sections.model_fields})


def _policy(section: Mapping[str, JsonValue], merged: Merged, variant: str) -> PolicySection:
    options = dict(section)
    name = str(options.pop("name", ""))
    entry = POLICIES.get(name)
    if entry is None:
        origin = merged.origin(("policy", "name"))
        known = ", ".join(sorted(POLICIES))
        raise ConfigError(f"{origin}: unknown policy {name!r}: choose from {known}{did_you_mean(name, [*POLICIES])}")
    options = with_coefficients(options, merged.origin(("policy", "coefficients")))
    return PolicySection(
        name=name,
        options=validated(entry.config, Merged({"policy": options}, merged.origins), ("policy",)),
        variant=variant,
    )


def _file_layer(path: Path) -> Layer:
    return yaml_layer(read_text(path, f"--config {path}"), str(path))


def _without_labels(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {key: _without_labels(inner) for key, inner in value.items() if key not in LABELS}
    return value

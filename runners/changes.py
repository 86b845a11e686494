"""What of a configuration may change in a session that has begun: nothing that its record depends on.

A recorded context is rendered again from the store and must hash to what was sent. So whatever writes into a request
(dialect, glimpse pages) stays; what only decides (limits, policy, budget, encoder, summaries, model) may change, and so
may where MCP servers are, since the tools on offer are on record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent.control.registry import control_for
from memory.records import JsonValue
from runners.choices import choice_layer, split_choices
from runners.config import RunConfig, build_config, config_tree
from runners.errors import ConfigError
from runners.layers import Layer, merge, option_layer

SECTIONS = frozenset({"limits", "encoder", "summaries", "summary_backbone", "policy", "backbone", "mcp"})
MEMORY = frozenset({"budget", "overflow", "spend", "recent", "key_wait_s"})


def changed_config(stored: RunConfig, options: Sequence[str]) -> RunConfig:
    """The stored configuration with ``key.path=value`` options on top. Raises ConfigError for what may not change."""
    tree = config_tree(stored)
    layers = []
    variant = stored.policy.variant
    for option in options:
        chosen, rest = split_choices(option_layer(option))
        if "profile" in chosen or "backbone" in chosen:
            raise ConfigError(f"-c {option}: a session that has begun takes single values, not a whole file")
        if "policy" in chosen:
            variant = chosen["policy"].name
            policy = choice_layer("policy", chosen["policy"]).tree
            tree["policy"] = {}
            layers.append(Layer(f"-c {option}", policy))
        layers.append(rest)
    policy_tree = tree["policy"]
    assert isinstance(policy_tree, dict)
    policy_tree.pop("variant", None)
    profile = str(tree.pop("profile"))
    config = build_config(merge([Layer("the session", tree), *layers]), profile=profile, variant=variant)
    refused = [path for path in differences(stored, config) if not _may_change(path.split("."))]
    if refused:
        raise ConfigError([f"{path} cannot change in a session that has begun" for path in refused])
    if "embedded" in (stored.backbone.kind, config.backbone.kind) and stored.backbone.kind != config.backbone.kind:
        raise ConfigError("backbone.kind cannot change from or to embedded: the two are offered different tools")
    if _control(stored) != _control(config):
        raise ConfigError("policy cannot change from or to one that brings tools of its own: the tools on offer stay")
    return config


def _control(config: RunConfig) -> list[str]:
    return [tool.name for tool in control_for(config.policy.name).tools]


def differences(before: RunConfig, after: RunConfig) -> dict[str, JsonValue]:
    """``key.path`` -> new value, for every value that differs."""
    old, new = dict(_leaves(config_tree(before))), dict(_leaves(config_tree(after)))
    return {path: new.get(path) for path in sorted({*old, *new}) if old.get(path) != new.get(path)}


def _may_change(path: Sequence[str]) -> bool:
    return path[0] in SECTIONS or (path[0] == "memory" and path[1] in MEMORY)


def _leaves(value: JsonValue, path: str = "") -> Iterator[tuple[str, JsonValue]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else key)
    else:
        yield path, value

"""Fitted scorers as files: read where a policy's options name one, written by ``longstride fit-profile``."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from memory.records import JsonValue
from memory.scoring.learned import FEATURES, Coefficients, KindCoefficients
from runners.errors import ConfigError
from runners.layers import Tree, did_you_mean, yaml_layer

FOLDER = "scorers"


def scorer_names() -> list[str]:
    """The packaged scorers."""
    entries = (files("configs") / FOLDER).iterdir()
    return sorted(entry.name.removesuffix(".yaml") for entry in entries if entry.name.endswith(".yaml"))


def with_coefficients(options: Mapping[str, JsonValue], origin: str) -> Tree:
    """A policy's options with ``coefficients: NAME`` (packaged, or a path that ends in ``.yaml``) replaced by what the
    file holds: a stored configuration must not depend on a file that may change. Raises ConfigError."""
    name = options.get("coefficients")
    return {**options, "coefficients": scorer_tree(name, origin)} if isinstance(name, str) else dict(options)


def scorer_tree(name: str, origin: str) -> Tree:
    """What a scorer file holds. Raises ConfigError naming ``origin``."""
    if name.endswith((".yaml", ".yml")):
        try:
            return yaml_layer(Path(name).read_text("utf-8-sig"), name).tree
        except (OSError, UnicodeDecodeError) as fault:
            reason = fault.strerror if isinstance(fault, OSError) else "not UTF-8 text"
            raise ConfigError(f"{origin}: coefficients file {name} cannot be read: {reason}") from fault
    known = scorer_names()
    if name not in known:
        raise ConfigError(
            f"{origin}: unknown coefficients {name!r}: choose from {', '.join(known)}{did_you_mean(name, known)}"
        )
    return yaml_layer((files("configs") / FOLDER / f"{name}.yaml").read_text("utf-8"), f"configs/{FOLDER}/{name}").tree


def scorer_yaml(given: Coefficients, notes: list[str]) -> str:
    """The file, ``notes`` as comments at its head; reading it gives ``given`` again."""
    lines = [f"# {note}" for note in notes]
    lines += [f"fitted_on: {given.fitted_on}", f"hash: {given.hash}"]
    lines += [f"gate: {{midpoint: {given.gate.midpoint!r}, slope: {given.gate.slope!r}}}"]
    for name, model in (("step", given.step), ("lookup", given.lookup), ("turn", given.turn)):
        lines += [f"{name}:", f"  intercept: {model.intercept!r}", "  weights:", *_weights(model)]
    return "\n".join(lines) + "\n"


def _weights(model: KindCoefficients) -> list[str]:
    return [f"    {name}: {model.weights[name]!r}" for name in FEATURES]

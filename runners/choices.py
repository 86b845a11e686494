"""Choosing packaged configuration by name: a profile, a policy, a backbone is one YAML file in ``configs``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Literal, TypeAlias

from runners.errors import ConfigError
from runners.layers import Layer, Tree, did_you_mean, yaml_layer

Kind: TypeAlias = Literal["profile", "policy", "backbone"]
FOLDERS: Mapping[Kind, str] = {"profile": "profiles", "policy": "policies", "backbone": "backbones"}


@dataclass(frozen=True, slots=True)
class Choice:
    """A file chosen by name, and who chose it."""

    name: str
    origin: str


def packaged_names(kind: Kind) -> list[str]:
    """What there is to choose from."""
    entries = (_root() / FOLDERS[kind]).iterdir()
    return sorted(entry.name.removesuffix(".yaml") for entry in entries if entry.name.endswith(".yaml"))


def packaged_text(kind: Kind, name: str) -> str:
    """The YAML of a packaged file, as it stands."""
    return (_root() / FOLDERS[kind] / f"{name}.yaml").read_text("utf-8")


def packaged_layer(name: str) -> Layer:
    """A file of ``configs`` by its path there."""
    return yaml_layer((_root() / name).read_text("utf-8"), f"configs/{name}")


def choice_layer(kind: Kind, choice: Choice) -> Layer:
    """The file that a name stands for; a name that ends in ``.yaml`` is a path of the user's. Raises ConfigError."""
    name = choice.name
    if name.endswith((".yaml", ".yml")):
        return yaml_layer(read_text(Path(name), f"{choice.origin}: {kind} file {name}"), name)
    known = packaged_names(kind)
    if name not in known:
        near = did_you_mean(name, known)
        raise ConfigError(f"{choice.origin}: unknown {kind} {name!r}: choose from {', '.join(known)}{near}")
    return packaged_layer(f"{FOLDERS[kind]}/{name}.yaml")


def read_text(path: Path, what: str) -> str:
    """A configuration file of the user's. Raises ConfigError, in which ``what`` names it."""
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else "not UTF-8 text"
        raise ConfigError(f"{what}: cannot be read: {reason}") from fault


def split_choices(layer: Layer) -> tuple[dict[str, Choice], Layer]:
    """Take the choices out of a layer: ``profile: NAME``, and ``policy: NAME`` or ``policy: {name: NAME}`` (backbone
    alike). What is left overrides values inside the chosen files."""
    choices: dict[str, Choice] = {}
    rest: Tree = {}
    for key, value in layer.tree.items():
        if key in FOLDERS and isinstance(value, str):
            choices[key] = Choice(value, layer.origin)
        elif key in ("policy", "backbone") and isinstance(value, dict) and isinstance(value.get("name"), str):
            choices[key] = Choice(str(value["name"]), layer.origin)
            rest[key] = {inner: given for inner, given in value.items() if inner != "name"}
        else:
            rest[key] = value
    return choices, Layer(layer.origin, rest)


def _root() -> Traversable:
    return files("configs")

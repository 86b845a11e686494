"""Configuration as layers: YAML read strictly, merged in order, every value remembering where it came from."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from memory.records import JsonValue
from runners.errors import ConfigError

MAX_DIGITS = 300
MAX_DEPTH, MAX_VALUES = 32, 100_000
"""Of one YAML document, with everything that its aliases repeat."""

_PLAIN = {
    "model_type": "must hold keys with values of their own",
    "dict_type": "must hold keys with values of their own",
    "tuple_type": "must be a list, as in [a, b]",
}
"""What pydantic says in the words of Python."""

M = TypeVar("M", bound=BaseModel)
Tree = dict[str, JsonValue]


class _Loader(yaml.SafeLoader):
    """YAML with the scalars of JSON and the schema of YAML 1.2: ``off`` and ``2024-01-01`` are strings, as written."""

    yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012 - the base class's own protocol

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            name = self.construct_object(key, deep=True)
            wrong = "is not text" if not isinstance(name, str) else "stands twice" if name in seen else ""
            if wrong:
                raise yaml.constructor.ConstructorError(None, None, f"the key {name!r} {wrong}", key.start_mark)
            seen.add(name)
        return dict(super().construct_mapping(node, deep))


for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", list("-+.0123456789")),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"), _first)


def _number(kind: type[int] | type[float]) -> Any:
    def construct(loader: _Loader, node: Any) -> int | float:
        # 4,300 digits is where Python stops reading; 1e999 is a number to YAML and infinity to Python
        value = kind(node.value) if len(node.value) <= MAX_DIGITS else math.inf
        if not math.isfinite(value):
            raise yaml.constructor.ConstructorError(None, None, "a number is too large", node.start_mark)
        return value

    return construct


_Loader.add_constructor("tag:yaml.org,2002:int", _number(int))
_Loader.add_constructor("tag:yaml.org,2002:float", _number(float))


@dataclass(frozen=True, slots=True)
class Layer:
    """One source of configuration. ``origin`` is how errors name it: a file, or the option as typed."""

    origin: str
    tree: Tree


@dataclass(frozen=True, slots=True)
class Merged:
    """The layers as one tree, and for every leaf (a path of keys) the origin that set it last."""

    tree: Tree
    origins: Mapping[tuple[str, ...], str]

    def origin(self, path: tuple[str, ...]) -> str:
        """Who set what stands at ``path``: the leaf itself, else something below or above it."""
        for known, origin in self.origins.items():
            if known[: len(path)] == path or path[: len(known)] == known:
                return origin
        return "configuration"


def parse_yaml(text: str, origin: str) -> JsonValue:
    """The value of a YAML document. Raises ConfigError."""
    try:
        value: JsonValue = yaml.load(text, _Loader)
    except yaml.YAMLError as fault:
        mark = getattr(fault, "problem_mark", None)
        where = f"{origin}:{mark.line + 1}" if mark else origin
        why = " ".join(str(getattr(fault, "problem", None) or fault).split())
        raise ConfigError(f"{where}: not readable as YAML: {why}") from fault
    except RecursionError as fault:
        raise ConfigError(f"{origin}: nested too deeply") from fault
    _expect_small(value, origin)
    return value


def _expect_small(value: JsonValue, origin: str) -> None:
    """Raises ConfigError for what aliases made endless or huge."""
    level, seen = [value], 0
    for _ in range(MAX_DEPTH):
        below: list[JsonValue] = []
        for item in level:
            below.extend(item.values() if isinstance(item, dict) else item if isinstance(item, list) else ())
            if seen + len(below) > MAX_VALUES:
                raise ConfigError(f"{origin}: more than {MAX_VALUES:,} values")
        if not below:
            return
        level, seen = below, seen + len(below)
    raise ConfigError(f"{origin}: nested too deeply")


def yaml_layer(text: str, origin: str) -> Layer:
    """A layer from the text of a YAML file. Raises ConfigError."""
    value = parse_yaml(text, origin)
    if value is None:
        value = {}
    if not isinstance(value, dict):
        raise ConfigError(f"{origin}: must be a mapping of keys to values, not {type(value).__name__}")
    return Layer(origin, value)


def option_layer(option: str) -> Layer:
    """A layer from ``key.path=value``, the value read as YAML. Raises ConfigError."""
    path, equals, value = option.partition("=")
    keys = [key.strip() for key in path.split(".")]
    if not equals or not all(keys):
        raise ConfigError(f"-c {option}: must look like key.path=value")
    tree: JsonValue = parse_yaml(value, f"-c {option}")
    for key in reversed(keys):
        tree = {key: tree}
    assert isinstance(tree, dict)
    return Layer(f"-c {option}", tree)


def merge(layers: Iterable[Layer]) -> Merged:
    """Later layers win; mappings merge key by key, everything else is replaced."""
    tree: Tree = {}
    origins: dict[tuple[str, ...], str] = {}
    for layer in layers:
        _merge_into(tree, layer.tree, (), layer.origin, origins)
    return Merged(tree, origins)


def _merge_into(
    base: Tree, over: Mapping[str, JsonValue], path: tuple[str, ...], origin: str, origins: dict[tuple[str, ...], str]
) -> None:
    for key, value in over.items():
        here = (*path, key)
        below = base.get(key)
        if isinstance(value, dict):
            if not isinstance(below, dict):
                below = base[key] = {}
                origins.pop(here, None)
            _merge_into(below, value, here, origin, origins)
        else:
            for known in [known for known in origins if known[: len(here)] == here]:
                del origins[known]
            base[key] = value
            origins[here] = origin


def validated(model: type[M], merged: Merged, prefix: tuple[str, ...] = (), *, elsewhere: Sequence[str] = ()) -> M:
    """The part of the tree below ``prefix`` as a ``model``. Raises ConfigError with one line per problem, which may
    suggest a key of the model or one of the keys that stand ``elsewhere``."""
    part: JsonValue = merged.tree
    for key in prefix:
        part = part.get(key, {}) if isinstance(part, dict) else {}
    try:
        return model.model_validate(part)
    except ValidationError as fault:
        names = [*(".".join((*prefix, *keys)) for keys in key_paths(model)), *elsewhere]
        problems = [_problem(error, part, prefix, merged, names) for error in fault.errors()]
        raise ConfigError(list(dict.fromkeys(problems))) from fault


def _problem(error: Any, part: JsonValue, prefix: tuple[str, ...], merged: Merged, names: Sequence[str]) -> str:
    path = (*prefix, *_path_in(part, error["loc"]))
    key = ".".join(path)
    origin = merged.origin(path)
    if error["type"] == "extra_forbidden":
        return f"{origin}: unknown key {key!r}{did_you_mean(key, names)}"
    if error["type"] == "missing":
        return f"{origin}: {'.'.join((*prefix, *map(str, error['loc'])))} is missing"
    message = _PLAIN.get(error["type"]) or error["msg"].removeprefix("Value error, ")
    return f"{origin}: {key}: {message[:1].lower()}{message[1:]} (got {error['input']!r:.80})"


def _path_in(part: JsonValue, loc: Sequence[int | str]) -> Iterator[str]:
    """The keys of an error's location that are really in the data: pydantic adds the tags of unions."""
    for step in loc:
        if isinstance(part, dict) and step in part:
            part = part[str(step)]
        elif isinstance(part, list) and isinstance(step, int) and step < len(part):
            part = part[step]
        else:
            continue
        yield str(step)


def did_you_mean(key: str, names: Sequence[str]) -> str:
    """``; did you mean 'a' or 'b'?`` of the nearest names (whole, or by their last part), or nothing."""
    parent, _, last = key.rpartition(".")
    siblings = {name.rpartition(".")[2]: name for name in names if name.rpartition(".")[0] == parent}
    near = [siblings[match] for match in difflib.get_close_matches(last, siblings, n=2)]
    if not near:
        lasts = {name.rpartition(".")[2]: name for name in reversed(names)}
        near = [lasts[match] for match in difflib.get_close_matches(last, lasts, n=2, cutoff=0.75)]
    return f"; did you mean {' or '.join(repr(name) for name in near)}?" if near else ""


def key_paths(model: type[BaseModel]) -> Iterator[tuple[str, ...]]:
    """Every key that a model takes, nested ones included, as a user writes them."""
    for name, info in model.model_fields.items():
        key = info.alias or name
        yield (key,)
        for inner in _models_in(info.annotation):
            for path in key_paths(inner):
                yield (key, *path)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)

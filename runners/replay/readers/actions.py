"""Actions as other programs record them: names and arguments in ours."""

from __future__ import annotations

import json
from collections.abc import Mapping

from memory.records import JsonValue, Source

FINAL_ACTIONS = frozenset({"answer", "final", "final_answer", "finish", "message"})
"""Names of a last action that is an answer, in lower case."""


def arguments_of(name: str, given: object) -> tuple[str, dict[str, JsonValue]]:
    """(tool, arguments): JSON objects as they are, ``{"name", "arguments"}`` unwrapped, anything else as ``input``."""
    value = decoded(given)
    if isinstance(value, Mapping):
        inner = decoded(value.get("arguments"))
        if set(value) == {"name", "arguments"} and isinstance(value["name"], str) and isinstance(inner, Mapping):
            return value["name"], dict(inner)
        return name, {str(key): item for key, item in value.items()}
    return name, {} if value in (None, "", [], {}) else {"input": value}  # type: ignore[dict-item]


def decoded(given: object) -> object:
    """A text that is JSON of an object or list, decoded; else as given."""
    if isinstance(given, str) and given.strip()[:1] in ("{", "["):
        try:
            return json.loads(given)
        except (ValueError, RecursionError):
            return given
    return given


def sources_of(arguments: Mapping[str, JsonValue]) -> tuple[Source, ...]:
    """The addresses that a call named."""
    found: list[str] = []
    for value in arguments.values():
        items = value if isinstance(value, list) else [value]
        found.extend(item for item in items if isinstance(item, str) and item.startswith(("http://", "https://")))
    return tuple(Source(url) for url in found)

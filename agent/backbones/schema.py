"""Schemas whose root is not an object: the providers refuse an ``anyOf`` there, so it goes one level down."""

from __future__ import annotations

import json
from collections.abc import Mapping

from memory.records import JsonValue

WRAPPED = "reply"


def is_rooted(schema: Mapping[str, JsonValue]) -> bool:
    """Whether a provider takes it as it stands."""
    return schema.get("type") == "object" and not {"anyOf", "oneOf", "allOf"} & set(schema)


def rooted(schema: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The schema, inside an object with one property where its root is not an object. Undone by `unwrapped`."""
    if is_rooted(schema):
        return dict(schema)
    properties: dict[str, JsonValue] = {WRAPPED: dict(schema)}
    return {"type": "object", "properties": properties, "required": [WRAPPED], "additionalProperties": False}


def unwrapped(text: str, schema: Mapping[str, JsonValue] | None) -> str:
    """A reply to `rooted` as a reply to ``schema``. What is no such object stays as it is: the dialect judges it."""
    if schema is None or is_rooted(schema):
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(value, dict) or set(value) != {WRAPPED}:
        return text
    return json.dumps(value[WRAPPED], ensure_ascii=False)

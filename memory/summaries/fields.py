"""JSON observations as short field lines, so that ids, amounts, dates and status survive a summary."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from memory.records import JsonValue

UNIT_CHARS = 160
"""An object whose fields fit this many characters is one line."""
LIST_ITEMS = 8
"""Scalars shown of a list."""
STRING_CHARS = 300
"""A longer string is prose, not a field."""
_MAX_DEPTH = 12
_KEY_FIELD = re.compile(
    r"(?:^|_|\b)(?:id|ids|no|number|code|key|name|title|email|phone|address|zip|url|link|date|time|day|year|status|state|"
    r"price|amount|total|cost|balance|payment|refund|fee|currency|quantity|count|available|error|message|reason|result|"
    r"answer|version|order|user|origin|destination|cabin)s?(?:$|_|\b)",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def parse(text: str) -> JsonValue:
    """The JSON object or list that a text consists of, else None."""
    stripped = text.strip()
    if stripped[:1] not in ("{", "["):
        return None
    try:
        value: JsonValue = json.loads(stripped)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def lines(value: JsonValue, path: str = "", depth: int = 0) -> Iterator[tuple[str, bool]]:
    """(line, is prose) of a JSON value, in its order. Small objects are one line; long lists are cut with a count."""
    flat = _flat(value, depth)
    if flat is not None and len(flat) <= UNIT_CHARS:
        yield _labelled(path, flat), False
        return
    if depth >= _MAX_DEPTH and isinstance(value, dict | list):
        yield _labelled(path, f"({len(value)} entries)"), False
    elif isinstance(value, dict):
        yield from _object_lines(value, path, depth)
    elif isinstance(value, list):
        yield from _list_lines(value, path, depth)
    else:
        yield _labelled(path, _scalar(value)), isinstance(value, str)


def has_key_field(line: str) -> bool:
    """Whether a field line names an id, amount, date, status or the like."""
    return bool(_KEY_FIELD.search(_CAMEL.sub("_", line)))


def _object_lines(value: dict[str, JsonValue], path: str, depth: int) -> Iterator[tuple[str, bool]]:
    group: list[str] = []
    size = 0
    for key, item in value.items():
        flat = _flat(item, depth + 1)
        if flat is None or len(flat) > UNIT_CHARS:
            if group:
                yield _labelled(path, ", ".join(group)), False
                group, size = [], 0
            yield from lines(item, _join(path, key), depth + 1)
            continue
        piece = f"{key}: {flat}" if not isinstance(item, dict) else f"{key}: ({flat})"
        if size + len(piece) > UNIT_CHARS and group:
            yield _labelled(path, ", ".join(group)), False
            group, size = [], 0
        group.append(piece)
        size += len(piece) + 2
    if group:
        yield _labelled(path, ", ".join(group)), False


def _list_lines(value: list[JsonValue], path: str, depth: int) -> Iterator[tuple[str, bool]]:
    if all(not isinstance(item, dict | list) for item in value) and all(len(_scalar(v)) <= UNIT_CHARS for v in value):
        shown = ", ".join(_scalar(item) for item in value[:LIST_ITEMS])
        more = len(value) - LIST_ITEMS
        yield _labelled(path, shown + (f" (+{more} more)" if more > 0 else "")), False
        return
    for index, item in enumerate(value):
        yield from lines(item, f"{path}[{index}]", depth + 1)


def _flat(value: JsonValue, depth: int) -> str | None:
    """A value on one line; None when it cannot be short (long strings, big containers)."""
    if isinstance(value, dict):
        if len(value) > 12 or depth >= _MAX_DEPTH:
            return None
        parts = [(key, item, _flat(item, depth + 1)) for key, item in value.items()]
        if any(flat is None for _, _, flat in parts):
            return None
        return ", ".join(
            f"{key}: ({flat})" if isinstance(item, dict) else f"{key}: {flat}" for key, item, flat in parts
        )
    if isinstance(value, list):
        if len(value) > LIST_ITEMS or depth >= _MAX_DEPTH:
            return None
        items = [_flat(item, depth + 1) for item in value]
        if any(item is None for item in items):
            return None
        return "[" + "; ".join(item for item in items if item is not None) + "]"
    text = _scalar(value)
    return text if len(text) <= STRING_CHARS else None


def _scalar(value: JsonValue) -> str:
    if isinstance(value, str):
        return " ".join(value.split())
    return json.dumps(value, ensure_ascii=False)


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _labelled(path: str, text: str) -> str:
    # the last two names place a field well enough; a whole path would cost more than the value
    short = ".".join(path.split(".")[-2:])
    return f"{short}: {text}" if short else text

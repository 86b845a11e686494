"""What a server lists, checked and cut down to what a model may be offered. Everything here is outside text."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from memory.records import JsonValue, ToolSpec
from memory.sanitize import sanitize
from tools.mcp.config import McpFault

MAX_TOOLS = 64
"""Tools of one server that are offered; every one costs tokens in every request."""
MAX_SCHEMA = 16_000
"""Characters of one schema as JSON."""
MAX_TOTAL = 64_000
"""Characters of everything that one server offers, as JSON."""
MAX_DEPTH = 16
MAX_DESCRIPTION = 1_000
MAX_NAME = 64
NAMED = 5
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_PROPERTY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_DROPPED = frozenset({"$schema", "$id", "$comment", "examples"})


@dataclass(frozen=True, slots=True)
class Listed:
    """A tool as its server lists it, nothing checked."""

    name: str
    description: str
    schema: Mapping[str, JsonValue]


class _Refused(Exception):
    """A listed tool cannot be offered; the message says why."""


def offers(server: str, listed: Sequence[Listed], allow: Sequence[str] | None) -> tuple[list[ToolSpec], list[str]]:
    """The offers in the server's order, and a line for each tool that was left out.

    Raises McpFault when ``allow`` names what cannot be offered, or when without it there are too many.
    """
    if allow is not None:
        known = {tool.name for tool in listed}
        missing = [name for name in allow if name not in known]
        if missing:
            raise McpFault(f"MCP server {server} has no tool {_names(missing)}", f"it has {_names(sorted(known))}")
        listed = [tool for tool in listed if tool.name in allow]
    if len(listed) > MAX_TOOLS:
        what = f"MCP server {server} lists {len(listed):,} tools, more than {MAX_TOOLS}"
        raise McpFault(what, f"name those that are wanted in mcp.{server}.allow")
    twice = {name for name, count in Counter(full_name(server, tool.name) for tool in listed).items() if count > 1}
    found: list[ToolSpec] = []
    left_out: list[str] = []
    for tool in listed:
        try:
            found.append(_offer(server, tool, twice))
        except _Refused as refused:
            left_out.append(f"{_names([tool.name])}: {refused}")
    size = sum(len(_json(spec.parameters)) + len(spec.description) for spec in found)
    if size > MAX_TOTAL:
        what = f"MCP server {server}: its tools take {size:,} characters of every request, more than {MAX_TOTAL:,}"
        raise McpFault(what, f"name those that are wanted in mcp.{server}.allow")
    if left_out and allow is not None:
        raise McpFault(f"MCP server {server}: a tool cannot be offered: {'; '.join(left_out[:NAMED])}")
    return found, left_out


def _offer(server: str, tool: Listed, twice: Iterable[str]) -> ToolSpec:
    name = full_name(server, tool.name)
    if not tool.name or not _NAME.fullmatch(name):
        raise _Refused("its name is not of letters, digits, _ and -")
    if len(name) > MAX_NAME:
        raise _Refused(f"{name[:MAX_NAME]}… is longer than {MAX_NAME} characters")
    if name in twice:
        raise _Refused("the server lists its name twice")
    about = " ".join(sanitize(tool.description).split())
    description = f"({server}, an outside tool) {about[:MAX_DESCRIPTION]}".rstrip()
    return ToolSpec(name, description, checked_schema(tool.schema))


def full_name(server: str, tool: str) -> str:
    """What a model calls a tool of a server. The protocol allows dots and slashes in names, providers do not."""
    return f"{server}__{re.sub(r'[./]', '_', tool)}"


def checked_schema(schema: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """A tool's parameters, texts storable, of bounded size. Raises _Refused."""
    if schema.get("type", "object") != "object":
        raise _Refused("its parameters are not an object")
    clean = _clean(schema, MAX_DEPTH)
    assert isinstance(clean, dict)
    properties = clean.get("properties", {})
    if not isinstance(properties, dict) or not all(isinstance(one, dict | bool) for one in properties.values()):
        raise _Refused("its parameters are no JSON schema")
    wrong = [name for name in properties if not _PROPERTY.fullmatch(name)]
    if wrong:
        raise _Refused(f"a parameter has the name {wrong[0][:80]!r}, which providers do not take")
    checked: dict[str, JsonValue] = {**clean, "type": "object", "properties": properties}
    try:
        size = len(_json(checked))
    except ValueError as fault:
        raise _Refused("its schema holds a number that JSON does not have") from fault
    if size > MAX_SCHEMA:
        raise _Refused(f"its schema has {size:,} characters, more than {MAX_SCHEMA:,}")
    return checked


def _json(value: Mapping[str, JsonValue]) -> str:
    return json.dumps(dict(value), ensure_ascii=False, allow_nan=False)


def _clean(value: JsonValue | Mapping[str, JsonValue], depth: int) -> JsonValue:
    if depth == 0:
        raise _Refused(f"its schema is more than {MAX_DEPTH} levels deep")
    if isinstance(value, str):
        return sanitize(value)
    if isinstance(value, list):
        return [_clean(item, depth - 1) for item in value]
    if isinstance(value, Mapping):
        reference = value.get("$ref")
        if isinstance(reference, str) and not reference.startswith("#"):
            raise _Refused("its schema refers to another document")
        return {sanitize(key): _clean(item, depth - 1) for key, item in value.items() if key not in _DROPPED}
    return value


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return (", ".join(repr(sanitize(name[:40])) for name in names[:NAMED]) or "no tools") + more

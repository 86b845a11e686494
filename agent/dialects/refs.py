"""Parameters of a tool without ``$ref``, for dialects that put them into a schema of their own."""

from __future__ import annotations

from collections.abc import Mapping

from agent.errors import UnusableTool
from memory.records import JsonValue, ToolSpec

MAX_NODES = 5_000
"""Values of a schema with everything written out: definitions that use each other twice grow without bound."""
_VALUES = frozenset({"enum", "const", "default"})
"""What stands under these is data, not schema."""
_DEFINITIONS = frozenset({"$defs", "definitions"})


def inlined(tool: ToolSpec) -> dict[str, JsonValue]:
    """The parameters with each reference replaced by what it names; what stands beside a reference wins.

    Raises UnusableTool for a reference that leads nowhere, into itself, or into more than `MAX_NODES` values.
    """
    root = {key: value for key, value in tool.parameters.items() if key not in _DEFINITIONS}
    written = _Inliner(tool)(root, ())
    assert isinstance(written, dict)
    return written


class _Inliner:
    def __init__(self, tool: ToolSpec) -> None:
        self._tool = tool
        self._left = MAX_NODES

    def __call__(self, value: JsonValue, inside: tuple[str, ...]) -> JsonValue:
        self._left -= 1
        if self._left < 0:
            raise self._refused(f"written out, they are more than {MAX_NODES:,} values")
        if isinstance(value, list):
            return [self(item, inside) for item in value]
        if not isinstance(value, dict):
            return value
        reference = value.get("$ref")
        if not isinstance(reference, str):
            return {key: item if key in _VALUES else self(item, inside) for key, item in value.items()}
        if reference in inside:
            raise self._refused(f"{reference} refers to itself")
        named = self(self._target(reference), (*inside, reference))
        beside = {key: item for key, item in value.items() if key != "$ref"}
        if not isinstance(named, dict):
            return named if not beside else self(beside, inside)
        own = self(beside, inside)
        return {**named, **own} if isinstance(own, dict) else named

    def _target(self, reference: str) -> JsonValue:
        found: JsonValue = dict(self._tool.parameters)
        for part in reference.removeprefix("#").split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, Mapping) and key in found:
                found = found[key]
            elif isinstance(found, list) and key.isdecimal() and int(key) < len(found):
                found = found[int(key)]
            else:
                raise self._refused(f"{reference} leads nowhere")
        return found

    def _refused(self, why: str) -> UnusableTool:
        name = self._tool.name
        return UnusableTool(
            f"the parameters of {name} cannot be written in this dialect: {why}",
            hint=f"leave it out (mcp.{name.partition('__')[0]}.allow), or use the dialect native",
        )

"""The tools of a run: what a model is told of them, and the one place where its calls are checked and run.

A call can end in four ways: an observation; a `ToolError`, shown to the model with its kind; a timeout, shown as such;
anything else is a fault of the program and propagates. Cancelling `Toolset.run` cancels the tool that is running.
"""

from __future__ import annotations

import asyncio
import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeAlias, runtime_checkable

from pydantic import ValidationError

from memory.records import ErrorKind, JsonValue, Observation, Source, ToolCall, ToolSpec
from memory.sanitize import sanitize
from tools.base import Arguments, CallContext, Tool, ToolError

AnyTool: TypeAlias = Tool[Any]
MAX_TEXT = 200_000
"""Characters of one observation: a backstop; tools cap their own output well below."""
MAX_ERROR = 500
MAX_LABEL = 500


@runtime_checkable
class OffersPartial(Protocol):
    """A tool that can say what a call had produced when its time ran out."""

    def partial_text(self, call_id: str) -> str: ...


@runtime_checkable
class HasSpec(Protocol):
    """A tool that brings its own description: its arguments are checked elsewhere."""

    spec: ToolSpec


class Toolset:
    """The tools on offer, by name. ``max_parallel``: calls of one step that are run, in order; the rest are not.

    ``recorded``: what the session has offered from its first step on. It stays on offer, whatever there is on this
    host: a tool that is not here says so when it is called, and one that is new is not offered.
    """

    def __init__(
        self,
        tools: Sequence[AnyTool],
        *,
        recorded: Sequence[ToolSpec] | None = None,
        max_parallel: int = 4,
        max_text: int = MAX_TEXT,
    ) -> None:
        """Raises ValueError when two tools have one name."""
        self._tools = {tool.name: tool for tool in tools}
        if len(self._tools) != len(tools):
            raise ValueError(f"tool names must be unique: {[tool.name for tool in tools]}")
        self._max_parallel = max_parallel
        self._max_text = max_text
        self.specs = tuple(recorded) if recorded is not None else tuple(spec(tool) for tool in tools)

    @property
    def names(self) -> tuple[str, ...]:
        """What is offered."""
        return tuple(one.name for one in self.specs)

    async def run(self, calls: Sequence[ToolCall], *, step: int, question: str = "") -> tuple[Observation, ...]:
        """One observation per call, in order, every text sanitized. Faults of a tool's program propagate."""
        observations: list[Observation] = []
        for index, call in enumerate(calls):
            if index < self._max_parallel:
                observation = await self._run_one(call, CallContext(call.id, step, question))
            else:
                text = f"not run: only the first {self._max_parallel} calls of a step are run; call it again if needed"
                observation = Observation(call.id, call.name, text, error="not_run")
            observations.append(self._storable(observation, call))
        return tuple(observations)

    async def aclose(self) -> None:
        """Close every tool, the failure of one not keeping the others open. Raises the first failure."""
        results = await asyncio.gather(*(tool.aclose() for tool in self._tools.values()), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _run_one(self, call: ToolCall, context: CallContext) -> Observation:
        if call.name not in self.names:
            return _failed(call, "unknown_tool", self._unknown(call.name))
        tool = self._tools.get(call.name)
        if tool is None:
            return _failed(call, "unsupported", f"{call.name} is not available on this machine now: do without it")
        try:
            arguments = validate(tool.arguments, call.arguments)
        except ValidationError as error:
            return _failed(call, "invalid_arguments", _schema_error(tool, error))
        deadline = asyncio.timeout(tool.timeout_s)
        try:
            async with deadline:
                return await tool.run(arguments, context)
        except ToolError as error:
            return _failed(call, error.kind, str(error))
        except TimeoutError:
            if not deadline.expired():
                raise  # the tool's own, which it should have named
            text = f"timeout: no result within {tool.timeout_s:g} s"
            partial = tool.partial_text(call.id) if isinstance(tool, OffersPartial) else ""
            return _failed(call, "timeout", f"{text}. Output until then:\n{partial}" if partial else text)

    def _unknown(self, name: str) -> str:
        by_lower = {known.lower(): known for known in self.names}
        near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
        hint = f" Did you mean {by_lower[near[0]]!r}?" if near else ""
        return f"unknown tool {name[:64]!r}.{hint} Valid names: {', '.join(self.names) or 'none'}."

    def _storable(self, observation: Observation, call: ToolCall) -> Observation:
        sources = tuple(
            Source(sanitize(source.url, 8 * MAX_LABEL), sanitize(source.title, MAX_LABEL))
            for source in observation.sources
        )
        text = sanitize(observation.text, self._max_text)
        tool = sanitize(observation.tool, MAX_LABEL)
        return replace(observation, call_id=call.id, tool=tool, text=text, sources=sources)


def spec(tool: AnyTool) -> ToolSpec:
    """A tool as a model sees it: its JSON schema without titles and class docstrings."""
    schema = dict(tool.spec.parameters) if isinstance(tool, HasSpec) else tool.arguments.model_json_schema()
    schema.pop("description", None)
    return ToolSpec(tool.name, tool.description, {"properties": {}, **_compact(schema)})


def validate(model: type[Arguments], given: Mapping[str, JsonValue]) -> Arguments:
    """Arguments as the tool wants them; a scalar, or a list written as a string, where a list of strings is wanted is
    taken as meant. Raises pydantic's ValidationError."""
    properties = model.model_json_schema()["properties"] if model.model_fields else {}
    lenient = {
        name: _as_list(value) if _wants_strings(properties.get(name)) else value for name, value in given.items()
    }
    return model.model_validate(lenient)


def _wants_strings(schema: object) -> bool:
    if not isinstance(schema, dict) or schema.get("type") != "array":
        return False
    items = schema.get("items")
    return isinstance(items, dict) and items.get("type") == "string"


def _as_list(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        if value.lstrip().startswith("["):
            try:
                parsed = json.loads(value)
            except (ValueError, RecursionError):
                return [value]
            if isinstance(parsed, list) and all(isinstance(item, str) for item in parsed):
                return list(parsed)
        return [value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return [str(value)]
    return value


def _compact(schema: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Drop the ``title`` keyword at every depth; a property that is *named* title stays."""
    compact: dict[str, JsonValue] = {}
    for key, value in schema.items():
        if key == "title":
            continue
        if key in ("properties", "$defs") and isinstance(value, dict):
            compact[key] = {name: _compact(one) if isinstance(one, dict) else one for name, one in value.items()}
        elif key in ("default", "enum", "const", "examples"):
            compact[key] = value
        elif isinstance(value, dict):
            compact[key] = _compact(value)
        elif isinstance(value, list):
            compact[key] = [_compact(one) if isinstance(one, dict) else one for one in value]
        else:
            compact[key] = value
    return compact


def _failed(call: ToolCall, kind: ErrorKind, text: str) -> Observation:
    return Observation(call.id, call.name, text, error=kind)


def _schema_error(tool: AnyTool, error: ValidationError) -> str:
    faults = "; ".join(
        f"{'.'.join(map(str, fault['loc'])) or 'arguments'}: {fault['msg']}"
        for fault in error.errors(include_url=False, include_context=False, include_input=False)
    )
    wanted = json.dumps(spec(tool).parameters["properties"], ensure_ascii=False, separators=(",", ":"))
    return sanitize(f"invalid arguments for {tool.name}: {faults}. Wanted: {wanted}", MAX_ERROR)

"""What a backbone is: a `memory.ports.Completion` that knows its window and what it can do."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import NoReturn, Protocol

from memory.ports import Completion
from memory.records import Reply, Request, ToolCall

_NOT_ID = re.compile(r"[^A-Za-z0-9_-]")


class Backbone(Completion, Protocol):
    """A language model behind one wire format. Streaming happens inside ``complete``: cancelling the coroutine closes
    the connection at once, and a stream that broke never becomes a `Reply`.

    ``window``: context window in tokens (input and output together). ``supports_schema``: `Request.schema` binds the
    reply. ``supports_images``: `Request.images` are sent. Faults are those of ``agent.errors``.
    """

    model: str
    window: int
    supports_tools: bool
    supports_schema: bool
    supports_images: bool


class Wrapper:
    """A backbone around another one, with the same properties. Subclasses override ``complete``."""

    def __init__(self, backbone: Backbone) -> None:
        self._backbone = backbone
        self.name = backbone.name
        self.model = backbone.model
        self.window = backbone.window
        self.supports_tools = backbone.supports_tools
        self.supports_schema = backbone.supports_schema
        self.supports_images = backbone.supports_images

    async def complete(self, request: Request) -> Reply:
        return await self._backbone.complete(request)

    async def aclose(self) -> None:
        await self._backbone.aclose()


@dataclass(frozen=True, slots=True)
class UnparsedCall(ToolCall):
    """A native tool call whose arguments are not a JSON object as they stand; ``arguments`` is empty.

    The dialect decides what to make of ``raw`` (repair, or a failure that the model is told of); nobody runs one.
    """

    raw: str = ""


def tool_call(call_id: str, name: str, raw: str) -> ToolCall:
    """A call whose arguments came as text: read strictly here, an `UnparsedCall` where that fails."""
    try:
        arguments = json.loads(raw, parse_constant=_refuse) if raw.strip() else {}
    except (ValueError, RecursionError):
        return UnparsedCall(call_id, name, raw=raw)
    return ToolCall(call_id, name, arguments) if isinstance(arguments, dict) else UnparsedCall(call_id, name, raw=raw)


def wire_id(call_id: str) -> str:
    """The providers allow letters, digits, ``_`` and ``-`` in ids and names; our ids have a dot, and a model may have
    made any name up."""
    return _NOT_ID.sub("_", call_id)[:64]


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")

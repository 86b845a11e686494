"""What a provider wants back beside the newest tool calls, byte for byte: signed thinking, encrypted reasoning.

It is opaque, so it never passes through the store, the sanitiser or the token counter. Only the newest step of a
session needs it; it is kept in memory, within a size, and is gone after a restart: the one request after that goes out
without thinking.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Sequence

from memory.records import JsonValue, Message, ToolCall

MAX_BYTES = 256 * 1024
MAX_KEPT = 64
"""Sessions that may share a backbone."""
Items = tuple[dict[str, JsonValue], ...]


class Replay:
    """Opaque items by the calls that they came with."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Items] = OrderedDict()

    def keep(self, calls: Sequence[ToolCall], items: Items) -> None:
        """Remember the items of a reply; too large ones, and those of a reply without calls, are not needed again."""
        if not calls or not items or len(json.dumps(items)) > MAX_BYTES:
            return
        self._kept[_key(calls)] = items
        while len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)

    def of(self, messages: Sequence[Message]) -> Items:
        """The items of the last calls among ``messages``; empty when they are not known (or were repaired)."""
        calls = last_calls(messages)
        return self._kept.get(_key(calls), ()) if calls else ()


def last_calls(messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    """The calls of the last message of the assistant."""
    return next((message.tool_calls for message in reversed(messages) if message.role == "assistant"), ())


def _key(calls: Sequence[ToolCall]) -> str:
    rows = [[call.name, dict(call.arguments)] for call in calls]
    return hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()

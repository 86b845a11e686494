"""A drop-in for memories that cut a conversation by age: messages in, the messages worth their tokens out.

Knows messages by their shape only, and imports no framework: OpenAI's messages and items, LangChain's objects, and what
looks like either.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from memory.ports import TokenCounter
from memory.tokens import MESSAGE_OVERHEAD, ScriptCounter
from runners.service.selecting import Ask, Candidate, Strategy

M = TypeVar("M")
_ROLES = {
    "human": "user",
    "ai": "assistant",
    "developer": "system",
    "function": "tool",
    "function_call": "assistant",
    "function_call_output": "tool",
}
_IMAGE_TOKENS = 1_000
"""What a block that is no text is taken for."""


class Chosen(Protocol):
    """What a selection gives back."""

    @property
    def ids(self) -> tuple[str, ...]: ...


class Selecting(Protocol):
    """What selects: `runners.service.client.SelectClient`, or in process `runners.service.selecting.Selector`."""

    def select(self, ask: Ask) -> Chosen: ...


@dataclass(frozen=True, slots=True)
class _Unit:
    """Messages that stand or fall together: one, or one with tool calls and its results."""

    rows: tuple[int, ...]
    role: str
    text: str
    tokens: int


class PACMSSelector:
    """Keeps what matters for the newest question, within ``budget`` tokens.

    Always kept: system messages, the newest question, the newest ``keep_last`` units after it, and what ``pinned`` says
    (few-shot examples, say). A tool's result is never parted from its call. ``through``: the client of a service, or a
    selector in process. Also a memory of the classic protocol: `save_context`, `load_memory_variables`, `clear`.
    """

    def __init__(
        self,
        through: Selecting,
        budget: int,
        *,
        strategy: Strategy = "pacms",
        keep_last: int = 2,
        pinned: Callable[[Any], bool] | None = None,
        counter: TokenCounter | None = None,
        memory_key: str = "history",
    ) -> None:
        self.memory_key = memory_key
        self._through = through
        self._budget = budget
        self._strategy: Strategy = strategy
        self._keep_last = keep_last
        self._pinned = pinned or (lambda _: False)
        self._counter = counter or ScriptCounter()
        self._history: list[dict[str, str]] = []

    def __call__(self, messages: Sequence[M], query: str | None = None) -> list[M]:
        """The messages to send, in their order. ``query``: what they are for; the newest question by default.

        Raises MustKeepTooLarge when what is always kept exceeds the budget by itself."""
        units = self._units(messages)
        if sum(unit.tokens for unit in units) <= self._budget:
            return list(messages)
        asked = max((at for at, unit in enumerate(units) if unit.role == "user"), default=len(units) - 1)
        newest = range(max(asked, len(units) - self._keep_last), len(units))
        must = {asked, *newest, *(at for at, unit in enumerate(units) if self._always(unit, messages))}
        ask = Ask(
            query or units[asked].text or " ",
            tuple(Candidate(f"u{at}", unit.text, unit.tokens) for at, unit in enumerate(units)),
            self._budget,
            self._strategy,
            tuple(f"u{at}" for at in sorted(must)),
        )
        kept = sorted(row for name in self._through.select(ask).ids for row in units[int(name[1:])].rows)
        return [messages[row] for row in kept]

    @property
    def memory_variables(self) -> list[str]:
        """The key that `load_memory_variables` fills."""
        return [self.memory_key]

    def load_memory_variables(self, inputs: Mapping[str, Any]) -> dict[str, list[dict[str, str]]]:
        """The turns that matter for ``inputs``."""
        query = " ".join(str(value) for key, value in inputs.items() if key != self.memory_key)
        return {self.memory_key: self(self._history, query) if self._history else []}

    def save_context(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """Keep one exchange."""
        self._history.append({"role": "user", "content": " ".join(str(value) for value in inputs.values())})
        self._history.append({"role": "assistant", "content": " ".join(str(value) for value in outputs.values())})

    def clear(self) -> None:
        """Forget all exchanges."""
        self._history.clear()

    def _always(self, unit: _Unit, messages: Sequence[Any]) -> bool:
        return unit.role == "system" or any(self._pinned(messages[row]) for row in unit.rows)

    def _units(self, messages: Sequence[Any]) -> list[_Unit]:
        groups: list[list[int]] = []
        calling = False
        for row, message in enumerate(messages):
            call_item = _get(message, "type") == "function_call"
            goes_on = role_of(message) == "tool" or (call_item and _get(messages[row - 1], "type") == "function_call")
            if groups and calling and goes_on:
                groups[-1].append(row)
                continue
            calling = call_item or bool(_get(message, "tool_calls"))
            groups.append([row])
        return [self._unit(group, messages) for group in groups]

    def _unit(self, rows: Sequence[int], messages: Sequence[Any]) -> _Unit:
        texts, tokens = [], 0
        for row in rows:
            text, blocks = text_of(messages[row])
            texts.append(text)
            tokens += MESSAGE_OVERHEAD + self._counter.count(text) + blocks * _IMAGE_TOKENS
        return _Unit(tuple(rows), role_of(messages[rows[0]]), "\n".join(texts), tokens)


def role_of(message: Any) -> str:
    """user, assistant, system or tool, whatever a framework calls it."""
    name = str(_get(message, "role") or _get(message, "type") or "")
    return _ROLES.get(name, name)


def text_of(message: Any) -> tuple[str, int]:
    """The text of a message, its tool calls written out, and how many blocks of it are no text."""
    content = _get(message, "content")
    parts, others = [], 0
    if isinstance(content, str):
        parts.append(content)
    elif isinstance(content, Sequence):
        for block in content:
            text = block if isinstance(block, str) else _get(block, "text")
            if isinstance(text, str):
                parts.append(text)
            else:
                others += 1
    output = _get(message, "output")
    if isinstance(output, str):
        parts.append(output)
    calls = [message] if _get(message, "type") == "function_call" else _get(message, "tool_calls") or ()
    for call in calls:
        function = _get(call, "function") or call
        arguments = _get(function, "arguments") or _get(function, "args") or ""
        plain = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)
        parts.append(f"{_get(function, 'name')} {plain}")
    return "\n".join(parts), others


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)

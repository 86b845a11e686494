"""A step's texts, derived from it and nothing else: the FULL text and the one-line placeholder (PACE, section 3.1).

Deterministic: the same step gives the same bytes for ever, so views can be recomputed and hashes prove them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from memory.frame import block
from memory.ports import TokenCounter
from memory.records import Chunk, JsonValue, Level, Step

PLACEHOLDER_CHARS = 96
"""About 25 tokens."""


def arguments_text(arguments: Mapping[str, JsonValue]) -> str:
    """Arguments as compact JSON, keys in the model's order, CJK readable."""
    return json.dumps(dict(arguments), ensure_ascii=False, separators=(", ", ": "))


def full_text(step: Step) -> str:
    """The FULL view: thought, every action with its observation, whole."""
    parts: list[str] = []
    if step.question:
        parts.append(f"question: {step.question}")
    if step.thought:
        parts.append(f"thought: {step.thought}")
    seen = {observation.call_id: observation for observation in step.observations}
    for call in step.calls:
        parts.append(f"action: {call.name} {arguments_text(call.arguments)}")
        observation = seen.pop(call.id, None)
        if observation is not None:
            label = "observation" if observation.error is None else f"observation ({observation.error})"
            parts.append(f"{label}: {observation.text}")
    parts.extend(f"{observation.tool}: {observation.text}" for observation in seen.values())
    if step.answer:
        parts.append(f"answer: {step.answer}")
    return "\n".join(parts)


def placeholder_text(step: Step) -> str:
    """The PLACEHOLDER body: what was done, on what, how much came back, whether it worked. One line."""
    if step.kind == "answer":
        return _one_line(f"answered {step.question!r}: {step.answer}" if step.question else f"answer: {step.answer}")
    if not step.calls:
        text = step.thought or " ".join(observation.text for observation in step.observations)
        return _one_line(f"{step.kind}: {text}")
    call = step.calls[0]
    source = step.source
    # a search did what it asked for; the first of its results says nothing of it
    named = source is not None and len(step.calls) == 1 and call.name != "search"
    what = (source.title or source.url) if source and named else _first_text(call.arguments)
    size = sum(len(observation.text) for observation in step.observations)
    failed = next((observation.error for observation in step.observations if observation.error), None)
    more = f" (+{len(step.calls) - 1} calls)" if len(step.calls) > 1 else ""
    tail = f"{more}, {failed}" if failed else f"{more}, {_size(size)}"
    head = _one_line(f"{call.name} {what}", PLACEHOLDER_CHARS - len(tail))
    return head + tail


def make_chunk(step: Step, counter: TokenCounter, parents: tuple[int, ...] = ()) -> Chunk:
    """The stored record of a step, with its counts."""
    full = full_text(step)
    placeholder = placeholder_text(step)
    return Chunk(
        step=step,
        placeholder=placeholder,
        tokens_full=counter.count(block(step.number, Level.FULL, full)),
        tokens_placeholder=counter.count(block(step.number, Level.PLACEHOLDER, placeholder)),
        content_hash=text_hash(full),
        parents=parents,
    )


def text_hash(text: str) -> str:
    """SHA-256 (hex) of UTF-8 text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _first_text(arguments: Mapping[str, JsonValue]) -> str:
    for value in arguments.values():
        if isinstance(value, str) and value.strip():
            return value
        if isinstance(value, list) and value and isinstance(value[0], str):
            return "; ".join(item for item in value if isinstance(item, str))
    return ""


def _one_line(text: str, limit: int = PLACEHOLDER_CHARS) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: max(0, limit - 1)] + "…"


def _size(chars: int) -> str:
    return f"{chars} chars" if chars < 10_000 else f"{chars // 1000}K chars"

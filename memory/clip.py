"""Clipping the texts of the recent window: head and tail with a marker that says how to see the rest."""

from __future__ import annotations

from dataclasses import replace

from memory.ports import TokenCounter
from memory.records import JsonValue, Step, ToolCall

HEAD_SHARE = 0.6
ACTION_FLOOR = 160
"""Thoughts and arguments keep at least this many tokens: an action must stay recognisable."""


def clip_text(text: str, cap: int, counter: TokenCounter, chunk_id: str) -> str:
    """``text`` in at most ``cap`` tokens (cap >= 48): head, marker, tail. Unchanged when it fits."""
    size = counter.count(text)
    if size <= cap:
        return text
    keep = int(len(text) * cap / size)
    while True:
        head = int(keep * HEAD_SHARE)
        tail = keep - head
        marker = f"\n[… {len(text) - keep} characters left out: glimpse({chunk_id}) shows them …]\n"
        clipped = text[:head] + marker + (text[-tail:] if tail else "")
        if keep == 0 or counter.count(clipped) <= cap:
            return clipped
        keep = keep * 9 // 10 if keep > 10 else 0


def clip_step(step: Step, cap: int | None, counter: TokenCounter) -> Step:
    """A recent step with every text within ``cap`` tokens; the answer is exempt. None: the step itself."""
    if cap is None:
        return step
    action_cap = max(cap, ACTION_FLOOR)
    calls = tuple(
        ToolCall(
            call.id,
            call.name,
            {key: _clip_value(value, action_cap, counter, step) for key, value in call.arguments.items()},
        )
        for call in step.calls
    )
    observations = tuple(
        replace(item, text=clip_text(item.text, cap, counter, step.chunk_id)) for item in step.observations
    )
    thought = clip_text(step.thought, action_cap, counter, step.chunk_id)
    return replace(step, calls=calls, observations=observations, thought=thought)


def _clip_value(value: JsonValue, cap: int, counter: TokenCounter, step: Step) -> JsonValue:
    if isinstance(value, str):
        return clip_text(value, cap, counter, step.chunk_id)
    if isinstance(value, list):
        kept = [_clip_value(item, cap, counter, step) for item in value[:8]]
        return [*kept, f"… {len(value) - 8} more"] if len(value) > 8 else kept
    if isinstance(value, dict):
        return {key: _clip_value(item, cap, counter, step) for key, item in list(value.items())[:16]}
    return value

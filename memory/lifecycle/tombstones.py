"""Eviction: which observations go under a rule, and what is said in their place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from memory.chunking import full_text, text_hash
from memory.frame import block
from memory.ports import TokenCounter
from memory.recall import EVICTED
from memory.records import Chunk, Level, Observation
from memory.stored import Tombstone

MIN_CHARS = 400
"""Shorter observations stay: what is said in their place is as long."""
_WITH_IT = "evicted with the observation above]"


@dataclass(frozen=True, slots=True)
class EvictionRule:
    """Which observations may go. Whatever it says, cited steps, answers and steps without a summary stay.

    ``before_step``: those of the steps before it. ``to_chars``: the oldest, until the others have at most so many
    characters together.
    """

    before_step: int | None = None
    to_chars: int | None = None

    def __str__(self) -> str:
        parts = []
        if self.before_step is not None:
            parts.append(f"steps before {self.before_step}")
        if self.to_chars is not None:
            parts.append(f"oldest beyond {self.to_chars:,} characters")
        return " and ".join(parts) or "none"


def chosen(rule: EvictionRule, sizes: Sequence[tuple[int, int]], spared: frozenset[int]) -> list[int]:
    """Chunks whose observations go, ascending. ``sizes``: (chunk, characters of its observations) of every chunk."""
    able = [(chunk, size) for chunk, size in sizes if chunk not in spared and size >= MIN_CHARS]
    going = {chunk for chunk, _ in able if rule.before_step is not None and chunk < rule.before_step}
    if rule.to_chars is not None:
        left = sum(size for chunk, size in sizes if chunk not in going)
        for chunk, size in able:
            if left <= rule.to_chars:
                break
            if chunk not in going:
                going.add(chunk)
                left -= size
    return sorted(going)


def tombstone(chunk: Chunk, summary: str, rule: str, now: float, counter: TokenCounter) -> Tombstone | None:
    """What stands for the observations of ``chunk`` from now on: why they went, and ``summary``. None where that would
    not be half as long."""
    step = chunk.step
    chars = sum(len(item.text) for item in step.observations)
    left: list[Observation] = []
    for item in step.observations:
        if len(item.text) < MIN_CHARS:
            left.append(item)
        elif any(EVICTED in known.text for known in left):
            left.append(replace(item, text=f"{EVICTED}{_WITH_IT}"))
        else:
            left.append(replace(item, text=_epitaph(chunk, item, summary, rule, now)))
    if 2 * sum(len(item.text) for item in left) > chars:
        return None
    full = full_text(replace(step, observations=tuple(left)))
    tokens = counter.count(block(step.number, Level.FULL, full))
    return Tombstone(step.number, rule, now, chars, chunk.content_hash, tuple(left), tokens, text_hash(full))


def _epitaph(chunk: Chunk, item: Observation, summary: str, rule: str, now: float) -> str:
    day = datetime.fromtimestamp(now, UTC).date().isoformat()
    again = f"; {item.sources[0].url} has it, if it still exists" if item.sources else ""
    head = (
        f"{EVICTED}removed on {day} under the rule '{rule}': {len(item.text):,} characters are gone for good{again}; "
        f"sha256 of the step was {chunk.content_hash[:16]}]"
    )
    return f"{head}\nWhat was kept of it: {summary}"

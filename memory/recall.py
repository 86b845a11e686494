"""Reading back: chunks by id, views, and what a glimpse shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memory.chunking import full_text
from memory.errors import NotStored
from memory.frame import HEADER
from memory.ports import ChunkStore, TokenCounter
from memory.records import Chunk, ChunkRef, Level, Observation, Step
from memory.stored import ChunkFacts
from memory.text.passages import best_passages

CHARS_PER_TOKEN = 4
MEMBERS = 128
"""Chunks of a range that are listed one by one."""
PARTS = 32
"""Lines of a longer range."""
EVICTED = "[evicted: "
"""Begins what stands for an observation that was evicted."""


class Recall:
    """A `ChunkReader` over a store. ``page_tokens``: size of one part of a huge chunk."""

    def __init__(self, store: ChunkStore, counter: TokenCounter, page_tokens: int = 3000) -> None:
        self._store = store
        self._counter = counter
        self._page_tokens = page_tokens

    async def last(self) -> int:
        """Number of the newest chunk, 0 when there is none."""
        return await self._store.last_step()

    async def chunk(self, number: int) -> Chunk:
        """Raises NotStored, naming the ids there are."""
        last = await self._store.last_step()
        if not 1 <= number <= last:
            have = f"ids run from c1 to c{last}" if last else "nothing is stored yet"
            raise NotStored(f"there is no chunk c{number}: {have}")
        return (await self._store.chunks([number]))[0]

    async def full_text(self, number: int) -> str:
        """The FULL text of a chunk."""
        return full_text((await self.chunk(number)).step)

    async def view_text(self, number: int, level: Level) -> str | None:
        """The newest published view, FULL and PLACEHOLDER included."""
        chunk = await self.chunk(number)
        if level is Level.FULL:
            return full_text(chunk.step)
        if level is Level.PLACEHOLDER:
            return chunk.placeholder
        found = [view.text for view in await self._store.views([number]) if view.level is level]
        return found[0] if found else None

    async def expand(self, ref: ChunkRef) -> str:
        """What a glimpse shows: a page of the FULL text, its best passages, or the members of a range."""
        if ref.last:
            return await self._members(ref)
        text = await self.full_text(ref.chunk)
        if ref.query and f": {EVICTED}" not in text:
            passages = best_passages(ref.query, text, limit_chars=self._page_tokens * CHARS_PER_TOKEN)
            return "\n…\n".join(passages) if passages else text[: self._page_tokens * CHARS_PER_TOKEN]
        parts = pages(text, self._page_tokens, self._counter)
        part = min(max(ref.part, 1), len(parts))
        note = f"\n(part {part} of {len(parts)}; part={part + 1} shows more)" if part < len(parts) else ""
        return parts[part - 1] + note

    async def _members(self, ref: ChunkRef) -> str:
        """A line per member; of a long range, a line per equal part, which can be glimpsed in its turn."""
        await self.chunk(ref.chunk)
        await self.chunk(ref.last)
        count = ref.last - ref.chunk + 1
        if count <= MEMBERS:
            facts = await self._store.facts(ref.chunk - 1, ref.last)
            lines = [f"{HEADER}c{f.number} {f.placeholder}" for f in facts]
        else:
            size = -(-count // PARTS)
            starts = await self._store.facts_at(range(ref.chunk, ref.last + 1, size))
            lines = [_part_line(begins, min(begins.number + size - 1, ref.last)) for begins in starts]
        parts = pages("\n".join(lines), self._page_tokens, self._counter)
        part = min(max(ref.part, 1), len(parts))
        note = f"\n(part {part} of {len(parts)})" if len(parts) > 1 else ""
        return parts[part - 1] + note

    async def expand_step(self, step: Step) -> Step:
        """A step whose glimpses are written out in their observations: for the one context that follows it."""
        if not any(item.refs for item in step.observations):
            return step
        return replace(step, observations=tuple([await self._expand_one(item) for item in step.observations]))

    async def _expand_one(self, item: Observation) -> Observation:
        if not item.refs:
            return item
        texts = [f"{HEADER}{ref_name(ref)}\n{await self.expand(ref)}" for ref in item.refs]
        return replace(item, text="\n".join([item.text, *texts]))


def _part_line(begins: ChunkFacts, last: int) -> str:
    first = begins.number
    return f"{HEADER}c{first}-c{last} {last - first + 1} steps, from: {begins.placeholder}"


def ref_name(ref: ChunkRef) -> str:
    """``c12`` or ``c3-c9``."""
    return f"c{ref.chunk}-c{ref.last}" if ref.last else f"c{ref.chunk}"


def pages(text: str, limit: int, counter: TokenCounter) -> Sequence[str]:
    """Cut a text into parts of at most ``limit`` tokens at line ends where there are any; joined they are the text."""
    total = counter.count(text)
    if total <= limit:
        return [text]
    guess = max(1, len(text) * limit // total)
    parts: list[str] = []
    start = 0
    while start < len(text):
        end = min(len(text), start + guess + guess // 8)
        while end > start + 1 and counter.count(text[start:end]) > limit:
            end = start + max(1, (end - start) * 9 // 10)
        newline = text.rfind("\n", start + (end - start) // 2, end) if end < len(text) else -1
        end = newline + 1 if newline > start else end
        parts.append(text[start:end])
        start = end
    return parts

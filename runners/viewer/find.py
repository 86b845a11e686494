"""A literal search in every step's text, as in the file: the same words find the same steps."""

from __future__ import annotations

import asyncio

from memory.chunking import full_text
from memory.records import Chunk, JsonValue
from runners.viewer.recorded import Recorded

MOST = 50
BEFORE, BEHIND = 60, 120
PAGE = 256


async def find(session: Recorded, text: str) -> list[JsonValue]:
    """The first `MOST` chunks whose FULL text holds ``text``, case aside, each with the place."""
    found: list[JsonValue] = []
    for first in range(1, len(session.facts) + 1, PAGE):
        chunks = await session.chunks(range(first, min(first + PAGE, len(session.facts) + 1)))
        found += await asyncio.to_thread(_hits, chunks, text.lower())
        if len(found) >= MOST:
            break
    return found[:MOST]


def _hits(chunks: list[Chunk], wanted: str) -> list[JsonValue]:
    hits: list[JsonValue] = []
    for chunk in chunks:
        body = full_text(chunk.step)
        at = body.lower().find(wanted)
        if at >= 0:
            passage = body[max(0, at - BEFORE) : at + len(wanted) + BEHIND]
            hits.append({"chunk": chunk.step.number, "at": at, "passage": passage})
    return hits

"""Which past contexts depend on the whole text of a chunk."""

from __future__ import annotations

import numpy as np

from memory.ports import ChunkStore
from memory.records import Level


async def shown_whole(store: ChunkStore, chunks: set[int]) -> tuple[int, ...]:
    """Steps whose contexts showed one of ``chunks`` in full: as an old chunk, in the recent window, or by a glimpse."""
    if not chunks:
        return ()
    numbers = np.array(sorted(chunks), dtype=np.int64)
    glimpsed = await _glimpses(store, chunks)
    codes = np.zeros(0, dtype=np.int8)
    found: list[int] = []
    for record in await store.plans():
        size = record.recent_from - 1
        codes = np.concatenate((codes[:size], np.full(max(0, size - len(codes)), Level.PLACEHOLDER, dtype=np.int8)))
        for chunk, code in record.changed:
            codes[chunk - 1] = code
        old = numbers[numbers <= size]
        recent = numbers[(numbers > size) & (numbers < record.step)]
        if len(recent) or (codes[old - 1] == Level.FULL).any() or record.step - 1 in glimpsed:
            found.append(record.step)
    return tuple(found)


async def _glimpses(store: ChunkStore, chunks: set[int]) -> set[int]:
    """Steps that glimpsed one of ``chunks``: the context after them wrote its text out."""
    found: set[int] = set()
    for facts in await store.facts():
        if "glimpse" not in facts.tools:
            continue
        (chunk,) = await store.chunks([facts.number])
        if any(ref.chunk in chunks and not ref.last for item in chunk.step.observations for ref in item.refs):
            found.add(facts.number)
    return found

"""The tools that a session offers, on record: they are part of every request, and must be the same on any host.

What a host can offer depends on its sandbox, its extras and the servers it reaches. So the first opening of a session
writes down what it offers, and every later one offers that, whatever there is.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from memory.ports import ChunkStore
from memory.records import ToolSpec

KEY = "tools"


async def recorded_tools(store: ChunkStore) -> tuple[ToolSpec, ...] | None:
    """What the session has offered from its first step on; None when it begins now."""
    written = await store.meta(KEY)
    return None if written is None else tuple(ToolSpec(**one) for one in json.loads(written))


async def record_tools(store: ChunkStore, specs: Sequence[ToolSpec]) -> None:
    """Write down what is offered, once: what is on record stays."""
    if await store.meta(KEY) is None:
        await store.set_meta({KEY: json.dumps([asdict(spec) for spec in specs], ensure_ascii=False)})

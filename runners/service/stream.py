"""The events of a session as server-sent events, read from its store: also while another process runs it.

Nothing is queued for a reader: what it has not been sent yet stays in the store, at most a page of it in memory. One
that has fallen far behind is told where it stood (``resync``), and goes on at the newest step.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from itertools import count

from memory.errors import StoreFault
from memory.ports import ChunkStore
from memory.records import JsonValue
from memory.stored import ChunkFacts, PlanRecord

PAGE = 64
BACKLOG = 256
"""Steps that a reader may be behind before it is told to read them otherwise."""
POLL_S, DATABASE_POLL_S = 0.25, 1.0
"""Between two looks; the second for a store that many look into at once."""
_BEAT_S = 15.0
"""Between two signs of life."""


async def events(store: ChunkStore, after: int, closing: asyncio.Event, poll_s: float = POLL_S) -> AsyncIterator[str]:
    """Events after step ``after``: ``plan`` (a context was built), ``step`` (committed; its number is the event's id),
    ``session`` (begun, ended, …) and ``resync`` (``from``: read steps after it by page). Until ``closing``."""
    yield "retry: 1000\n\n"
    step, planned = after, after
    told = len(await store.events()) if after else 0
    for beat in count(1):
        newest = await store.last_step()
        if newest - step > BACKLOG:
            yield _event("resync", {"from": step, "newest": newest})
            step = planned = newest
        plans = await store.plans(planned + 1, planned + PAGE)
        facts = await store.facts(step, min(newest, step + PAGE))
        happened = await store.events()
        for plan in plans:
            yield _event("plan", _plan(plan))
            planned = plan.step
        for one in facts:
            yield _event("step", step_row(one), one.number)
            step = one.number
        for event in happened[told:]:
            yield _event("session", {"kind": event.kind, "created": event.created})
        told = max(told, len(happened))
        if step < newest:
            continue
        if beat % max(1, round(_BEAT_S / poll_s)) == 0:
            yield ": alive\n\n"
        try:
            async with asyncio.timeout(poll_s):
                await closing.wait()
            return
        except TimeoutError:
            pass


async def guarded(source: AsyncIterator[str]) -> AsyncIterator[str]:
    """The same; a store that breaks ends the stream with an ``error`` event."""
    try:
        async for text in source:
            yield text
    except StoreFault as fault:
        yield _event("error", {"kind": "unavailable" if fault.retryable else "store"})


async def begun(source: AsyncGenerator[str, None]) -> AsyncGenerator[str, None]:
    """The same, its first text read already: what forbids a stream is raised here, before an answer has begun."""
    first = await anext(source)

    async def whole() -> AsyncGenerator[str, None]:
        async with aclosing(source):
            yield first
            async for text in source:
                yield text

    return whole()


def step_row(facts: ChunkFacts) -> dict[str, JsonValue]:
    """A stored step in one line."""
    return {"step": facts.number, "line": facts.placeholder, "tokens": facts.tokens_full}


def _plan(record: PlanRecord) -> dict[str, JsonValue]:
    return {
        "step": record.step,
        "policy": record.policy,
        "tokens": record.tokens,
        "budget": record.budget,
        "pressure": record.pressure,
        "shown_counts": list(record.shown_counts),
    }


def _event(name: str, data: Mapping[str, JsonValue], number: int | None = None) -> str:
    """JSON has no line breaks of its own, so one data line holds it."""
    head = "" if number is None else f"id: {number}\n"
    return f"{head}event: {name}\ndata: {json.dumps(data)}\n\n"

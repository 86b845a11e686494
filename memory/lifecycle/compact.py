"""Compaction of a session's store: copies found, what is asked to go evicted, cold text packed.

Every change is a transaction of its own, and each leaves a whole store; what a crash cuts off, the next compaction
finishes. Nothing but an eviction rule makes a text unreachable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from memory.frame import block
from memory.lifecycle.duplicates import Duplicate, Finder
from memory.lifecycle.shown import shown_whole
from memory.lifecycle.tombstones import EvictionRule, chosen, tombstone
from memory.ports import Clock, TokenCounter
from memory.records import SUMMARY_LEVELS, Chunk, Level, View
from memory.store.sqlstore import SqlStore
from memory.stored import StoreSizes, Tombstone

PRODUCER = "duplicate"
"""Of views that say what a chunk is a copy of."""
PAGE = 64
"""Steps read at once, and changed in one transaction."""
PACK_CHARS = 1_000_000
"""Characters of one pack: reading one step out of it costs about a millisecond, and copies that are near become one."""
OWN_CHARS = 480
"""What a view of a near copy says of what only it has."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """What is to be done. ``hot``: so many of the newest steps stay as they are. ``similar``: share of common text from
    which on two observations are copies; None: none are looked for. ``rule``: what is evicted; None: nothing.
    ``spared``: chunks that never go."""

    hot: int = 100
    similar: float | None = 0.9
    rule: EvictionRule | None = None
    spared: frozenset[int] = frozenset()
    dry_run: bool = False


@dataclass(slots=True)
class CompactReport:
    """What was, or would be, done. Sizes in bytes."""

    steps: int = 0
    duplicates: int = 0
    """Steps that observed what an earlier one had observed."""
    identical: int = 0
    """Those of them that are so word for word."""
    views_merged: int = 0
    """Summaries that now name the earlier step instead of saying it all again."""
    tokens_saved: int = 0
    """Of those summaries, wherever one is shown."""
    packed: int = 0
    """Steps whose observations were packed."""
    packed_before: int = 0
    packed_after: int = 0
    evicted: int = 0
    evicted_chars: int = 0
    kept_without_summary: int = 0
    """Steps that the rule means and that stay, having no summary yet."""
    lost_contexts: tuple[int, ...] = ()
    """Steps whose past contexts no longer rebuild to their hash: they showed a text that this compaction evicted."""
    sizes: StoreSizes | None = None
    """Of the store before."""
    freed: int = 0
    """Bytes that the file became, or would become, smaller by; an estimate in a dry run."""
    problem: str = ""
    """Why free pages could not be given back to the disk."""


@dataclass(slots=True)
class _Survey:
    sizes: list[tuple[int, int]] = field(default_factory=list)
    """(chunk, characters of its observations)."""
    duplicates: dict[int, Duplicate] = field(default_factory=dict)


async def compact(store: SqlStore, wanted: Compaction, counter: TokenCounter, clock: Clock) -> CompactReport:
    """Carry a compaction out, on a store that the caller owns (reading is enough for a dry run)."""
    report = CompactReport(steps=await store.last_step(), sizes=await store.sizes())
    cold = max(0, report.steps - wanted.hot)
    survey = await _survey(store, cold, wanted.similar)
    report.duplicates = len(survey.duplicates)
    report.identical = sum(found.alike == 1.0 for found in survey.duplicates.values())
    await _merge_views(store, survey.duplicates, wanted, counter, report)
    gone = await _evict(store, survey, wanted, (counter, clock), report)
    await _pack(store, cold, survey, gone, wanted, report)
    report.freed = max(0, report.packed_before - report.packed_after + report.sizes.free) if report.sizes else 0
    return report


async def _survey(store: SqlStore, last: int, similar: float | None) -> _Survey:
    """Sizes of all, copies among them; the reading and comparing is done off the event loop, page by page."""
    survey = _Survey()
    loop = asyncio.get_running_loop()

    def earlier(number: int) -> str:
        reading = asyncio.run_coroutine_threadsafe(store.chunks([number]), loop)
        return observed(reading.result()[0])

    finder = Finder(earlier, similar if similar is not None else 2.0)
    for first in range(1, last + 1, PAGE):
        chunks = await store.chunks(range(first, min(first + PAGE, last + 1)))
        await asyncio.to_thread(_look, chunks, survey, finder if similar is not None else None)
    return survey


def _look(chunks: Sequence[Chunk], survey: _Survey, finder: Finder | None) -> None:
    for chunk in chunks:
        number, text = chunk.step.number, observed(chunk)
        survey.sizes.append((number, len(text)))
        found = finder.add(number, text) if finder is not None else None
        if found is not None:
            survey.duplicates[number] = found


def observed(chunk: Chunk) -> str:
    """What a step observed, as one text."""
    return "\n".join(item.text for item in chunk.step.observations)


async def _merge_views(
    store: SqlStore,
    duplicates: dict[int, Duplicate],
    wanted: Compaction,
    counter: TokenCounter,
    report: CompactReport,
) -> None:
    """New versions of the summaries of copies, where they are shorter; old contexts keep the versions they showed."""
    if not duplicates:
        return
    known = {level: await store.producers(level) for level in SUMMARY_LEVELS}
    numbers = [number for number in sorted(duplicates) if number in known[Level.DETAILED]]
    for start in range(0, len(numbers), PAGE):
        made: list[View] = []
        for facts in await store.facts_at(numbers[start : start + PAGE]):
            texts = merged_texts(facts.placeholder, duplicates[facts.number])
            for level in SUMMARY_LEVELS:
                producer, version, before = known[level].get(facts.number, (PRODUCER, 0, 0))
                tokens = counter.count(block(facts.number, level, texts[level]))
                if producer == PRODUCER or tokens >= before:
                    continue
                made.append(View(facts.number, level, texts[level], tokens, version + 1, PRODUCER))
                report.tokens_saved += before - tokens
        report.views_merged += len(made)
        if made and not wanted.dry_run:
            await store.add_views(made)


def merged_texts(placeholder: str, found: Duplicate) -> dict[Level, str]:
    """What the summaries of a copy say: what was done, whose text it is, and at DETAILED what only it has."""
    if found.alike == 1.0:
        text = f"{placeholder}: the same text as c{found.of}, word for word; see c{found.of}."
        return dict.fromkeys(SUMMARY_LEVELS, text)
    text = f"{placeholder}: nearly the text of c{found.of} ({found.alike:.0%} of it the same); see c{found.of}."
    own = " | ".join(found.own)
    if len(own) > OWN_CHARS:
        own = own[:OWN_CHARS].rsplit(" ", 1)[0] + " …"
    return {Level.BRIEF: text, Level.DETAILED: f"{text} Only here: {own}" if own else text}


async def _evict(
    store: SqlStore, survey: _Survey, wanted: Compaction, parts: tuple[TokenCounter, Clock], report: CompactReport
) -> set[int]:
    counter, clock = parts
    if wanted.rule is None:
        return set()
    done = {stone.chunk for stone in await store.tombstones()}
    going = chosen(wanted.rule, survey.sizes, wanted.spared | done)
    gone: set[int] = set()
    for start in range(0, len(going), PAGE):
        stones: list[Tombstone] = []
        for chunk in await store.chunks(going[start : start + PAGE]):
            if chunk.step.kind != "act":
                continue
            summary = await store.summary(chunk.step.number, Level.DETAILED, but=PRODUCER)
            if summary is None:
                report.kept_without_summary += 1
                continue
            stone = tombstone(chunk, summary.text, str(wanted.rule), clock.time(), counter)
            if stone is not None:
                stones.append(stone)
        if stones and not wanted.dry_run:
            await store.evict(stones)
        gone |= {stone.chunk for stone in stones}
        report.evicted_chars += sum(stone.chars for stone in stones)
    report.evicted = len(gone)
    report.lost_contexts = await shown_whole(store, gone)
    return gone


async def _pack(
    store: SqlStore,
    last: int,
    survey: _Survey,
    gone: set[int],
    wanted: Compaction,
    report: CompactReport,
) -> None:
    """Packs of about `PACK_CHARS`, copies beside what they are copies of."""
    duplicates = survey.duplicates
    stored = {chunk: size for chunk, size in await store.unpacked(1, last) if chunk not in gone}
    chars = dict(survey.sizes)
    order = sorted(stored, key=lambda chunk: (duplicates[chunk].of if chunk in duplicates else chunk, chunk))
    pack: list[int] = []
    raw = 0
    for at, chunk in enumerate(order):
        pack.append(chunk)
        raw += chars[chunk]
        if raw >= PACK_CHARS or at == len(order) - 1:
            before = sum(stored[member] for member in pack)
            report.packed_after += await store.pack(pack, dry_run=wanted.dry_run)
            report.packed_before += before
            report.packed += len(pack)
            pack, raw = [], 0

"""The seams of the memory. Needed from outside: `Completion`, `Encoder`, `Clock`. Offered or exchangeable inside:
`TokenCounter`, `ContextPolicy`, `StepFormat`, `ChunkReader`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from memory.plan import Block, ContextPlan, IntArray, KeyArray, NeedsSummary, PlanInput
from memory.records import Chunk, ChunkRef, Level, Message, Reply, Request, Step, View
from memory.stored import Change, ChunkFacts, Event, Intent, KeyRows, Nearest, PlanRecord, Question, UsageRow


class Completion(Protocol):
    """A language model. The agent's backbones and the summariser's model are both one of these."""

    name: str

    async def complete(self, request: Request) -> Reply:
        """One whole reply. Raises the implementor's own errors, with ``retryable``."""
        ...

    async def aclose(self) -> None: ...


class Encoder(Protocol):
    """Text to vectors. Synchronous and blocking: callers keep it off the event loop.

    ``id`` names weights and options exactly: keys of different ids are never compared. ``max_tokens`` is L_max.
    """

    id: str
    dim: int
    max_tokens: int

    def encode_query(self, text: str) -> NDArray[np.float32]:
        """(dim,) L2-normalised, zero for an empty text. Raises EncoderFault."""
        ...

    def encode_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(len(texts), dim) L2-normalised rows, zero for an empty text. Raises EncoderFault."""
        ...


class TokenCounter(Protocol):
    """Counts tokens. Must be monotone and subadditive: count(a + b) <= count(a) + count(b); count("") == 0."""

    def count(self, text: str) -> int: ...


class Clock(Protocol):
    """Time, so that tests need not wait."""

    def time(self) -> float:
        """Unix time, seconds."""
        ...

    def monotonic(self) -> float:
        """Seconds, for durations."""
        ...


class Faults(Protocol):
    """A place for tests to break things: handed to a store, it is told of each named point on the way of a write and
    may raise there, or end the process. Nothing that ships implements it.

    Points are ``<method>:begun`` (the transaction is open, nothing is written), ``<method>:written`` (all is written,
    not committed) and ``<method>:committed`` (on the disk, the caller does not know yet). Called in the store's thread.
    """

    def at(self, point: str) -> None: ...


class ContextPolicy(Protocol):
    """A context policy: pure, no I/O, deterministic. One per file in ``memory.policies``."""

    name: str
    owns_compaction: bool
    """Whether the policy itself compacts history (True) or leaves that to the host (False)."""
    needs: frozenset[str]
    """What it wants of `Pool` beside the cosines: any of ``lexical``, ``keys``, ``fidelity``, ``kinds``."""

    def ingest(self, facts: ChunkFacts) -> None:
        """A chunk was committed. State kept from it must be derivable from the chunks alone, in order."""
        ...

    def plan(self, given: PlanInput) -> ContextPlan | NeedsSummary: ...

    def compact(self, given: PlanInput) -> NeedsSummary | None:
        """The host overflowed and asks for less. A policy that does not own compaction hands it back to the host
        (``NeedsSummary.delegated``); None: nothing to compact."""
        ...


class StepFormat(Protocol):
    """How a dialect writes requests: the memory renders through it, so that what is counted is what is sent."""

    def preamble(self, question: str) -> tuple[Message, ...]:
        """System message (with whatever the dialect puts there) and the question, in order; must-keep."""
        ...

    def step(self, step: Step) -> tuple[Message, ...]:
        """A recent step as messages; glimpses already expanded and texts already clipped."""
        ...

    def history(self, text: str) -> Message:
        """The old chunks: one framed text."""
        ...

    def tools_text(self) -> str:
        """What the provider will add for native tools (their JSON), for counting; empty for text dialects."""
        ...


class ChunkReader(Protocol):
    """Read access to what is stored: used by glimpse, citations and reports."""

    async def chunk(self, number: int) -> Chunk:
        """Raises NotStored."""
        ...

    async def full_text(self, number: int) -> str:
        """The FULL text of a chunk. Raises NotStored."""
        ...

    async def view_text(self, number: int, level: Level) -> str | None:
        """A view as published, None when absent. Raises NotStored for an unknown chunk."""
        ...

    async def expand(self, ref: ChunkRef) -> str:
        """The text that a glimpse shows. Raises NotStored."""
        ...


class BlockMaker(Protocol):
    """Makes the texts that stand for runs of chunks."""

    async def make(self, need: NeedsSummary, number: int, step: int, texts: Sequence[str], question: str) -> Block:
        """``texts``: the chunks ``need.first``-``need.last`` as rendered blocks (`memory.frame.block`), whole or, for a
        long range, at a coarser level; ``number`` and ``step`` go into the block, which covers ``need.merge`` as well.

        Raises SummaryFailed when no acceptable text can be made.
        """
        ...


class ChunkStore(Protocol):
    """The durable record of one session. Every method is atomic; one writer; nothing blocks the event loop.

    All writing methods return only when the bytes are on the disk (fsync). Faults are `StoreFault`s.
    """

    async def meta(self, key: str) -> str | None: ...

    async def set_meta(self, values: Mapping[str, str]) -> None: ...

    async def add_question(self, question: Question) -> None: ...

    async def questions(self) -> list[Question]: ...

    async def begin_step(self, intent: Intent) -> None:
        """Record what is about to be done, before any tool runs. Replaces an intent of the same step."""
        ...

    async def pending_intent(self) -> Intent | None:
        """The intent that no committed step has answered, if any."""
        ...

    async def commit_step(self, chunk: Chunk, usage: Sequence[UsageRow] = ()) -> None:
        """One transaction: step, chunk, usage, intent cleared. The number must be the last one plus 1."""
        ...

    async def last_step(self) -> int:
        """0 when nothing is committed."""
        ...

    async def chunks(self, numbers: Sequence[int]) -> list[Chunk]:
        """In the order asked for. Raises NotStored."""
        ...

    async def facts_at(self, numbers: Sequence[int]) -> list[ChunkFacts]:
        """Those of `facts` that are asked for, in order; unknown numbers are left out."""
        ...

    async def facts(self, after: int = 0, last: int | None = None) -> list[ChunkFacts]:
        """What planning needs of the chunks with ``after`` < number <= ``last``, in order, without their texts."""
        ...

    async def add_views(self, views: Sequence[View]) -> None:
        """Idempotent by (chunk, level, version, producer); never changes a published one."""
        ...

    async def publish_views(self, step: int, up_to_chunk: int | None = None) -> list[View]:
        """Give every unpublished view (of chunks <= ``up_to_chunk``) ``published_step = step``; returns them."""
        ...

    async def views(self, numbers: Sequence[int], *, at_step: int | None = None) -> list[View]:
        """The published views of these chunks (newest version visible at ``at_step``; None: now), texts included."""
        ...

    async def view_tokens(self) -> list[tuple[int, Level, int, int, float | None]]:
        """(chunk, level, tokens, published_step, fidelity) of every published view: what an opened session loads."""
        ...

    async def without_views(self, *, before: int) -> list[int]:
        """Chunks < ``before`` that have no stored view at all, oldest first: work lost by a crash."""
        ...

    async def add_keys(self, rows: KeyRows) -> None: ...

    async def keys(self, encoder_id: str, only: Sequence[int] | None = None) -> KeyRows:
        """Every key of that encoder, or those of the chunks ``only``, ordered by chunk. Keys of other encoders are left
        out, not deleted."""
        ...

    async def nearest(self, encoder_id: str, query: KeyArray, count: int) -> Nearest | None:
        """The ``count`` keys of that encoder nearest to ``query`` (dim,), approximately and without reading the others;
        None where the store cannot find them so."""
        ...

    async def key_numbers(self, encoder_id: str) -> IntArray:
        """(n,) chunks that have a key of that encoder, ascending, without reading the keys."""
        ...

    def beside(self, name: str) -> Path | None:
        """Where a file called ``name``, derived from this store and lost without harm, may stand; None: nowhere."""
        ...

    async def add_block(self, block: Block) -> None:
        """Blocks are numbered from 1 without gaps and never change."""
        ...

    async def blocks(self) -> list[Block]: ...

    async def add_plan(self, record: PlanRecord) -> None: ...

    async def changes(self, after: int = 0) -> list[Change]:
        """What changed at each step > ``after``, in order: all that opening a session reads of its plans."""
        ...

    async def plans(self, first: int = 1, last: int | None = None) -> list[PlanRecord]: ...

    async def add_usage(self, row: UsageRow) -> None: ...

    async def usage(self) -> list[UsageRow]: ...

    async def add_event(self, event: Event) -> None: ...

    async def events(self) -> list[Event]: ...

    async def aclose(self) -> None: ...

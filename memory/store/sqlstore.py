"""`SqlStore`: everything about a session's store that is the same on every database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from memory.errors import StoreFault
from memory.plan import Block, IntArray
from memory.records import Chunk, Level, View
from memory.store import cold, owner, reads, writes
from memory.store.check import CLEAN, Checking
from memory.store.sql import Connection
from memory.store.verify import Finding
from memory.stored import (
    Change,
    ChunkFacts,
    Event,
    Intent,
    KeyRows,
    Nearest,
    PlanRecord,
    Question,
    StoreSizes,
    Tombstone,
    UsageRow,
)

T = TypeVar("T")


class Transactions(Protocol):
    """Runs work in transactions, in threads of its own: `Database` and `PostgresDatabase`."""

    async def write(self, work: Callable[[Any], T], name: str = "") -> T: ...

    async def read(self, work: Callable[[Any], T]) -> T: ...

    async def aclose(self) -> None: ...


class SqlStore(ABC):
    """`memory.ports.ChunkStore` in SQL: when a writing method returns, the disk has it.

    Any str is stored exactly, lone surrogates and NUL included. What cannot be stored at all (an integer beyond 64 bits
    in a column, JSON nested too deep) is a StoreFault and leaves no trace.
    """

    def __init__(self, database: Transactions) -> None:
        self._database = database
        self._token: str | None = None
        self._touched = False
        """Whether a write was tried, or the file was checked: then closing in order has something to say."""
        self._marked = False
        """Whether the mark of a session in use is known to be on the disk."""
        self._encoders: dict[str, writes.Encoder] = {}

    # -- what databases differ in

    @property
    @abstractmethod
    def shown(self) -> str:
        """Where the store is, for people; without a password."""

    @abstractmethod
    def beside(self, name: str) -> Path | None:
        """Where a file that is derived from this store may stand."""

    @abstractmethod
    def _lives(self, connection: Connection) -> owner.Lives:
        """How it is known whether an owner is still there."""

    def _take(self, connection: Connection, mine: owner.Owner) -> owner.Owner | None:
        return owner.take(connection, mine, self._lives(connection))

    def _give_up(self, connection: Connection, token: str) -> None:
        owner.give_up(connection, token)

    def _fence(self, connection: Connection) -> None:
        owner.fence(connection, self._token, self._lives(connection))

    def _expect_next(self, connection: Connection, number: int) -> None:
        writes.expect_next(connection, number)

    @abstractmethod
    async def schema(self) -> int:
        """Number of the newest migration of the store."""

    @abstractmethod
    async def verify(self, checking: Checking | None = None) -> list[Finding]:
        """Check every invariant of what is stored; slow for a long session."""

    @abstractmethod
    async def sizes(self) -> StoreSizes:
        """Where the bytes of the store are."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _read(self, work: Callable[[Connection], T]) -> T:
        return await self._database.read(work)

    async def _write(self, work: Callable[[Connection], T], name: str = "") -> T:
        result = await self._database.write(partial(self._guarded, work), name)
        self._marked = True
        return result

    def _guarded(self, work: Callable[[Connection], T], connection: Connection) -> T:
        self._fence(connection)
        self._touched = True
        if not self._marked:
            writes.set_meta(connection, {CLEAN: "0"})
        return work(connection)

    # -- ownership

    async def claim(self, label: str = "") -> owner.Owner | None:
        """Make this store object the only writer of the session; ``label`` says what for, to a person.

        Returns the owner that was taken over because its process is gone, or None. Raises StoreBusy, naming the pid,
        while another owner lives.
        """
        if self._token is not None:
            return None
        mine = owner.this_process(label)
        # Known before it is written: a caller cancelled in between still releases what it took.
        self._token = mine.token
        try:
            return await self._database.write(lambda connection: self._take(connection, mine), "claim")
        except StoreFault:
            self._token = None
            owner.let_go(mine.token)
            raise

    async def release(self) -> None:
        """Give the session up; does nothing when it is not owned."""
        token, self._token = self._token, None
        if token is not None:
            owner.let_go(token)
            await self._database.write(lambda connection: self._give_up(connection, token), "release")

    async def recorded_owner(self) -> owner.Owner | None:
        """Who is on record as holding the session, alive or not."""
        return await self._read(owner.current)

    async def owner(self) -> owner.Owner | None:
        """Who holds the session now: a live process, or None."""

        def read(connection: Connection) -> owner.Owner | None:
            held = owner.current(connection)
            return held if held is not None and self._lives(connection)(held) else None

        return await self._read(read)

    async def clean(self) -> bool:
        """Whether the last user that wrote closed the store in order."""
        return await self._read(lambda c: reads.meta(c, CLEAN)) in (None, "1")

    # -- the session

    async def meta(self, key: str) -> str | None:
        return await self._read(lambda c: reads.meta(c, key))

    async def set_meta(self, values: Mapping[str, str]) -> None:
        await self._write(lambda c: writes.set_meta(c, values), "set_meta")

    async def add_question(self, question: Question) -> None:
        await self._write(lambda c: writes.add_question(c, question), "add_question")

    async def questions(self) -> list[Question]:
        return await self._read(reads.questions)

    async def add_event(self, event: Event) -> None:
        await self._write(lambda c: writes.add_event(c, event), "add_event")

    async def events(self) -> list[Event]:
        return await self._read(reads.events)

    # -- steps and chunks

    async def begin_step(self, intent: Intent) -> None:
        def work(connection: Connection) -> None:
            self._expect_next(connection, intent.step.number)
            writes.begin_step(connection, intent)

        await self._write(work, "begin_step")

    async def pending_intent(self) -> Intent | None:
        return await self._read(reads.pending_intent)

    async def commit_step(self, chunk: Chunk, usage: Sequence[UsageRow] = ()) -> None:
        def work(connection: Connection) -> None:
            self._expect_next(connection, chunk.step.number)
            writes.commit_step(connection, chunk, usage)

        await self._write(work, "commit_step")

    async def last_step(self) -> int:
        return await self._read(reads.last_step)

    async def chunks(self, numbers: Sequence[int]) -> list[Chunk]:
        return await self._read(lambda c: reads.chunks(c, numbers))

    async def facts_at(self, numbers: Sequence[int]) -> list[ChunkFacts]:
        return await self._read(lambda c: reads.facts_at(c, numbers))

    async def facts(self, after: int = 0, last: int | None = None) -> list[ChunkFacts]:
        return await self._read(lambda c: reads.facts(c, after, last))

    # -- what is derived from them

    async def add_views(self, views: Sequence[View]) -> None:
        await self._write(lambda c: writes.add_views(c, views), "add_views")

    async def publish_views(self, step: int, up_to_chunk: int | None = None) -> list[View]:
        return await self._write(lambda c: writes.publish_views(c, step, up_to_chunk), "publish_views")

    async def views(self, numbers: Sequence[int], *, at_step: int | None = None) -> list[View]:
        """By chunk, then level, ascending; see `memory.ports.ChunkStore`."""
        return await self._read(lambda c: reads.views(c, numbers, at_step))

    async def view_tokens(self) -> list[tuple[int, Level, int, int, float | None]]:
        """By chunk, level, version: of several entries for one (chunk, level) the last one visible counts."""
        return await self._read(reads.view_tokens)

    async def without_views(self, *, before: int) -> list[int]:
        return await self._read(lambda c: reads.without_views(c, before))

    async def add_keys(self, rows: KeyRows) -> None:
        """Idempotent by (encoder, chunk): the first key stays. Raises NotStored for an unknown chunk."""
        known = self._encoders.get(rows.encoder_id)
        stored = await self._write(lambda c: writes.add_keys(c, rows, known), "add_keys")
        if stored is not None:
            self._encoders[rows.encoder_id] = stored

    async def keys(self, encoder_id: str, only: Sequence[int] | None = None) -> KeyRows:
        return await self._read(lambda c: reads.keys(c, encoder_id, only))

    async def nearest(self, encoder_id: str, query: NDArray[np.float32], count: int) -> Nearest | None:
        return None

    async def key_numbers(self, encoder_id: str) -> IntArray:
        return await self._read(lambda c: reads.key_numbers(c, encoder_id))

    # -- what becomes of it when it grows (`memory.lifecycle`)

    async def unpacked(self, first: int, last: int) -> list[tuple[int, int]]:
        """(chunk, bytes of its observations) of the steps ``first``-``last`` that are in no pack."""
        return await self._read(lambda c: cold.unpacked(c, first, last))

    async def pack(self, numbers: Sequence[int], *, dry_run: bool = False) -> int:
        """Compress the observations of these steps together; returns the bytes of the pack."""
        if dry_run:
            return await self._read(lambda c: cold.packed_size(c, numbers))
        return await self._write(lambda c: cold.pack(c, numbers), "pack")

    async def evict(self, stones: Sequence[Tombstone]) -> None:
        """Put tombstones in the place of observations, for good."""
        await self._write(lambda c: cold.evict(c, stones), "evict")

    async def tombstones(self) -> list[Tombstone]:
        return await self._read(cold.tombstones)

    async def summary(self, chunk: int, level: Level, *, but: str) -> View | None:
        """The newest summary that ``but`` did not produce, published or not."""
        return await self._read(lambda c: cold.summary(c, chunk, level, but=but))

    async def producers(self, level: Level) -> dict[int, tuple[str, int, int]]:
        """chunk -> (producer, version, tokens) of its newest view at a level, published or not."""
        return await self._read(lambda c: cold.producers(c, level))

    # -- what was decided and spent

    async def add_plan(self, record: PlanRecord) -> None:
        """A plan may be replaced until its step is committed."""
        await self._write(lambda c: writes.add_plan(c, record), "add_plan")

    async def plans(self, first: int = 1, last: int | None = None) -> list[PlanRecord]:
        return await self._read(lambda c: reads.plans(c, first, last))

    async def changes(self, after: int = 0) -> list[Change]:
        return await self._read(lambda c: reads.changes(c, after))

    async def add_block(self, block: Block) -> None:
        """Blocks are appended in order and kept."""
        await self._write(lambda c: writes.add_block(c, block), "add_block")

    async def blocks(self) -> list[Block]:
        return await self._read(reads.blocks)

    async def add_usage(self, row: UsageRow) -> None:
        await self._write(lambda c: writes.add_usage(c, [row]), "add_usage")

    async def usage(self) -> list[UsageRow]:
        return await self._read(reads.usage)

    async def aclose(self) -> None:
        """Release the session, mark the exit clean, close. Closing twice is fine; a full disk does not stop it."""
        try:
            if self._touched:
                await self._write(lambda c: writes.set_meta(c, {CLEAN: "1"}), "aclose")
            await self.release()
        except StoreFault:
            # Not clean then: the next open checks the file, which costs time and loses nothing.
            pass
        finally:
            self._touched = False
            if self._token is not None:
                owner.let_go(self._token)
            self._token = None
            await self._database.aclose()

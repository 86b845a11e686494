"""`Memory`: everything a session remembers, behind three verbs: ingest a step, assemble a context, recall."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from memory.assemble import Parts, assemble, preview
from memory.blocks import add_block
from memory.chunking import full_text, make_chunk
from memory.config import MemoryConfig
from memory.frame import guard_nonce
from memory.index.worker import KeyWorker
from memory.ingest import clean_step, facts_of
from memory.load import load_state, load_words, put_down
from memory.plan import Block, Context, NeedsSummary
from memory.ports import BlockMaker, ChunkStore, Clock, ContextPolicy, Encoder, StepFormat, TokenCounter
from memory.rebuild import Rebuilt, rebuild, rebuild_all
from memory.recall import Recall
from memory.records import Chunk, Step
from memory.sanitize import sanitize
from memory.state import SessionState
from memory.stored import ChunkFacts, Intent, Question, UsageRow
from memory.summaries.base import SummaryJob
from memory.summaries.ranges import sealed
from memory.summaries.worker import SummaryWorker

NONCE_BYTES = 4
FOLD_TOKENS = 4_000
"""Most tokens of a text that a model folds steps into."""
PAGE = 256
"""Texts read at once when an index is built anew."""


@dataclass(frozen=True, slots=True)
class MemoryParts:
    """What a memory is made of; ``summaries`` None: none are made. ``lockstep``: `SummaryConfig.publish`."""

    store: ChunkStore
    encoder: Encoder
    policy: ContextPolicy
    form: StepFormat
    counter: TokenCounter
    clock: Clock
    summaries: SummaryWorker | None = None
    blocks: BlockMaker | None = None
    """Makes what policies that summarise or fold runs of steps ask for."""
    lockstep: bool = False


class Memory:
    """A session's memory. Open with `Memory.open`; close with `aclose`, which loses nothing."""

    def __init__(self, given: MemoryParts, config: MemoryConfig, state: SessionState) -> None:
        self._given = given
        self._state = state
        self._config = config
        recall = Recall(given.store, given.counter, config.glimpse_page)
        keys = KeyWorker(given.encoder, self._full_texts)
        self._parts = Parts(
            given.store,
            state,
            given.encoder,
            keys,
            recall,
            given.policy,
            given.form,
            given.counter,
            config,
            given.lockstep,
            given.blocks,
        )

    @classmethod
    async def open(cls, given: MemoryParts, config: MemoryConfig) -> Memory:
        """Load a session (new or old) from its store and pick up the keys and summaries that a crash left undone."""
        store = given.store
        nonce = await store.meta("nonce")
        if nonce is None:
            nonce = secrets.token_hex(NONCE_BYTES)
            await store.set_meta({"nonce": nonce})
        state = await load_state(store, given.encoder, nonce)
        for facts in state.index.facts:
            given.policy.ingest(facts)
        memory = cls(given, config, state)
        await memory._pick_up()
        return memory

    # -- what is being worked on

    @property
    def question(self) -> str:
        """Text of the question in force; empty before the first."""
        return self._state.question.text if self._state.question else ""

    @property
    def task(self) -> int:
        """Ordinal of the question in force; 0 before the first."""
        return self._state.question.task if self._state.question else 0

    @property
    def steps(self) -> int:
        """Committed steps."""
        return len(self._state.index)

    @property
    def facts(self) -> Sequence[ChunkFacts]:
        """What is known of every committed step without its text, in order."""
        return self._state.index.facts

    @property
    def blocks(self) -> Sequence[Block]:
        """Every text that stands for a run of steps, by number."""
        return self._state.blocks

    @property
    def recall(self) -> Recall:
        """Read access: chunks, views, glimpses."""
        return self._parts.recall

    @property
    def pending_summaries(self) -> int:
        """Chunks whose summaries are still being made."""
        return self._given.summaries.pending if self._given.summaries else 0

    async def ask(self, text: str) -> Question:
        """A new question, or a further instruction; in force from the next step on. The same put again before that step
        stays one. Raises ValueError when empty."""
        clean = sanitize(text).strip()
        if not clean:
            raise ValueError("the question is empty")
        known = self._state.question
        if known is not None and (known.text, known.from_step) == (clean, self.steps + 1):
            return known
        question = Question(self.task + 1, clean, self.steps + 1, self._given.clock.time())
        await self._given.store.add_question(question)
        self._state.questions.append(question)
        return question

    # -- the three verbs

    async def begin(self, intent: Intent) -> None:
        """Record an action before its tools run."""
        await self._given.store.begin_step(Intent(clean_step(intent.step), intent.created))

    async def ingest(self, step: Step, usage: Sequence[UsageRow] = ()) -> Chunk:
        """Commit a whole step; when this returns it is on the disk. Key and summaries follow in the background."""
        chunk = make_chunk(clean_step(step), self._given.counter)
        await self._given.store.commit_step(chunk, usage)
        self._take(chunk)
        return chunk

    def _take(self, chunk: Chunk) -> None:
        """A committed chunk becomes part of what is planned with."""
        facts = facts_of(chunk)
        self._state.index.append(facts)
        self._given.policy.ingest(facts)
        if "lexical" in self._given.policy.needs:
            self._state.lexical.add(full_text(chunk.step))
        self._parts.keys.submit([chunk.step.number])
        self._summarise(chunk)

    async def fold(self, first: int, last: int, kind: str, text: str, *, tokens: int = FOLD_TOKENS) -> Block:
        """A text that from the next step on may stand for the steps ``first``-``last``, in the words of whoever folds.

        ``last`` may be the step under way. The text is made storable, and cut where its rendered block would exceed
        ``tokens``. Folding the same again, as a resumed step does, changes nothing. Raises ValueError for a range that
        is not known, or a text that is empty.
        """
        if not 1 <= first <= last <= self.steps + 1:
            raise ValueError(f"c{first}-c{last} is no range of the {self.steps + 1} known steps")
        clean = guard_nonce(sanitize(text).strip(), self._state.nonce)
        if not clean:
            raise ValueError("the text is empty")
        need = NeedsSummary(first, last, kind, tokens=tokens)
        made = sealed(need, len(self._state.blocks) + 1, self.steps + 2, clean, "model", self._given.counter)
        for known in reversed(self._state.blocks):
            if known.published_step < made.published_step:
                break
            if known == replace(made, number=known.number):
                return known
        await add_block(self._given.store, self._state, made)
        return made

    async def assemble(self, budget: int) -> Context:
        """The context for the next step, legal and within ``budget`` tokens. See `memory.assemble.assemble`."""
        await self._publish()
        self._state.rewind(self.steps + 1)
        return await assemble(self._parts, budget)

    async def preview(
        self, question: str, budget: int, policy: ContextPolicy | None = None, config: MemoryConfig | None = None
    ) -> Context:
        """What ``question``, put now, would be shown within ``budget`` tokens; nothing of it is remembered.

        ``policy`` and ``config`` stand in for this memory's own: such a policy has to have been told of `facts` by
        whoever brings it. Raises as `assemble`.
        """
        await self._publish()
        self._state.rewind(self.steps + 1)
        parts = replace(self._parts, policy=policy or self._parts.policy, config=config or self._config)
        if "lexical" in parts.policy.needs and len(self._state.lexical) < self.steps:
            await self._index_texts()
        return await preview(parts, budget, sanitize(question).strip())

    async def rebuild(self, step: int) -> Rebuilt:
        """The context of a past step, rendered again and compared with its stored hash."""
        return await rebuild(self._parts, step)

    async def rebuild_all(self) -> list[Rebuilt]:
        """Every recorded context again, in order."""
        return await rebuild_all(self._parts)

    async def catch_up(self) -> list[Step]:
        """Take in what is stored but was not noticed here, because the caller was cancelled, or a fault came, between a
        commit and its return. Returns the steps among it."""
        state, store = self._state, self._given.store
        state.questions[:] = await store.questions()
        state.blocks.extend((await store.blocks())[len(state.blocks) :])
        late = [facts.number for facts in await store.facts(after=self.steps)]
        chunks = await store.chunks(late)
        for chunk in chunks:
            self._take(chunk)
        state.index.set_views((chunk, level, tokens, f) for chunk, level, tokens, _, f in await store.view_tokens())
        return [chunk.step for chunk in chunks]

    # -- background work

    async def drain(self) -> None:
        """Wait until every summary asked for is made or has finally failed."""
        if self._given.summaries is not None:
            await self._given.summaries.drain()

    async def aclose(self) -> None:
        """Stop background work and close the store. What was pending is found again at the next open."""
        await self._parts.keys.aclose()
        if self._given.summaries is not None:
            await self._given.summaries.aclose()
        await put_down(self._given.store, self._given.encoder.id, self._state)
        await self._given.store.aclose()

    async def _publish(self) -> None:
        """Make finished summaries visible from this step on; in lockstep exactly those of step t - 2 and before."""
        summaries = self._given.summaries
        if summaries is None:
            return
        step = self.steps + 1
        up_to = step - 2 if self._given.lockstep else None
        if up_to is not None:
            await summaries.wait_for(range(1, up_to + 1))
        views = await self._given.store.publish_views(step, up_to)
        self._state.index.set_views((view.chunk, view.level, view.tokens, view.fidelity) for view in views)

    def _summarise(self, chunk: Chunk) -> None:
        if self._given.summaries is None:
            return
        question = next((q.text for q in self._state.questions if q.task == chunk.step.task), self.question)
        self._given.summaries.submit(SummaryJob(chunk.step.number, full_text(chunk.step), question, chunk.tokens_full))

    async def _pick_up(self) -> None:
        if "lexical" in self._given.policy.needs:
            await self._index_texts()
        self._parts.keys.submit(self._state.keys.missing(np.arange(1, self.steps + 1)).tolist())
        if self._given.summaries is not None:
            self._given.summaries.backlog(await self._given.store.without_views(before=self.steps + 1))

    async def _index_texts(self) -> None:
        """Take in the texts that the lexical index does not have yet."""
        if not len(self._state.lexical):
            self._state.lexical = await load_words(self._given.store, self.steps)
        for first in range(len(self._state.lexical) + 1, self.steps + 1, PAGE):
            texts = await self._full_texts(range(first, min(first + PAGE, self.steps + 1)))
            await asyncio.to_thread(self._state.lexical.extend, texts)

    async def _full_texts(self, numbers: Sequence[int]) -> list[str]:
        return [full_text(chunk.step) for chunk in await self._given.store.chunks(numbers)]

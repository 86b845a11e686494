"""A recorded step decided again: under its own policy, to show scores and reasons; under another, to compare.

Everything a policy looks at is taken from the store as it was at that step: the views, keys and blocks published by
then, the query vector, what had been shown before. So the session's own policy must come to what was recorded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from pydantic import ValidationError

from agent.dialects.registry import DialectOptions, make_dialect
from memory.blocks import make_block
from memory.chunking import full_text
from memory.config import MemoryConfig
from memory.decide import Decision, decide, shown_codes
from memory.encoders.factory import make_encoder
from memory.encoders.windows import state_text
from memory.errors import EncoderFault, NotStored, SummaryFailed
from memory.formats import PlainFormat
from memory.index.chunks import ChunkIndex
from memory.index.keys import KeyMatrix
from memory.index.lexical import LexicalIndex
from memory.plan import MAX_BLOCKS_A_STEP, FloatArray, LevelArray, PlanInput, Pool
from memory.policies.registry import make_policy
from memory.ports import ContextPolicy, StepFormat
from memory.recall import Recall
from memory.records import JsonValue, Step
from memory.render import Recent, fixed_tokens
from memory.state import SessionState
from memory.stored import KeyRows, PlanRecord
from memory.summaries.config import SummaryConfig
from memory.summaries.ranges import build_blocks
from memory.text.words import tokenize
from memory.tokens import ScriptCounter
from runners.choices import packaged_names
from runners.config import PolicySection, RunConfig, load_config
from runners.errors import UsageFault
from runners.offered import recorded_tools
from runners.request import ConfigRequest
from runners.viewer.recorded import Recorded

STATE_TOKENS = 512
"""State text where the session's encoder cannot be made here: only lexical scores read it."""
PAGE = 64


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What is to be different. None: as it was."""

    policy: str | None = None
    options: Mapping[str, JsonValue] = field(default_factory=dict)
    budget: int | None = None
    layout: str | None = None
    spend: bool | None = None

    @property
    def asked(self) -> bool:
        """Whether anything is."""
        return self != WhatIf()


@dataclass(frozen=True, slots=True)
class Replanned:
    """A step decided again. ``codes`` (M,) as shown; ``same``: they are those on record."""

    step: int
    policy: str
    given: PlanInput
    decision: Decision
    codes: LevelArray
    same: bool


@dataclass(slots=True)
class _Grown:
    """What was known at a step; grows from step to step."""

    index: ChunkIndex = field(default_factory=ChunkIndex)
    words: LexicalIndex = field(default_factory=LexicalIndex)
    views: int = 0


class Replanner:
    """Of one session; steps in ascending order cost least."""

    def __init__(self, session: Recorded, form: StepFormat, nonce: str, tokens: int) -> None:
        self._session = session
        self._form = form
        self._nonce = nonce
        self._state_tokens = tokens
        self._counter = ScriptCounter()
        self._grown = _Grown()
        self._keys: tuple[KeyRows, KeyMatrix] | None = None

    @classmethod
    async def open(cls, session: Recorded) -> Replanner:
        """Raises UsageFault where the session's settings cannot be read."""
        config = session.config
        if config is None:
            raise UsageFault(f"session {session.name}: its settings cannot be read, so no step can be decided again")
        tools = await recorded_tools(session.store)
        form: StepFormat = PlainFormat("")
        if tools is not None:
            options = DialectOptions(today=await session.store.meta("today") or "", task_key=session.name)
            form = make_dialect(config.dialect, options).step_format(tools)
        return cls(session, form, await session.store.meta("nonce") or "", _window(config))

    async def step(self, step: int, what: WhatIf | None = None) -> Replanned:
        """Decide ``step`` again. Raises NotStored when it had no context, UsageFault for a policy or option that there
        is none of, BudgetTooSmall, ContextExhausted, SummaryFailed."""
        record = self._session.plans.get(step)
        if record is None:
            raise NotStored(f"no context was built for step {step}")
        what = what or WhatIf()
        config = self._memory(record, what)
        policy = self._policy(what)
        await self._grow(step, lexical="lexical" in policy.needs)
        for facts in self._session.facts[: step - 1]:
            policy.ingest(facts)
        recent = Recent(await self._recent(record.recent_from, step), self._form, self._counter)
        given = await self._given(record, policy, config, recent)
        decision = await self._decided(policy, config, given, recent)
        codes = shown_codes(self._grown.index.shown_as(np.maximum(decision.fitted.levels, 0)), decision.fitted)
        shown = self._session.grid.at(step)
        same = shown is not None and shown.step == step and np.array_equal(shown.codes, codes)
        return Replanned(step, policy.name, given, decision, codes, same)

    def _memory(self, record: PlanRecord, what: WhatIf) -> MemoryConfig:
        assert self._session.config is not None
        changed: dict[str, object] = {"budget": record.budget if what.budget is None else what.budget}
        if what.layout is not None:
            changed["layout"] = what.layout
        if what.spend is not None:
            changed["spend"] = what.spend
        if what.asked:
            # where the session would have ended, the cuts show what it would have taken to go on
            changed["overflow"] = "fit"
        try:
            return MemoryConfig.model_validate(self._session.config.memory.model_dump() | changed)
        except ValidationError as fault:
            raise UsageFault(f"{fault.errors()[0]['loc'][0]}: {fault.errors()[0]['msg']}") from fault

    def _policy(self, what: WhatIf) -> ContextPolicy:
        assert self._session.config is not None
        section = self._session.config.policy if what.policy is None else _packaged(what.policy)
        try:
            return make_policy(section.name, section.options.model_dump(by_alias=True) | dict(what.options))
        except ValidationError as fault:
            first = fault.errors()[0]
            raise UsageFault(f"policy option {'.'.join(map(str, first['loc']))}: {first['msg']}") from fault

    async def _grow(self, step: int, *, lexical: bool) -> None:
        """Bring the index to what was known when ``step`` was about to be taken."""
        if len(self._grown.index) > step - 1:
            self._grown = _Grown()
        grown, session = self._grown, self._session
        first = len(grown.index)
        grown.index.extend(session.facts[first : step - 1])
        # a view counts from the step that published it on, whatever chunk it is of
        fresh = [view for view in session.views if grown.views < view[3] <= step or view[0] > first]
        grown.index.set_views((v[0], v[1], v[2], v[4]) for v in fresh if v[3] <= step)
        grown.views = step
        if lexical:
            for at in range(len(grown.words) + 1, step, PAGE):
                for chunk in await session.store.chunks(range(at, min(at + PAGE, step))):
                    grown.words.add(full_text(chunk.step))

    async def _recent(self, first: int, step: int) -> tuple[Step, ...]:
        """The window, its newest step with its glimpses written out."""
        config = self._session.config
        assert config is not None
        steps = [chunk.step for chunk in await self._session.store.chunks(range(first, step))]
        if steps:
            recall = Recall(self._session.store, self._counter, config.memory.glimpse_page)
            steps[-1] = await recall.expand_step(steps[-1])
        return tuple(steps)

    async def _given(
        self, record: PlanRecord, policy: ContextPolicy, config: MemoryConfig, recent: Recent
    ) -> PlanInput:
        step, session, old = record.step, self._session, record.recent_from - 1
        question = session.question_at(step)
        text = question.text if question else ""
        ledger = config.layout == "ledger"
        before = session.grid.at(step - 1)
        assert config.budget is not None
        return PlanInput(
            step=step,
            budget=config.budget,
            fixed_tokens=fixed_tokens(text, self._nonce, old > 0, self._form, self._counter, ledger=ledger),
            recent_tokens=recent.tokens(None),
            previous_tokens=record.previous_tokens,
            pool=await self._pool(record, policy, old, text, recent),
            blocks=tuple(b for b in await session.store.blocks() if b.published_step <= step),
            shown=before.codes if before else None,
            since=before.since if before else None,
            recent=tuple(tuple(call.name for call in item.calls) for item in recent.steps),
            task_from=question.from_step if question else 1,
        )

    async def _pool(self, record: PlanRecord, policy: ContextPolicy, old: int, question: str, recent: Recent) -> Pool:
        index, needs = self._grown.index, policy.needs
        keys = await self._key_matrix(record)
        pool = index.pool(old, _cosines(record, keys, old))
        if "lexical" in needs:
            texts = [full_text(step) for step in recent.steps]
            state = state_text(question, texts, self._state_tokens, self._counter.count)
            pool = replace(pool, lexical=self._grown.words.scores(tokenize(state), old))
        if "keys" in needs:
            pool = replace(pool, keys=keys.rows(old))
        if "fidelity" in needs:
            pool = replace(pool, fidelity=index.fidelity(old))
        if "kinds" in needs:
            pool = replace(pool, kinds=tuple(facts.kind for facts in index.facts[:old]))
        return pool

    async def _key_matrix(self, record: PlanRecord) -> KeyMatrix:
        """Keys of the record's encoder that were there by its step."""
        rows = await self._session.keys_of(record.encoder_id)
        late = rows.published > record.step
        if late.any() or self._keys is None or self._keys[0] is not rows:
            dim = rows.matrix.shape[1] if rows.matrix.size else max(1, len(record.query_key) // 4)
            matrix = KeyMatrix(dim)
            if rows.matrix.size:
                matrix.add(rows.numbers[~late], rows.matrix[~late])
            self._keys = (rows, matrix) if not late.any() else None
            return matrix
        return self._keys[1]

    async def _decided(self, policy: ContextPolicy, config: MemoryConfig, given: PlanInput, recent: Recent) -> Decision:
        """As in a session; texts that another policy would have asked for are made by extraction, and not kept."""
        for _ in range(MAX_BLOCKS_A_STEP + 1):
            decision = await asyncio.to_thread(decide, policy, config, given, recent)
            if isinstance(decision, Decision):
                return decision
            state = SessionState(self._grown.index, KeyMatrix(1), self._nonce)
            maker = build_blocks(SummaryConfig(), self._counter)
            number = len(given.blocks) + 1
            made = await make_block(self._session.store, state, maker, self._counter, decision, number)
            given = replace(given, blocks=(*given.blocks, made))
        raise SummaryFailed(f"policy {policy.name} asked for more than {MAX_BLOCKS_A_STEP} texts at one step")


def _packaged(name: str) -> PolicySection:
    """A policy with the options of its packaged file; no other file is read."""
    if name not in packaged_names("policy"):
        raise UsageFault(f"unknown policy {name!r}")
    return load_config(ConfigRequest(policy=name)).policy


def policies() -> dict[str, dict[str, float]]:
    """The packaged policies, each with its options that are plain numbers."""
    found = {}
    for name in packaged_names("policy"):
        options = _packaged(name).options.model_dump(by_alias=True)
        found[name] = {key: float(value) for key, value in options.items() if type(value) in (int, float)}
    return found


def _cosines(record: PlanRecord, keys: KeyMatrix, old: int) -> FloatArray:
    """(old,) similarities to the recorded query; zeros where recency decided."""
    if not record.query_key or not old:
        return np.zeros(old)
    query = np.frombuffer(record.query_key, dtype=np.float32)
    return keys.cosines(query, np.arange(1, old + 1))


def _window(config: RunConfig) -> int:
    """The window of the session's encoder, loaded only where scores depend on it."""
    if "lexical" not in make_policy(config.policy.name, config.policy.options.model_dump(by_alias=True)).needs:
        return STATE_TOKENS
    try:
        return make_encoder(config.encoder).max_tokens
    except EncoderFault:
        return STATE_TOKENS

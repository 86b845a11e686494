"""Building a context: score, plan, fit, spend, render, check, record. The policy decides; this only carries it out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from memory.blocks import add_block, make_block
from memory.chunking import full_text
from memory.config import MemoryConfig
from memory.decide import Decision, decide, shown_codes
from memory.encoders.windows import state_text
from memory.errors import EncoderFault, IllegalContext, SummaryFailed
from memory.index.worker import KeyWorker
from memory.plan import FOLDED, MAX_BLOCKS_A_STEP, Context, FloatArray, LevelArray, PlanInput, Pool
from memory.ports import BlockMaker, ChunkStore, ContextPolicy, Encoder, StepFormat, TokenCounter
from memory.prefix import common_prefix_tokens
from memory.recall import Recall
from memory.records import Level, Message, Step
from memory.render import Recent, RenderInput, check_legal, fixed_tokens, level_tokens, render, render_hash
from memory.state import SessionState
from memory.stored import KeyRows, PlanRecord
from memory.text.words import tokenize
from memory.tokens import request_tokens

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Parts:
    """What assembling needs, all of it owned by `Memory`."""

    store: ChunkStore
    state: SessionState
    encoder: Encoder
    keys: KeyWorker
    recall: Recall
    policy: ContextPolicy
    form: StepFormat
    counter: TokenCounter
    config: MemoryConfig
    lockstep: bool
    blocks: BlockMaker | None = None


@dataclass(frozen=True, slots=True)
class Scored:
    """A pool with the query that scored it; ``query`` None: recency decides."""

    pool: Pool
    query: NDArray[np.float32] | None


@dataclass(frozen=True, slots=True)
class _Built:
    """A context with what its record is made of."""

    context: Context
    codes: LevelArray
    previous_tokens: int
    query: NDArray[np.float32] | None


async def assemble(parts: Parts, budget: int) -> Context:
    """The context for the next step, within ``budget`` tokens.

    Raises BudgetTooSmall or ContextExhausted before anything is sent, IllegalContext for a bug of ours.
    """
    state = parts.state
    if state.question is None:
        raise ValueError("no question has been asked")
    built = await _built(parts, budget, state.question.text, state.question.from_step)
    context = built.context
    await parts.store.add_plan(_record(parts, context, built.codes, built.previous_tokens, built.query))
    state.remember(built.codes, context.step, context.tokens, context.messages)
    return context


async def preview(parts: Parts, budget: int, question: str) -> Context:
    """The context that ``question`` alone, put now, would get; nothing of it is stored or remembered. Raises as
    `assemble`."""
    return (await _built(parts, budget, question, len(parts.state.index) + 1, alone=True)).context


async def _built(parts: Parts, budget: int, question: str, task_from: int, *, alone: bool = False) -> _Built:
    """``alone``: the question is the whole state text, and the texts that a policy asks for are not kept."""
    state, config, counter = parts.state, parts.config, parts.counter
    step, old = len(state.index) + 1, max(0, len(state.index) - config.recent)
    steps = await recent_steps(parts, old + 1, step - 1)
    recent = Recent(steps, parts.form, counter)
    ledger = config.layout == "ledger"
    fixed = fixed_tokens(question, state.nonce, old > 0, parts.form, counter, ledger=ledger)
    scored = await _score(parts, old, () if alone else steps, question)
    given = PlanInput(
        step=step,
        budget=budget,
        fixed_tokens=fixed,
        recent_tokens=recent.tokens(None),
        previous_tokens=fixed if state.previous_tokens is None else state.previous_tokens,
        pool=scored.pool,
        blocks=tuple(state.blocks),
        shown=state.codes if state.previous_tokens is not None else None,
        since=state.since if state.previous_tokens is not None else None,
        recent=tuple(tuple(call.name for call in item.calls) for item in steps),
        task_from=task_from,
    )
    decision = await _decided(parts, given, recent, keep=not alone)
    fitted = decision.fitted
    codes = shown_codes(state.index.shown_as(np.maximum(fitted.levels, 0)), fitted)
    rendering = RenderInput(
        question=question,
        nonce=state.nonce,
        levels=levels_of(codes),
        folded=codes == FOLDED,
        facts=state.index,
        texts=await texts_of(parts, codes),
        recent=steps,
        recent_cap=fitted.recent_cap,
        ledger_base=fitted.ledger_base,
        since=state.since_with(codes, step),
        blocks=fitted.blocks,
    )
    context = _context(parts, given, decision, rendering, recent)
    return _Built(context, codes, given.previous_tokens, scored.query)


def _context(parts: Parts, given: PlanInput, decision: Decision, rendering: RenderInput, recent: Recent) -> Context:
    """Rendered, proved, and counted."""
    fitted, pool = decision.fitted, given.pool
    messages = render(rendering, parts.form, parts.counter)
    tokens = checked_tokens(messages, rendering.question, parts, fitted.tokens, given.budget)
    tokens_by_level, counts_by_level = level_tokens(rendering, pool)
    return Context(
        step=given.step,
        messages=messages,
        tokens=tokens,
        budget=given.budget,
        plan=decision.plan,
        fitted=fitted,
        ids=pool.ids,
        render_hash=render_hash(messages),
        tokens_by_level=tokens_by_level,
        counts_by_level=counts_by_level,
        recent_tokens=recent.tokens(fitted.recent_cap),
        fixed_tokens=given.fixed_tokens,
        cosine_mean=float(pool.cosines.mean()) if len(pool) else 0.0,
        cosine_spread=float(pool.cosines.std()) if len(pool) else 0.0,
        prefix_tokens=common_prefix_tokens(parts.state.request, messages, parts.form.tools_text(), parts.counter),
    )


async def _decided(parts: Parts, given: PlanInput, recent: Recent, *, keep: bool) -> Decision:
    """Ask the policy; have the texts made that it cannot plan without, and stored if they are to ``keep``."""
    for _ in range(MAX_BLOCKS_A_STEP + 1):
        decision = decide(parts.policy, parts.config, given, recent)
        if isinstance(decision, Decision):
            return decision
        number = len(given.blocks) + 1
        block = await make_block(parts.store, parts.state, parts.blocks, parts.counter, decision, number)
        if keep:
            await add_block(parts.store, parts.state, block)
        given = replace(given, blocks=(*given.blocks, block))
    raise SummaryFailed(f"policy {parts.policy.name} asked for more than {MAX_BLOCKS_A_STEP} texts at one step")


def levels_of(codes: LevelArray) -> LevelArray:
    """Codes as levels: what is folded is a placeholder, HIDDEN stays."""
    return np.where(codes == FOLDED, np.int8(Level.PLACEHOLDER), codes).astype(np.int8)


def checked_tokens(messages: tuple[Message, ...], question: str, parts: Parts, bound: int, budget: int) -> int:
    """Tokens of the request, proved legal and within both its bound and the budget."""
    check_legal(messages, question)
    tokens = request_tokens(messages, parts.form.tools_text(), parts.counter)
    if tokens > min(bound, budget):
        raise IllegalContext(f"rendered {tokens} tokens, over the bound of {bound} or the budget of {budget}")
    return tokens


async def recent_steps(parts: Parts, first: int, last: int) -> tuple[Step, ...]:
    """The recent window; only the newest step has its glimpses written out: a glimpse shows for one step."""
    if last < first:
        return ()
    chunks = await parts.store.chunks(range(first, last + 1))
    steps = [chunk.step for chunk in chunks]
    steps[-1] = await parts.recall.expand_step(steps[-1])
    return tuple(steps)


async def texts_of(parts: Parts, codes: LevelArray, at_step: int | None = None) -> Mapping[int, str]:
    """Bodies of the chunks shown above PLACEHOLDER."""
    numbers = (np.flatnonzero(codes > int(Level.PLACEHOLDER)) + 1).tolist()
    whole = [number for number in numbers if codes[number - 1] == Level.FULL]
    texts = {chunk.step.number: full_text(chunk.step) for chunk in await parts.store.chunks(whole)}
    partial = [number for number in numbers if codes[number - 1] != Level.FULL]
    for view in await parts.store.views(partial, at_step=at_step):
        if view.level == codes[view.chunk - 1]:
            texts[view.chunk] = view.text
    return texts


async def _score(parts: Parts, old: int, steps: tuple[Step, ...], question: str) -> Scored:
    """The old chunks with their similarity to the state; zeros without a query vector."""
    state, needs = parts.state, parts.policy.needs
    if old == 0:
        return Scored(state.index.pool(0, np.zeros(0)), None)
    await _take_keys(parts, old)
    recent = [full_text(step) for step in steps]
    text = state_text(question, recent, parts.encoder.max_tokens, parts.counter.count)
    query: NDArray[np.float32] | None = None
    cosines: FloatArray = np.zeros(old)
    try:
        query = await asyncio.to_thread(parts.encoder.encode_query, text)
        cosines = state.keys.cosines(query, np.arange(1, old + 1))
    except EncoderFault as fault:
        log.warning("step %d: no query vector, recency decides: %s", len(state.index) + 1, fault)
    pool = state.index.pool(old, cosines)
    if "lexical" in needs:
        pool = replace(pool, lexical=state.lexical.scores(tokenize(text), old))
    if "keys" in needs:
        pool = replace(pool, keys=state.keys.rows(old))
    if "fidelity" in needs:
        pool = replace(pool, fidelity=state.index.fidelity(old))
    if "kinds" in needs:
        pool = replace(pool, kinds=tuple(facts.kind for facts in state.index.facts[:old]))
    return Scored(pool, query)


async def _take_keys(parts: Parts, old: int) -> None:
    """Publish the keys computed since the last step, waiting briefly for those of old chunks."""
    missing = parts.state.keys.missing(np.arange(1, old + 1)).tolist()
    await parts.keys.wait_for(missing, None if parts.lockstep else parts.config.key_wait_s)
    numbers, rows = parts.keys.take()
    if not numbers:
        return
    step = len(parts.state.index) + 1
    ids = np.array(numbers, dtype=np.int64)
    parts.state.keys.add(ids, rows)
    await parts.store.add_keys(KeyRows(parts.encoder.id, ids, rows, np.full(len(ids), step, dtype=np.int64)))


def _record(
    parts: Parts, context: Context, codes: LevelArray, previous: int, query: NDArray[np.float32] | None
) -> PlanRecord:
    plan = context.plan
    planned = np.bincount(plan.levels[plan.levels >= 0], minlength=4)
    question = parts.state.question
    return PlanRecord(
        step=context.step,
        policy=parts.policy.name,
        budget=context.budget,
        tokens=context.tokens,
        unfitted_tokens=context.fitted.unfitted_tokens,
        fixed_tokens=context.fixed_tokens,
        recent_tokens=context.recent_tokens,
        recent_from=len(codes) + 1,
        recent_cap=context.fitted.recent_cap,
        previous_tokens=previous,
        pressure=plan.pressure,
        thresholds=plan.thresholds,
        changed=parts.state.changes(codes),
        planned_counts=(int(planned[0]), int(planned[1]), int(planned[2]), int(planned[3])),
        shown_counts=context.counts_by_level,
        shown_tokens=context.tokens_by_level,
        cosine_mean=context.cosine_mean,
        cosine_spread=context.cosine_spread,
        query_key=b"" if query is None else query.astype(np.float32).tobytes(),
        encoder_id=parts.encoder.id,
        render_hash=context.render_hash,
        question=question.task if question else 0,
        ledger_base=context.fitted.ledger_base,
        blocks=tuple(block.number for block in context.fitted.blocks),
        prefix_tokens=context.prefix_tokens,
    )

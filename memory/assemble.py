"""Building a context: score, plan, fit, spend, render, check, record. The policy decides; this only carries it out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memory.chunking import full_text
from memory.config import MemoryConfig
from memory.encoders.windows import state_text
from memory.errors import EncoderFault, IllegalContext
from memory.fit import FitInput, fit
from memory.index.worker import KeyWorker
from memory.plan import Context, ContextPlan, FittedPlan, FloatArray, LevelArray, PlanInput
from memory.ports import ChunkStore, ContextPolicy, Encoder, StepFormat, TokenCounter
from memory.recall import Recall
from memory.records import Level, Message, Step
from memory.render import Recent, RenderInput, check_legal, fixed_tokens, level_tokens, render, render_hash
from memory.spend import spend
from memory.state import FOLDED, SessionState
from memory.stored import KeyRows, PlanRecord
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


async def assemble(parts: Parts, budget: int) -> Context:
    """The context for the next step, within ``budget`` tokens.

    Raises BudgetTooSmall or ContextExhausted before anything is sent, IllegalContext for a bug of ours.
    """
    state, config, counter = parts.state, parts.config, parts.counter
    question = state.question
    if question is None:
        raise ValueError("no question has been asked")
    last = len(state.index)
    old = max(0, last - config.recent)
    steps = await recent_steps(parts, old + 1, last)
    recent = Recent(steps, parts.form, counter)
    fixed = fixed_tokens(question.text, state.nonce, old > 0, parts.form, counter)
    cosines, query = await _score(parts, old, steps, question.text)
    pool = state.index.pool(old, cosines)
    previous = fixed if state.previous_tokens is None else state.previous_tokens
    given = PlanInput(last + 1, budget, fixed, recent.tokens(None), previous, pool)
    plan = parts.policy.plan(given)
    fit_input = FitInput(last + 1, budget, fixed, recent, config.overflow)
    fitted = fit(plan, pool, fit_input)
    if config.spend:
        fitted = spend(fitted, plan, pool, fit_input)
    codes = shown_codes(state, fitted)
    rendering = RenderInput(
        question.text,
        state.nonce,
        np.maximum(codes, 0).astype(np.int8),
        fitted.folded,
        state.index.facts,
        await texts_of(parts, codes),
        steps,
        fitted.recent_cap,
    )
    messages = render(rendering, parts.form, counter)
    tokens = checked_tokens(messages, question.text, parts, fitted.tokens, budget)
    tokens_by_level, counts_by_level = level_tokens(rendering, pool.tokens)
    context = Context(
        step=last + 1,
        messages=messages,
        tokens=tokens,
        budget=budget,
        plan=plan,
        fitted=fitted,
        ids=pool.ids,
        render_hash=render_hash(messages),
        tokens_by_level=tokens_by_level,
        counts_by_level=counts_by_level,
        recent_tokens=recent.tokens(fitted.recent_cap),
        fixed_tokens=fixed,
        cosine_mean=float(cosines.mean()) if old else 0.0,
        cosine_spread=float(cosines.std()) if old else 0.0,
    )
    await parts.store.add_plan(_record(parts, context, codes, previous, query))
    state.remember(codes, tokens)
    return context


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


def shown_codes(state: SessionState, fitted: FittedPlan) -> LevelArray:
    """Levels as shown (aliases resolved), FOLDED for chunks inside range lines, (M,)."""
    codes: LevelArray = np.where(fitted.folded, np.int8(FOLDED), state.index.shown_as(fitted.levels)).astype(np.int8)
    return codes


async def _score(
    parts: Parts, old: int, steps: tuple[Step, ...], question: str
) -> tuple[FloatArray, NDArray[np.float32] | None]:
    """Cosines (old,) of the old chunks to the state, and the query vector; zeros and None when recency must decide."""
    if old == 0:
        return np.zeros(0), None
    await _take_keys(parts, old)
    text = state_text(question, [full_text(step) for step in steps], parts.encoder.max_tokens, parts.counter.count)
    try:
        query = await asyncio.to_thread(parts.encoder.encode_query, text)
    except EncoderFault as fault:
        log.warning("step %d: no query vector, recency decides: %s", len(parts.state.index) + 1, fault)
        return np.zeros(old), None
    return parts.state.keys.cosines(query, np.arange(1, old + 1)), query


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
    plan: ContextPlan = context.plan
    planned = np.bincount(plan.levels, minlength=4)
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
    )

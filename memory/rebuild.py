"""Any past context again, from what was stored of its plan; the hash proves that it is the same to the byte."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memory.assemble import Parts, recent_steps, texts_of
from memory.errors import NotStored
from memory.plan import LevelArray
from memory.records import Message
from memory.render import RenderInput, render, render_hash
from memory.state import FOLDED, cumulate
from memory.stored import PlanRecord


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A past context. ``same``: its bytes hash to what was stored when it was sent."""

    record: PlanRecord
    codes: LevelArray
    messages: tuple[Message, ...]
    same: bool


async def rebuild(parts: Parts, step: int) -> Rebuilt:
    """The context of ``step``. Raises NotStored when none was built."""
    records = await parts.store.plans(last=step)
    if not records or records[-1].step != step:
        raise NotStored(f"no context was built for step {step}")
    record = records[-1]
    codes = cumulate(records)
    return await render_again(parts, record, codes)


async def render_again(parts: Parts, record: PlanRecord, codes: LevelArray) -> Rebuilt:
    """Render one recorded plan whose codes are known: for walking a whole session without cumulating anew."""
    question = next((q.text for q in parts.state.questions if q.task == record.question), "")
    rendering = RenderInput(
        question=question,
        nonce=parts.state.nonce,
        levels=np.maximum(codes, 0).astype(np.int8),
        folded=codes == FOLDED,
        facts=parts.state.index.facts,
        texts=await texts_of(parts, codes, at_step=record.step),
        recent=await recent_steps(parts, record.recent_from, record.step - 1),
        recent_cap=record.recent_cap,
    )
    messages = render(rendering, parts.form, parts.counter)
    return Rebuilt(record, codes, messages, render_hash(messages) == record.render_hash)

"""Any past context again, from what was stored of its plan; the hash proves that it is the same to the byte."""

from __future__ import annotations

from dataclasses import dataclass

from memory.assemble import Parts, levels_of, recent_steps, texts_of
from memory.errors import NotStored
from memory.plan import FOLDED, LevelArray
from memory.records import Message
from memory.render import RenderInput, render, render_hash
from memory.state import SessionState
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
    past = _past(parts)
    for record in await parts.store.plans(last=step):
        past.replay(record)
        if record.step == step:
            return await render_again(parts, record, past)
    raise NotStored(f"no context was built for step {step}")


async def rebuild_all(parts: Parts) -> list[Rebuilt]:
    """Every recorded context again, in order; O(steps) plans, one rendering each."""
    past, again = _past(parts), []
    for record in await parts.store.plans():
        past.replay(record)
        again.append(await render_again(parts, record, past))
    return again


def _past(parts: Parts) -> SessionState:
    state = parts.state
    return SessionState(state.index, state.keys, state.nonce, state.questions)


async def render_again(parts: Parts, record: PlanRecord, past: SessionState) -> Rebuilt:
    """Render one recorded plan; ``past`` has just replayed it."""
    codes = past.codes
    question = next((q.text for q in parts.state.questions if q.task == record.question), "")
    rendering = RenderInput(
        question=question,
        nonce=parts.state.nonce,
        levels=levels_of(codes),
        folded=codes == FOLDED,
        facts=parts.state.index,
        texts=await texts_of(parts, codes, at_step=record.step),
        recent=await recent_steps(parts, record.recent_from, record.step - 1),
        recent_cap=record.recent_cap,
        ledger_base=record.ledger_base,
        since=past.since,
        blocks=tuple(parts.state.blocks[number - 1] for number in record.blocks),
    )
    messages = render(rendering, parts.form, parts.counter)
    return Rebuilt(record, codes, messages, render_hash(messages) == record.render_hash)

"""A context as the text that a reader is given: old turns as they are shown, then the recent ones."""

from __future__ import annotations

from memory.assemble import levels_of
from memory.chunking import full_text
from memory.clip import clip_step
from memory.frame import block
from memory.plan import FOLDED
from memory.records import Level
from memory.render import RenderInput, render
from runners.replay.engine import Shown
from runners.replay.prepare import Prepared


def context_text(run: Prepared, shown: Shown, question: str) -> str:
    """What a session would send between the question and its last turns, and these, framed alike. Empty where no
    context could be built."""
    if shown.decision is None:
        return ""
    fitted, codes = shown.decision.fitted, shown.codes
    levels = levels_of(codes)
    given = RenderInput(
        question=question,
        nonce=run.nonce,
        levels=levels,
        folded=codes == FOLDED,
        facts=run.index,
        texts={row + 1: run.view_text(row, Level(int(level))) for row, level in enumerate(levels) if level > 0},
        recent=(),
        recent_cap=None,
        ledger_base=fitted.ledger_base,
        blocks=fitted.blocks,
    )
    preamble = len(run.form.preamble(question))
    old = [message.content for message in render(given, run.form, run.tools.counter)[preamble:]]
    recent = [
        block(step.number, Level.FULL, full_text(clip_step(step, fitted.recent_cap, run.tools.counter)))
        for step in run.recent_steps(shown.step)
    ]
    return "".join([*old, *recent])

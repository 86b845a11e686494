"""Texts that stand for runs of steps, made in process, as an offline session would make them."""

from __future__ import annotations

from memory.blocks import source_blocks, source_codes
from memory.plan import Block, NeedsSummary
from memory.records import Level
from memory.summaries.ranges import extracted
from runners.replay.prepare import Prepared


def make_block(need: NeedsSummary, number: int, step: int, run: Prepared) -> Block:
    """An extractive block of at most ``need.tokens`` (frame included), deterministic."""
    codes = source_codes(run.index, need.first, need.last)
    bodies: dict[int, str] = {}
    for chunk, code in enumerate(codes.tolist(), need.first):
        if code > Level.PLACEHOLDER:
            bodies[chunk] = run.texts[chunk - 1] if code == Level.FULL else run.views[chunk - 1][code - Level.BRIEF]
    counter = run.tools.counter
    texts = source_blocks(run.index, counter, run.nonce, need.first, codes, bodies)
    question = run.recording.question_at(min(step, len(run))).text
    return extracted(need, number, step, texts, question, counter, run.tools.summaries.profile)

"""Texts that stand for runs of steps, made in process: what a policy asks for with `NeedsSummary`."""

from __future__ import annotations

from dataclasses import replace

from memory.blocks import source_blocks, source_codes
from memory.plan import Block, NeedsSummary
from memory.records import Level
from memory.summaries.ranges import extracted
from runners.replay.prepare import Prepared


def make_block(need: NeedsSummary, number: int, step: int, run: Prepared) -> Block:
    """The block that a session with extractive summaries would have made; made once for all variants that ask."""
    question = run.question(step)
    merged = need.merge.text if need.merge else None
    key = (need.first, need.last, need.kind, need.tokens, merged, question)
    if key not in run.blocks:
        codes = source_codes(run.index, need.first, need.last)
        shown = {need.first + at: Level(code) for at, code in enumerate(codes.tolist()) if code > Level.PLACEHOLDER}
        bodies = {chunk: run.view_text(chunk - 1, level) for chunk, level in shown.items()}
        counter = run.tools.counter
        texts = source_blocks(run.index, counter, run.nonce, need.first, codes, bodies)
        run.blocks[key] = extracted(need, number, step, texts, question, counter, run.tools.summaries.profile)
    return replace(run.blocks[key], number=number, published_step=step)

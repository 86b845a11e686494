"""Texts that stand for runs of steps, made in process: what a policy asks for with `NeedsSummary`."""

from __future__ import annotations

from memory.frame import range_block
from memory.plan import Block, NeedsSummary
from memory.summaries.extractive import cut, summarise
from runners.replay.prepare import Prepared

MOST_CHARS = 60_000
"""A longer range is summarised from its chunks' own summaries, so that a session of thousands of steps stays cheap."""


def make_block(need: NeedsSummary, number: int, step: int, run: Prepared) -> Block:
    """An extractive block of at most ``need.tokens`` (frame included), deterministic."""
    count = run.tools.counter.count
    rows = range(need.first - 1, need.last)
    texts = [run.texts[row] for row in rows]
    if sum(len(text) for text in texts) > MOST_CHARS:
        texts = [run.views[row][1] or run.texts[row] for row in rows]
    if need.merge is not None:
        texts.insert(0, need.merge.text)
    first = need.merge.first if need.merge is not None else need.first
    frame = count(range_block(first, need.last, need.kind, ""))
    question = run.recording.question_at(min(step, len(run))).text
    room = max(16, need.tokens - frame)
    text, _ = summarise("\n".join(texts), question, detailed_tokens=room, brief_tokens=min(48, room), count=count)
    text = cut(text, room, count)
    tokens = count(range_block(first, need.last, need.kind, text))
    return Block(number, first, need.last, need.kind, text, tokens, producer="extractive", published_step=step)

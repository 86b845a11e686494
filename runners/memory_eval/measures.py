"""What is measured on one context: evidence recall, ranking, and whether the answer can be read in it. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from memory.records import Level
from runners.replay.dialogues import Asking
from runners.replay.engine import Shown
from runners.replay.evidence import can_read, is_shown
from runners.replay.planted import mentions
from runners.replay.prepare import Prepared

AT = 10
"""k of NDCG."""


@dataclass(frozen=True, slots=True)
class Found:
    """Measures of one question in one context, each in [0, 1]; None where the question has no such measure."""

    recall_any: float | None = None
    recall_all: float | None = None
    recall_share: float | None = None
    ndcg: float | None = None
    answer_visible: float | None = None


def found(run: Prepared, shown: Shown, asked: Asking) -> Found:
    """Evidence turns shown at DETAILED or FULL; the answer visible *inside* an evidence turn, where one states it.

    An unanswerable LongMemEval question has no place to find, whatever turns are labelled: it has no measures, as
    upstream. LoCoMo labels the turn that its adversarial questions were made from, and counts it.
    """
    if not asked.evidence or (run.recording.family == "longmemeval" and not asked.answerable):
        return Found()
    seen = [is_shown(shown, number) for number in asked.evidence]
    visible = None
    if asked.answerable and stated(run, asked):
        visible = float(any(can_read(run, shown, number, asked.answer) for number in asked.evidence))
    return Found(
        recall_any=float(any(seen)),
        recall_all=float(all(seen)),
        recall_share=sum(seen) / len(seen),
        ndcg=ndcg(ranking(shown), asked.evidence),
        answer_visible=visible,
    )


def stated(run: Prepared, asked: Asking) -> bool:
    """Whether an evidence turn holds the answer to the letter."""
    if not asked.answer.strip():
        return False
    return any(mentions(run.texts[number - 1], asked.answer) for number in asked.evidence)


def ranking(shown: Shown) -> list[int]:
    """Chunk numbers shown at DETAILED or FULL: finest first, then by the policy's own value, then newest; the recent
    window, which nobody chose, comes last."""
    if shown.decision is None:
        return []
    codes = shown.codes
    rows = np.flatnonzero(codes >= int(Level.DETAILED))
    order = np.lexsort((-rows, -shown.decision.plan.values[rows], -codes[rows]))
    last = range(shown.step - 1, len(codes), -1)
    return [int(row) + 1 for row in rows[order]] + list(last)


def ndcg(ranked: Sequence[int], relevant: Collection[int], k: int = AT) -> float:
    """NDCG@k of binary relevance as LongMemEval computes it: the first two places count alike.

    Against the best ranking of all relevant ones, so that what is not shown costs.
    """
    gains = [float(number in relevant) for number in ranked[:k]]
    ideal = [1.0] * min(k, len(relevant))
    return _dcg(gains) / _dcg(ideal) if ideal else 0.0


def _dcg(gains: Sequence[float]) -> float:
    return sum(gain / (math.log2(at) if at > 1 else 1.0) for at, gain in enumerate(gains, start=1))

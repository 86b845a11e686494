"""Where one subgoal ends and the next begins, read from a session's steps. Pure and causal: what is decided of a step
depends on nothing after the step that follows it, so a boundary once found stays.

Subgoals as units of memory are HiAgent's; there the model names them, here they are found: a question that was
answered, a shift of topic (as in text tiling: a chunk far from what the running segment is about), sooner where the
kind of action changes at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from memory.plan import FloatArray, KeyArray


@dataclass(frozen=True, slots=True)
class BoundaryRule:
    """``drop``: a chunk whose cosine to the running segment is below this share of what is usual within it is another
    topic, if the chunk after it is so too; ``drop_at_change`` where the tools change as well. ``least``, ``most``:
    steps of a segment. The defaults were set on 27 chained runs of search and visit, where they find nine of ten
    changes of question without being told; half of what they find lies inside a question."""

    drop: float = 0.5
    drop_at_change: float = 0.65
    least: int = 3
    most: int = 32


def boundaries(
    keys: KeyArray,
    kinds: Sequence[str] | None = None,
    tools: Sequence[tuple[str, ...]] | None = None,
    rule: BoundaryRule | None = None,
) -> list[int]:
    """Rows at which a new segment begins, ascending, 0 left out.

    ``keys`` (M, dim) rows of unit length, zero where a chunk has none (it never begins a topic); ``kinds`` (M,)
    `StepKind`; ``tools`` (M,) names called. The last two rows can only begin a segment after an answer, or because one
    is full: a shift of topic is believed when two chunks say it.
    """
    rule = rule or BoundaryRule()
    found: list[int] = []
    start = 0
    for row in range(1, len(keys)):
        answered = kinds is not None and kinds[row - 1] == "answer"
        if answered or row - start >= rule.most or _shifts(keys, start, row, tools, rule):
            found.append(row)
            start = row
    return found


def _shifts(keys: KeyArray, start: int, row: int, tools: Sequence[tuple[str, ...]] | None, rule: BoundaryRule) -> bool:
    if row - start < rule.least or row + 1 >= len(keys):
        return False
    inside = keys[start:row]
    centre: FloatArray = inside.mean(axis=0, dtype=np.float64)
    length = float(np.linalg.norm(centre))
    if length == 0.0:
        return False
    usual = float(np.mean(inside @ (centre / length)))
    changed = tools is not None and tools[row] != tools[row - 1]
    limit = (rule.drop_at_change if changed else rule.drop) * usual
    pair = keys[row : row + 2] @ (centre / length)
    return bool(keys[row].any() and keys[row + 1].any() and (pair < limit).all())

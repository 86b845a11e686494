"""What selectors share: chosen chunks stand in full, the rest not at all (PACMS, section 3).

A selector sees what the fixed parts and the recent window leave of the budget, and gives back rows; here they become
a plan. In the ledger layout every chunk keeps its line whatever a selector says, and the ledger is paid first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, StringConstraints

from memory.layout import RANGE_TOKENS, ledger_tokens
from memory.plan import HIDDEN, BoolArray, ContextPlan, FloatArray, IntArray, KeyArray, PlanInput, Pool
from memory.records import Level

SHORTLIST = 2_000
"""Candidates of the selectors whose cost grows with the square of the pool; see `shortlist`."""
_LINES_SHARE = 0.1
"""Lines of the rest stay unfolded while they cost at most this share of the room."""

ChunkId = Annotated[str, StringConstraints(pattern=r"^c[1-9]\d*$")]


class SelectorConfig(BaseModel):
    """What every selector can be told."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rest: Literal["hidden", "placeholder"] = "hidden"
    """How chunks that are not chosen are shown: not at all (as published), or as their one line."""
    must_keep: tuple[ChunkId, ...] = ()
    """Chunks that are always chosen, by id; one that does not exist yet, or is still recent, asks for nothing."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What a selector chooses from: the M old chunks, oldest first.

    ``scores`` (M,) cosines, 0 for a chunk without a key, and ``relevance`` (M,) their positive part. With no positive
    cosine at all ``recency`` is set, and both are the rank by age, newest 1. ``costs`` (M,) what choosing a chunk costs
    within ``room`` tokens. ``kept`` rows that must be chosen; they fit in ``room``.
    """

    pool: Pool
    scores: FloatArray
    relevance: FloatArray
    recency: bool
    costs: IntArray
    room: int
    kept: IntArray
    rest: Level | None


def offered(given: PlanInput, config: SelectorConfig) -> Offer:
    """The offer of a step."""
    pool = given.pool
    count = len(pool)
    scores = np.nan_to_num(pool.cosines, nan=0.0, posinf=0.0, neginf=0.0)
    recency = not (scores > 0).any()
    if recency:
        scores = np.arange(1, count + 1, dtype=np.float64) / max(1, count)
    kept = np.unique(np.array([int(name[1:]) - 1 for name in config.must_keep], dtype=np.int64))
    kept = kept[kept < count]
    room = given.budget - given.fixed_tokens - given.recent_tokens
    costs, base = _prices(given, config.rest, room)
    # must-keep that does not fit is named by the fit, which knows what else could give way
    room = max(room - base, int(costs[kept].sum()))
    rest = Level.PLACEHOLDER if config.rest == "placeholder" else None
    return Offer(pool, scores, np.maximum(scores, 0.0), recency, costs, room, kept, rest)


def _prices(given: PlanInput, rest: str, room: int) -> tuple[IntArray, int]:
    """What choosing each chunk costs, and what the rest costs before any is chosen. Lines that take too much are
    folded: then every chunk chosen may split a range."""
    pool = given.pool
    full = pool.tokens[:, Level.FULL]
    if given.ledger_base:
        return full, ledger_tokens(pool, given.ledger_base)[0]
    if rest == "hidden" or not len(pool):
        return full, 0
    lines = pool.tokens[:, Level.PLACEHOLDER]
    if int(lines.sum()) <= _LINES_SHARE * room:
        return full - lines, int(lines.sum())
    return full + RANGE_TOKENS, RANGE_TOKENS


def planned(
    offer: Offer, chosen: IntArray, *, objective: float | None = None, upper_bound: float | None = None
) -> ContextPlan:
    """The plan that shows the rows ``chosen`` in full, in time order whatever their order here."""
    count = len(offer.pool)
    levels = np.full(count, HIDDEN if offer.rest is None else int(offer.rest), dtype=np.int8)
    levels[chosen] = int(Level.FULL)
    kept: BoolArray = np.zeros(count, dtype=np.bool_)
    kept[offer.kept] = True
    return ContextPlan(
        levels,
        offer.relevance,
        ceiling=Level.PLACEHOLDER,
        upper_bound=upper_bound,
        objective=objective,
        reasons={int(offer.pool.ids[row]): "must-keep" for row in offer.kept},
        kept=kept,
    )


def shortlist(offer: Offer, limit: int = SHORTLIST) -> IntArray:
    """Rows (<= limit + must-keep,), ascending: all, or the most relevant, the newer among equals, and must-keep."""
    count = len(offer.pool)
    if count <= limit:
        return np.arange(count)
    order = np.lexsort((-np.arange(count), -offer.scores))
    return np.union1d(order[:limit], offer.kept)


def keys_of(pool: Pool, rows: IntArray) -> KeyArray:
    """(k, dim) keys of ``rows``; one that is not finite counts as none, and is zero.

    Raises ValueError for a pool without keys.
    """
    if pool.keys is None:
        raise ValueError("this policy needs the keys of the pool")
    keys = pool.keys if len(rows) == len(pool) else pool.keys[rows]
    finite = np.isfinite(keys.sum(axis=1)) if len(keys) else np.zeros(0, dtype=np.bool_)
    if not finite.all():
        keys = np.where(finite[:, None], keys, np.float32(0))
    return keys

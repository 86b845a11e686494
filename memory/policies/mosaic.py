"""Mosaic: both papers as one optimiser: which old chunk at which resolution covers what the next step needs best.

Value of a plan: F(S) = sum_i r_i * max_{(j, g) in S} phi_jg * c_ij, with r_i the chunk's value for the next step (a
scorer of `memory.scoring`), phi the fidelity of a level and c_ij = (1 - c) [i = j] + c * max(0, cos_ij). It is monotone
submodular over (chunk, level); `memory.selection.levels` maximises it. What is claimed there holds for the shortlist
and for this plan alone: `memory.fit`, holding the focus still between batches, and range lines come after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from memory.fit import level_fidelity
from memory.layout import RANGE_TOKENS, ledger_tokens
from memory.plan import HIDDEN, BoolArray, ContextPlan, FloatArray, IntArray, LevelArray, PlanInput, Pool
from memory.policies.alike import Alike
from memory.policies.base import PolicyBase
from memory.records import Level
from memory.scoring.learned import Coefficients, learned_values
from memory.scoring.relations import Sources, with_relatives
from memory.scoring.subgoals import boundaries
from memory.scoring.values import attention_values
from memory.selection.levels import LevelSelection, select_levels
from memory.selection.similarity import Cosines, Neighbours
from memory.stored import ChunkFacts

_FEWEST = 128
"""Least length of a shortlist."""
_LOOK_BACK = 256
"""Newest chunks among which the running subgoal is looked for."""
_ALIKE = 512
"""Longest shortlist whose similarities are computed."""


class MosaicConfig(BaseModel):
    """How chunks are valued and what the optimiser may spend."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    scorer: Literal["attention", "learned"] = "attention"
    """``attention``: PACE's weights, calibrated, with recency. ``learned``: the model of ``coefficients``."""
    coefficients: Coefficients | None = None
    """Of the learned scorer."""
    tau: float = Field(0.3, gt=0)
    """Attention: softmax temperature, in units of the cosines' measured spread."""
    recency: float = Field(0.5, ge=0)
    """Attention: a chunk of age a is worth a ** -recency of the newest."""
    damping: float = Field(0.05, ge=0, le=1)
    """c: how much a chunk is covered by others like it."""
    sharpness: float = Field(2.0, gt=0)
    """Exponent of measured fidelity: above 1 a half-kept text counts as less than half."""
    placeholder: float = Field(0.02, ge=0, le=1)
    """Fidelity of a placeholder."""
    lines: float = Field(0.1, ge=0, le=1)
    """Share of the room for old chunks that lines of unselected ones may take (interleaved layout)."""
    slack: float = Field(0.05, ge=0, lt=1)
    """Ledger layout: share of the budget left free for what is promoted between two batches."""
    shortlist: int = Field(2000, ge=16, le=10_000)
    """Most chunks that the optimiser looks at; fewer where the budget cannot hold so many."""
    relations: float = Field(0.0, ge=0, le=1)
    """When a fact is looked up, a chunk is worth at least this share of the best one of its source, and half of that
    of its neighbours in time."""
    boundary: float = Field(0.0, ge=0, le=1)
    """Share of their value that the steps of finished subgoals lose."""
    uncertainty: float = Field(0.0, ge=0, le=1)
    """How much less a level is worth for what it may have lost: phi * (1 - uncertainty * (1 - phi))."""
    auto_glimpse: float = Field(0.0, ge=0, le=1)
    """Restore one chunk a step in full if more than this share of all value is lost in how it is shown. 0: off."""

    @model_validator(mode="after")
    def _has_coefficients(self) -> MosaicConfig:
        if self.scorer == "learned" and self.coefficients is None:
            raise ValueError("the learned scorer needs coefficients")
        return self


@dataclass(frozen=True, slots=True)
class _Room:
    """Tokens for text above PLACEHOLDER, and what the lines of the rest may take beside it."""

    text: int
    lines: int


class Mosaic(PolicyBase):
    """The optimiser over (chunk, resolution)."""

    name = "mosaic"
    needs = frozenset({"lexical", "keys", "fidelity", "kinds"})

    def __init__(self, config: MosaicConfig | None = None) -> None:
        self.config = config or MosaicConfig.model_validate({})
        if self.config.scorer != "learned":
            self.needs = type(self).needs - {"lexical"}
        self._sources = Sources()
        self._alike = Alike()

    def ingest(self, facts: ChunkFacts) -> None:
        """Note where the chunk came from."""
        self._sources.add(facts)

    def plan(self, given: PlanInput) -> ContextPlan:
        """O(M log M) to value and shortlist, then the optimiser over the shortlist."""
        pool = given.pool
        count = len(pool)
        if not count:
            return ContextPlan(np.zeros(0, dtype=np.int8), np.zeros(0))
        values = self.values(pool, first_own(given))
        if given.still:
            return ContextPlan(np.full(count, int(Level.PLACEHOLDER), dtype=np.int8), values, folds=True)
        room = self._room(given)
        rows = shortlist(values, given.shown, min(self.config.shortlist, _enough(pool, room.text)))
        phi, costs = self._fidelity(pool, rows), _costs(pool, rows)
        similarity = self._similarity(pool, rows)

        def chosen(floor: IntArray | None = None) -> LevelSelection:
            limit = max(0, room.text)
            return select_levels(values[rows], phi, costs, similarity, limit, damping=self.config.damping, floor=floor)

        found = chosen()
        reasons: dict[int, str] = {}
        lost = self._most_lost(values[rows], phi, costs, found.levels, values.sum(), room.text)
        if lost is not None:
            floor = np.zeros(len(rows), dtype=np.int64)
            floor[lost] = Level.FULL
            found = chosen(floor)
            reasons[int(pool.ids[rows[lost]])] = "restored: much of its value was lost in how it was shown"
        levels = np.full(count, int(Level.PLACEHOLDER), dtype=np.int8)
        levels[rows] = _present(found.levels, pool, rows)
        if given.ledger_base == 0:
            levels = with_lines(levels, pool, room.lines + max(0, room.text - found.cost))
        return ContextPlan(
            levels, values, folds=True, upper_bound=found.upper_bound, objective=found.objective, reasons=reasons
        )

    def values(self, pool: Pool, own: int = 0) -> FloatArray:
        """r (M,), mean 1. ``own``: first row of the running task."""
        config = self.config

        def relate(values: FloatArray) -> FloatArray:
            groups = self._sources.groups(len(values)) if config.relations else np.zeros(0, dtype=np.int64)
            return with_relatives(values, groups, config.relations)

        if config.scorer == "learned" and config.coefficients is not None:
            # what a running task takes from its own steps is not catching: it costs small budgets recall
            values = learned_values(pool, config.coefficients, own, relate)
        else:
            values = relate(attention_values(pool.cosines, config.tau, config.recency))
        return self._without_finished(values, pool) if config.boundary else values

    def _without_finished(self, values: FloatArray, pool: Pool) -> FloatArray:
        """Less for the steps of finished subgoals."""
        if pool.keys is None:
            return values
        first = max(0, len(values) - _LOOK_BACK)
        ends = boundaries(pool.keys[first:], None if pool.kinds is None else pool.kinds[first:])
        values = values.copy()
        values[: first + ends[-1] if ends else 0] *= 1 - self.config.boundary
        return values

    def _most_lost(
        self, values: FloatArray, phi: FloatArray, costs: IntArray, levels: LevelArray, whole: float, room: int
    ) -> int | None:
        """The chunk that loses most in how it is shown, if that is much and it fits in full."""
        if not self.config.auto_glimpse or not len(values):
            return None
        lost = values * (1 - phi[np.arange(len(values)), levels])
        lost[costs[:, Level.FULL] > room] = 0.0
        most = int(lost.argmax())
        return most if lost[most] > self.config.auto_glimpse * whole else None

    def _room(self, given: PlanInput) -> _Room:
        around = given.fixed_tokens + given.recent_tokens
        if given.ledger_base == 0:
            room = max(0, given.budget - around)
            lines = int(self.config.lines * room)
            return _Room(room - lines, lines)
        room = max(0, int(given.budget * (1 - self.config.slack)) - around)
        ledger = ledger_tokens(given.pool, given.ledger_base)[0]
        if ledger > self.config.lines * room:
            # `fit` folds the ledger tighter before it takes any text away
            ledger = ledger_tokens(given.pool, 1)[0]
        return _Room(room - ledger, 0)

    def _similarity(self, pool: Pool, rows: IntArray) -> Cosines | Neighbours:
        """Of the shortlist. Where the room holds so much, what is like a chunk is shown anyway: none is looked at."""
        if pool.keys is None or self.config.damping == 0 or len(rows) > _ALIKE:
            empty = np.zeros(0)
            return Neighbours.from_csr(np.zeros(len(rows) + 1, dtype=np.int64), empty, empty)
        return self._alike.cosines(pool.keys, rows)

    def _fidelity(self, pool: Pool, rows: IntArray) -> FloatArray:
        phi = level_fidelity(pool)[rows] ** self.config.sharpness
        phi *= 1 - self.config.uncertainty * (1 - phi)
        phi[:, Level.PLACEHOLDER] = np.minimum(self.config.placeholder, phi[:, Level.BRIEF])
        phi[:, Level.FULL] = 1.0
        return phi


def first_own(given: PlanInput) -> int:
    """First row of the running task; M where all old chunks are of earlier ones."""
    return int(np.searchsorted(given.pool.ids, given.task_from))


def shortlist(values: FloatArray, shown: LevelArray | None, limit: int) -> IntArray:
    """Rows (<= about limit,), ascending: the most valuable, an eighth of the newest, and what was shown above
    PLACEHOLDER a step before, the most valuable of it first."""
    count = len(values)
    if count <= limit:
        return np.arange(count)
    recent = limit // 8
    chosen: BoolArray = np.zeros(count, dtype=np.bool_)
    chosen[count - recent :] = True
    if shown is not None:
        held = np.flatnonzero(shown[:count] > int(Level.PLACEHOLDER))
        chosen[held[np.argsort(-values[held], kind="stable")[: limit // 4]]] = True
    left = limit - int(chosen.sum())
    rest = np.flatnonzero(~chosen)
    best = rest[np.argpartition(-values[rest], left)[:left]] if left < len(rest) else rest
    chosen[best] = True
    return np.flatnonzero(chosen)


def with_lines(levels: LevelArray, pool: Pool, room: int) -> LevelArray:
    """The levels with as many of the placeholders as ``room`` pays for, folded where that is cheaper: the longest runs
    first. The others are HIDDEN; their ids say that they are there."""
    coarse = levels == Level.PLACEHOLDER
    if not coarse.any():
        return levels
    starts = np.flatnonzero(coarse & ~np.concatenate(([False], coarse[:-1])))
    ends = np.flatnonzero(coarse & ~np.concatenate((coarse[1:], [False]))) + 1
    sums = np.concatenate(([0], np.cumsum(np.where(coarse, pool.tokens[:, Level.PLACEHOLDER], 0))))
    cost = np.minimum(sums[ends] - sums[starts], RANGE_TOKENS)
    order = np.lexsort((-starts, -(ends - starts)))
    paid = np.cumsum(cost[order]) <= room
    result = levels.copy()
    for run in order[~paid]:
        result[starts[run] : ends[run]] = HIDDEN
    return result


def _costs(pool: Pool, rows: IntArray) -> IntArray:
    """(n, 4) tokens of a chunk's text above its line, which is paid for apart."""
    costs = pool.tokens[rows].copy()
    costs[:, Level.PLACEHOLDER] = 0
    return costs


def _present(levels: LevelArray, pool: Pool, rows: IntArray) -> LevelArray:
    """An absent level stands for the next finer one that is there, at the same price."""
    result = levels.copy()
    for level in (Level.BRIEF, Level.DETAILED):
        absent = (result == level) & ~pool.available[rows, level]
        result[absent] = level + 1
    return result


def _enough(pool: Pool, room: int) -> int:
    """How many chunks could come into question: several times as many as the room holds."""
    mean = max(1.0, float(pool.tokens[:, Level.DETAILED].mean()))
    return max(_FEWEST, int(3 * room / mean))

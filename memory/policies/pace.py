"""PACE: every old chunk at the resolution that its predicted relevance to the next action earns."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, field_validator

from memory.plan import ContextPlan, FloatArray, LevelArray, PlanInput
from memory.policies.base import PolicyBase
from memory.records import Level
from memory.scoring.attention import BASE_THRESHOLDS, assign_levels, calibrated, relative_weights, thresholds
from memory.scoring.pressure import pressure

LevelName = Literal["full", "detailed", "brief", "placeholder"]


class PaceConfig(BaseModel):
    """Constants of PACE. The defaults are the paper's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tau: float = Field(0.3, gt=0)
    """Softmax temperature; 1.0 is the paper's ablation without it."""
    lam: float = Field(0.5, ge=0, alias="lambda")
    """Strength of pressure on the thresholds."""
    thresholds: tuple[float, float, float] = BASE_THRESHOLDS
    """alpha, beta, gamma at zero pressure."""
    t_max: int = Field(200, gt=0)
    """T_max, steps: the 95th percentile of task lengths of a benchmark."""
    pressure: bool = True
    """Off is the paper's ablation."""
    levels: tuple[LevelName, ...] = ("full", "detailed", "brief", "placeholder")
    """Levels in use; a level not in use becomes the next coarser one that is."""
    calibrate: bool = False
    """Stretch cosines to `reference_spread` before the softmax."""
    reference_spread: float = Field(0.1, gt=0)

    @field_validator("thresholds")
    @classmethod
    def _ascending(cls, value: tuple[float, float, float]) -> tuple[float, float, float]:
        if not 0 <= value[0] <= value[1] <= value[2]:
            raise ValueError("thresholds must ascend: alpha <= beta <= gamma, none below 0")
        return value

    @field_validator("levels")
    @classmethod
    def _has_placeholder(cls, value: tuple[LevelName, ...]) -> tuple[LevelName, ...]:
        if "placeholder" not in value:
            raise ValueError("levels must contain 'placeholder': it is what everything can fall back to")
        return value


class Pace(PolicyBase):
    """The policy of the paper, exactly; deviations are options of `PaceConfig` and off by default."""

    name = "pace"

    def __init__(self, config: PaceConfig | None = None) -> None:
        self.config = config or PaceConfig.model_validate({})
        self._coarsen = _coarsening(self.config.levels)

    def plan(self, given: PlanInput) -> ContextPlan:
        """O(M): weights, thresholds, levels; then missing summaries by what the budget leaves (section 3.4)."""
        config = self.config
        squeeze = pressure(given.step, config.t_max, given.previous_tokens, given.budget) if config.pressure else 0.0
        limits = thresholds(squeeze, config.lam, config.thresholds)
        scores = given.pool.cosines
        if config.calibrate:
            scores = calibrated(scores, config.reference_spread)
        weights = relative_weights(scores, config.tau)
        wanted = self._coarsen[assign_levels(weights, limits)]
        levels = fill_missing(wanted, weights, given)
        ceiling = max(Level[name.upper()] for name in config.levels)
        return ContextPlan(levels, weights, squeeze, limits, ceiling)


def fill_missing(wanted: LevelArray, weights: FloatArray, given: PlanInput) -> LevelArray:
    """Chunks whose wanted summary is absent: FULL if the budget allows it once everything else is placed (most
    relevant first, newer first among equals), else PLACEHOLDER. The loop never waits for a summary."""
    pool = given.pool
    missing = np.zeros(len(pool), dtype=np.bool_)
    for level in (Level.BRIEF, Level.DETAILED):
        missing |= (wanted == level) & ~pool.available[:, level]
    if not missing.any():
        return wanted
    levels = np.where(missing, np.int8(Level.PLACEHOLDER), wanted).astype(np.int8)
    spare = given.budget - given.fixed_tokens - given.recent_tokens - int(pool.tokens_at(levels).sum())
    newest_first = np.flatnonzero(missing)[::-1]
    rows = newest_first[np.argsort(-weights[newest_first], kind="stable")]
    extras = pool.tokens[rows, Level.FULL] - pool.tokens[rows, Level.PLACEHOLDER]
    least_from = np.minimum.accumulate(extras[::-1])[::-1]
    for row, extra, least in zip(rows.tolist(), extras.tolist(), least_from.tolist(), strict=True):
        if least > spare:
            break
        if extra <= spare:
            levels[row] = Level.FULL
            spare -= extra
    return levels


def _coarsening(names: tuple[LevelName, ...]) -> LevelArray:
    """Lookup (4,): a level -> the finest level in use that is not finer."""
    used = {int(Level[name.upper()]) for name in names}
    return np.array([max(u for u in used if u <= level) for level in range(4)], dtype=np.int8)

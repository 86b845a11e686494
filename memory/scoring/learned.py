"""What an old chunk is worth for the next step, learned: logistic models on a handful of features.

A model says how likely it is that the next step needs something of a chunk. There are two sorts of need. The running
task needs what its own steps brought, mostly rich ones (`step`); a question needs a fact again that may stand anywhere,
and singles its chunk out by what it says (`lookup`). Dialogue turns have a model of their own (`turn`). All are fitted
by `longstride fit-profile`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from memory.plan import BoolArray, FloatArray, Pool
from memory.records import Level
from memory.scoring.values import scaled_to_mean_one

ModelName: TypeAlias = Literal["step", "lookup", "turn"]
MODELS: tuple[ModelName, ...] = ("step", "lookup", "turn")

FEATURES: tuple[str, ...] = (
    "cosine",
    "lexical",
    "cosine_x_lexical",
    "cosine_rank",
    "lexical_rank",
    "age",
    "tokens",
    "pool",
)
"""z-scored cosine and BM25, their product, logarithms of both ranks, of age, of FULL tokens and of the pool's size."""

LOOKUP_SHARE = 0.05
"""Least share of the value that facts of any age keep while a task runs."""
_FAR = 128
"""Ages and pools beyond this count as this: recorded runs are no longer, and what was fitted must not be extended."""
_CLIP = 6.0
"""Bound of a z-score: one page that repeats the question must not leave every other one at nothing."""
_RANKED, _BINS = 4096, 1024
_FLAT = 1e-9
"""Spread below which scores say nothing."""
_STEEP = 30.0
"""Bound of a logit."""


class KindCoefficients(BaseModel):
    """The model of one kind: ``intercept`` and one weight for each of `FEATURES`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    intercept: float = Field(allow_inf_nan=False)
    weights: dict[str, float]

    @model_validator(mode="after")
    def _complete(self) -> KindCoefficients:
        if set(self.weights) != set(FEATURES):
            raise ValueError(f"weights must name exactly {', '.join(FEATURES)}")
        if not all(np.isfinite(list(self.weights.values()))):
            raise ValueError("weights must be finite")
        return self

    def vector(self) -> FloatArray:
        """(len(FEATURES),) weights in order."""
        return np.array([self.weights[name] for name in FEATURES])


class Gate(BaseModel):
    """How far the best chunk must stand out (z-score of its cosine) before a context counts as a lookup."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    midpoint: float = Field(3.0, allow_inf_nan=False)
    slope: float = Field(4.0, gt=0, allow_inf_nan=False)

    def share(self, cosines: FloatArray) -> float:
        """How much of a lookup the context is, in [0, 1]. Among few chunks none can stand out."""
        scores = np.nan_to_num(cosines, nan=0.0)
        spread = float(scores.std()) if len(scores) else 0.0
        if spread < _FLAT:
            return 0.0
        best = float(scores.max() - scores.mean()) / spread
        return float(1.0 / (1.0 + np.exp(np.clip(-self.slope * (best - self.midpoint), -_STEEP, _STEEP))))


class Coefficients(BaseModel):
    """A fitted scorer as it stands in ``configs/scorers``.

    ``fitted_on``: SHA-256 (hex) of the examples it was fitted on; ``hash``: of everything in it (`digest`), so that a
    file edited by hand does not pass for a fitted one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    fitted_on: str
    hash: str
    gate: Gate
    step: KindCoefficients
    lookup: KindCoefficients
    turn: KindCoefficients

    @model_validator(mode="after")
    def _unchanged(self) -> Coefficients:
        actual = digest(self.fitted_on, self.gate, {"step": self.step, "lookup": self.lookup, "turn": self.turn})
        if self.hash != actual:
            raise ValueError(f"the hash of the coefficients is {actual}, not {self.hash}: refit, or correct it")
        return self


def digest(fitted_on: str, gate: Gate, models: Mapping[ModelName, KindCoefficients]) -> str:
    """SHA-256 (hex) of a scorer with what it was fitted on."""
    body = {name: [model.intercept, *model.vector().tolist()] for name, model in models.items()}
    text = json.dumps([fitted_on, gate.midpoint, gate.slope, body], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def features(cosines: FloatArray, lexical: FloatArray, tokens: FloatArray) -> FloatArray:
    """(M, len(FEATURES)) of M old chunks, oldest first; ``tokens`` (M,) of their FULL texts."""
    count = len(cosines)
    cosine, words = _z(np.nan_to_num(cosines, nan=0.0)), _z(np.nan_to_num(lexical, nan=0.0))
    columns = (
        cosine,
        words,
        cosine * words,
        _log_rank(cosines),
        _log_rank(lexical),
        np.log(np.minimum(np.arange(count, 0, -1, dtype=np.float64), _FAR)),
        np.log(np.maximum(tokens, 1.0)),
        np.full(count, np.log(min(max(count, 1), _FAR))),
    )
    return np.stack(columns, axis=1)


def learned_values(
    pool: Pool, given: Coefficients, own: int = 0, relate: Callable[[FloatArray], FloatArray] = lambda values: values
) -> FloatArray:
    """(M,) probability times the square root of the chunk's tokens, mean 1.

    ``own``: first row of the running task. What it needs next is looked for among its own steps; facts are looked up
    among all, and ``relate`` carries their values over to related chunks. A long chunk may hold several needed things,
    but not in proportion to its length. Without BM25 all of its features are 0.
    """
    count = len(pool)
    lexical = np.zeros(count) if pool.lexical is None else pool.lexical
    size = pool.tokens[:, Level.FULL].astype(np.float64)
    root = np.sqrt(size)
    rows = features(pool.cosines, lexical, size)
    turns = _turns(pool.kinds, count)
    asked = np.where(turns, _at(rows, given.turn), _at(rows, given.lookup)) * root
    asked = scaled_to_mean_one(relate(asked))
    if own >= count or turns.all():
        return asked
    lookup = max(LOOKUP_SHARE, given.gate.share(pool.cosines[own:]))
    mine = rows if own == 0 else features(pool.cosines[own:], lexical[own:], size[own:])
    step = np.zeros(count)
    step[own:] = np.where(turns[own:], _at(mine, given.turn), _at(mine, given.step)) * root[own:]
    return scaled_to_mean_one((1 - lookup) * scaled_to_mean_one(step) + lookup * asked)


def _turns(kinds: Sequence[str] | None, count: int) -> BoolArray:
    """(count,) which records are dialogue turns."""
    if kinds is None or "turn" not in kinds:
        return np.zeros(count, dtype=np.bool_)
    return np.fromiter((kind == "turn" for kind in kinds), dtype=np.bool_, count=count)


def _at(rows: FloatArray, model: KindCoefficients) -> FloatArray:
    """(n,) probabilities."""
    logits = model.intercept + rows @ model.vector()
    result: FloatArray = 1.0 / (1.0 + np.exp(-np.clip(logits, -_STEEP, _STEEP)))
    return result


def _z(values: FloatArray) -> FloatArray:
    spread = float(values.std()) if len(values) else 0.0
    if spread < _FLAT:
        return np.zeros(len(values))
    result: FloatArray = np.clip((values - values.mean()) / spread, -_CLIP, _CLIP)
    return result


def _log_rank(values: FloatArray) -> FloatArray:
    """log of the rank from the top, from 1; equal values share their best rank.

    Exact for the first `_RANKED`; below them by bins, since sorting a hundred thousand scores would cost more than
    computing them.
    """
    scores = -np.nan_to_num(values, nan=-np.inf, posinf=np.inf, neginf=-np.inf)
    count = len(scores)
    if count <= _RANKED:
        exact: FloatArray = np.log(np.searchsorted(np.sort(scores), scores, side="left") + 1.0)
        return exact
    best = np.sort(np.partition(scores, _RANKED)[: _RANKED + 1])
    ranks = np.full(count, _RANKED + 1.0)
    inside = scores <= best[-1]
    ranks[inside] += np.searchsorted(best, scores[inside], side="left") - _RANKED
    rest = scores[~inside]
    known = np.isfinite(rest)
    low, high = (float(rest[known].min()), float(rest[known].max())) if known.any() else (0.0, 0.0)
    width = max(high - low, 1e-12) / _BINS
    bins = np.full(len(rest), _BINS)
    bins[known] = np.minimum((rest[known] - low) / width, _BINS - 1).astype(np.int64)
    before = np.concatenate(([0], np.cumsum(np.bincount(bins, minlength=_BINS + 1))[:-1]))
    ranks[~inside] += int(inside.sum()) - _RANKED + before[bins]
    result: FloatArray = np.log(ranks)
    return result

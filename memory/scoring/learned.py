"""What an old chunk is worth for the next step, learned: a logistic model on a handful of features.

The model says how likely it is that the next step needs something of the chunk; it is fitted on recorded runs and
memory questions (`longstride fit-profile`). One set of coefficients for each kind of record.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from memory.plan import FloatArray, Pool
from memory.records import Level

RecordKind: TypeAlias = Literal["step", "turn"]
"""``step``: what an agent did and saw. ``turn``: what was said in a dialogue."""

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

_CLIP = 6.0
"""Bound of a z-score: one page that repeats the question must not leave every other one at nothing."""


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


class Coefficients(BaseModel):
    """A fitted scorer as it stands in ``configs/scorers``.

    ``fitted_on``: SHA-256 (hex) of the data it was fitted on; ``hash``: of the coefficients themselves (`digest`), so
    that a file edited by hand does not pass for a fitted one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    fitted_on: str
    hash: str
    step: KindCoefficients
    turn: KindCoefficients

    @model_validator(mode="after")
    def _unchanged(self) -> Coefficients:
        if self.hash != (actual := digest(self.fitted_on, {"step": self.step, "turn": self.turn})):
            raise ValueError(f"the hash of the coefficients is {actual}, not {self.hash}: refit, or correct it")
        return self


def digest(fitted_on: str, kinds: Mapping[RecordKind, KindCoefficients]) -> str:
    """SHA-256 (hex) of coefficients with what they were fitted on."""
    body = {kind: [found.intercept, *found.vector().tolist()] for kind, found in kinds.items()}
    return hashlib.sha256(json.dumps([fitted_on, body], sort_keys=True).encode()).hexdigest()


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
        np.log(np.arange(count, 0, -1, dtype=np.float64)),
        np.log(np.maximum(tokens, 1.0)),
        np.full(count, np.log(max(count, 1))),
    )
    return np.stack(columns, axis=1)


def kind_rows(kinds: Sequence[str] | None, count: int) -> FloatArray:
    """(count,) 1 where the record is a dialogue turn, else 0."""
    if kinds is None:
        return np.zeros(count)
    return np.array([kind == "turn" for kind in kinds], dtype=np.float64)


def probabilities(pool: Pool, given: Coefficients) -> FloatArray:
    """(M,) how likely the next step needs something of each chunk. Without BM25 all of its features are 0."""
    count = len(pool)
    lexical = np.zeros(count) if pool.lexical is None else pool.lexical
    rows = features(pool.cosines, lexical, pool.tokens[:, Level.FULL].astype(np.float64))
    turn = kind_rows(pool.kinds, count)
    step_logits = given.step.intercept + rows @ given.step.vector()
    logits = step_logits
    if turn.any():
        turn_logits = given.turn.intercept + rows @ given.turn.vector()
        logits = np.where(turn > 0, turn_logits, step_logits)
    result: FloatArray = 1.0 / (1.0 + np.exp(-np.clip(logits, -30.0, 30.0)))
    return result


def learned_values(pool: Pool, given: Coefficients) -> FloatArray:
    """(M,) probability times the square root of the chunk's tokens: a long chunk may hold several needed things, but
    not in proportion to its length."""
    result: FloatArray = probabilities(pool, given) * np.sqrt(pool.tokens[:, Level.FULL])
    return result


def _z(values: FloatArray) -> FloatArray:
    spread = float(values.std()) if len(values) else 0.0
    if spread < 1e-9:
        return np.zeros(len(values))
    result: FloatArray = np.clip((values - values.mean()) / spread, -_CLIP, _CLIP)
    return result


def _log_rank(values: FloatArray) -> FloatArray:
    """log of the rank from the top, from 1; equal values share their best rank."""
    scores = np.nan_to_num(values, nan=-np.inf)
    ordered = np.sort(-scores)
    ranks: FloatArray = np.log(np.searchsorted(ordered, -scores, side="left") + 1.0)
    return ranks

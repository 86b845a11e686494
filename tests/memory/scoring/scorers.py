"""Scorers for tests, hashed as fitted ones are."""

from __future__ import annotations

from collections.abc import Mapping

from memory.scoring.learned import FEATURES, Coefficients, Gate, KindCoefficients, ModelName, digest


def model(intercept: float = 0.0, **weights: float) -> KindCoefficients:
    return KindCoefficients(intercept=intercept, weights=dict.fromkeys(FEATURES, 0.0) | weights)


def scorer(
    *, step: KindCoefficients, lookup: KindCoefficients, turn: KindCoefficients, gate: Gate | None = None
) -> Coefficients:
    gate = gate or Gate(midpoint=3.0, slope=4.0)
    models: Mapping[ModelName, KindCoefficients] = {"step": step, "lookup": lookup, "turn": turn}
    return Coefficients(
        fitted_on="by hand",
        hash=digest("by hand", gate, models),
        gate=gate,
        step=step,
        lookup=lookup,
        turn=turn,
    )


RICH = model(-2.0, tokens=0.2)
"""Longer chunks are likelier."""
SAID = model(-4.0, cosine=1.0, lexical=0.5)
"""What says the same is likelier."""

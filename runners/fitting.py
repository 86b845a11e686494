"""Refitting the learned scorer (`memory.scoring.learned`) on recorded runs, planted facts and dialogues.

Numpy only, deterministic: the same examples in the same order give the same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from memory.plan import BoolArray, FloatArray
from memory.scoring.learned import FEATURES, MODELS, Coefficients, Gate, KindCoefficients, ModelName, digest
from runners.errors import UsageFault

RIDGE = 1e-3
"""Penalty on the weights of standardised features."""
_ROUNDS, _STILL = 60, 1e-10
DIGITS = 4
"""Decimals kept of a coefficient: more would only be noise."""
GATE_RIDGE = 1e-3
FOLDS = 5
"""Of the units of a family that has no other to be judged by."""


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """One context. ``rows`` (M, len(FEATURES)); ``needed`` (M,) what the next step took from; ``unit`` is what is held
    out together (a run, a question); ``peak``: z-score of the best cosine, unclipped."""

    family: str
    unit: str
    model: ModelName
    rows: FloatArray
    needed: BoolArray
    peak: float


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A family judged by a model that has not seen it (``against`` says what it was fitted on). ``ranking``: mean over
    contexts of the chance that a needed chunk ranks above one that is not; ``alone``: the same for the cosine."""

    model: ModelName
    family: str
    against: str
    contexts: int
    units: int
    ranking: float
    alone: float


@dataclass(frozen=True, slots=True)
class Fitted:
    """The scorer, how it does on what it has not seen, and how many contexts each family gave."""

    coefficients: Coefficients
    held_out: tuple[HeldOut, ...]
    contexts: Mapping[tuple[ModelName, str], int]


def fit(examples: Sequence[Example]) -> Fitted:
    """All models on all examples. Raises UsageFault where there are no contexts of a task, or of no lookup at all."""
    usable = [example for example in examples if example.needed.any() and not example.needed.all()]
    groups: dict[ModelName, list[Example]] = {name: [e for e in usable if e.model == name] for name in MODELS}
    if not groups["step"]:
        raise UsageFault("the recorded runs hold nothing that a later action took from an old step")
    if not groups["lookup"] and not groups["turn"]:
        raise UsageFault("what singles old facts out has to be learned from --multihop or --longmemeval")
    # a kind of record that the data does not have follows the other one's questions about old facts
    groups["lookup"] = groups["lookup"] or groups["turn"]
    groups["turn"] = groups["turn"] or groups["lookup"]
    models = {name: fit_model(group) for name, group in groups.items()}
    gate = fit_gate([*groups["step"], *groups["lookup"]])
    source = examples_hash(usable)
    coefficients = Coefficients(fitted_on=source, hash=digest(source, gate, models), gate=gate, **_by_name(models))
    judged = [row for name in MODELS for row in held_out([e for e in usable if e.model == name])]
    counts: dict[tuple[ModelName, str], int] = {}
    for example in usable:
        counts[example.model, example.family] = counts.get((example.model, example.family), 0) + 1
    return Fitted(coefficients, tuple(judged), counts)


def fit_model(examples: Sequence[Example]) -> KindCoefficients:
    """Logistic regression by Newton's method (IRLS) with a small ridge.

    Families count by the root of their units, their contexts alike, and the chunks of a context alike.
    """
    rows = np.concatenate([example.rows for example in examples])
    needed = np.concatenate([example.needed for example in examples]).astype(np.float64)
    weight = np.concatenate([np.full(len(e.needed), w) for e, w in zip(examples, _weights(examples), strict=True)])
    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    spread[spread < 1e-9] = 1.0
    found = logistic((rows - mean) / spread, needed, weight, RIDGE)
    slopes = np.round(found[1:] / spread, DIGITS)
    intercept = round(float(found[0] - (found[1:] / spread) @ mean), DIGITS)
    return KindCoefficients(intercept=intercept, weights=dict(zip(FEATURES, slopes.tolist(), strict=True)))


def fit_gate(examples: Sequence[Example]) -> Gate:
    """Where contexts of a task end and lookups begin, by how far the best cosine stands out; both sorts count alike."""
    asked = np.array([example.model != "step" for example in examples], dtype=np.float64)
    peaks = np.array([[example.peak] for example in examples])
    weight = np.where(asked > 0, 1 / max(1.0, asked.sum()), 1 / max(1.0, (1 - asked).sum()))
    intercept, slope = logistic(peaks, asked, weight, GATE_RIDGE)
    if slope <= 0:
        raise UsageFault("lookups stand out less than the steps of a task: no gate can be fitted")
    return Gate(midpoint=round(float(-intercept / slope), DIGITS), slope=round(float(slope), DIGITS))


def logistic(rows: FloatArray, needed: FloatArray, weight: FloatArray, ridge: float) -> FloatArray:
    """(1 + d,) intercept and slopes of the weighted logistic regression; the intercept is not penalised."""
    design = np.column_stack([np.ones(len(rows)), rows])
    share = weight / weight.sum()
    penalty = np.eye(design.shape[1]) * ridge
    penalty[0, 0] = 0.0
    found = np.zeros(design.shape[1])
    for _ in range(_ROUNDS):
        odds = 1.0 / (1.0 + np.exp(-np.clip(design @ found, -30.0, 30.0)))
        slope = design.T @ (share * (odds - needed)) + penalty @ found
        curve = (design * np.maximum(share * odds * (1 - odds), 1e-15)[:, None]).T @ design + penalty
        change = np.linalg.solve(curve, slope)
        # far from the optimum a whole Newton step may overshoot
        found = found - change * min(1.0, 5.0 / max(1e-12, float(np.abs(change).max())))
        if float(np.abs(change).max()) < _STILL:
            break
    return found


def held_out(examples: Sequence[Example]) -> Iterator[HeldOut]:
    """Each family judged by the others; where there is only one, each fifth of its units by the rest."""
    families = sorted({example.family for example in examples})
    for family in families:
        own = [example for example in examples if example.family == family]
        others = [example for example in examples if example.family != family]
        if others:
            judged = [(own, fit_model(others))]
            against = ", ".join(name for name in families if name != family)
        else:
            parts: list[tuple[list[Example], list[Example]]] = [([], []) for _ in range(FOLDS)]
            for example in own:
                for part, (inside, outside) in enumerate(parts):
                    (inside if fold_of(example.unit) == part else outside).append(example)
            judged = [(inside, fit_model(outside)) for inside, outside in parts if inside and outside]
            against = "other units of it"
        scored = [(ranking(e, model), ranking(e, None)) for fold, model in judged for e in fold]
        if scored:
            means = np.mean(scored, axis=0)
            units = len({e.unit for e in own})
            yield HeldOut(own[0].model, family, against, len(scored), units, float(means[0]), float(means[1]))


def fold_of(unit: str) -> int:
    """Which fold a unit is in, by its name alone."""
    return hashlib.sha256(unit.encode()).digest()[0] % FOLDS


def ranking(example: Example, model: KindCoefficients | None) -> float:
    """Chance that a needed chunk scores above one that is not (ties count half); None: by the cosine alone."""
    score = example.rows[:, 0] if model is None else example.rows @ model.vector()
    ordered = np.sort(score[~example.needed])
    mine = score[example.needed]
    below = np.searchsorted(ordered, mine, side="left") + np.searchsorted(ordered, mine, side="right")
    return float(below.mean() / 2 / len(ordered))


def examples_hash(examples: Iterable[Example]) -> str:
    """SHA-256 (hex) over everything that is fitted on."""
    found = hashlib.sha256()
    for example in examples:
        found.update(f"{example.family}\0{example.unit}\0{example.model}\0".encode())
        found.update(np.round(example.rows, 6).tobytes() + example.needed.tobytes())
    return found.hexdigest()


def _weights(examples: Sequence[Example]) -> list[float]:
    """Of one chunk of each example."""
    contexts: dict[str, int] = {}
    units: dict[str, set[str]] = {}
    for example in examples:
        contexts[example.family] = contexts.get(example.family, 0) + 1
        units.setdefault(example.family, set()).add(example.unit)
    return [len(units[example.family]) ** 0.5 / contexts[example.family] / len(example.needed) for example in examples]


def _by_name(models: Mapping[ModelName, KindCoefficients]) -> dict[str, KindCoefficients]:
    return {str(name): model for name, model in models.items()}

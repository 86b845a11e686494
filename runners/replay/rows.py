"""From outcomes to the rows of the report; their fields are documented in ``docs/json.md``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median

from runners.replay.samples import Estimate, Sample, estimate, paired
from runners.replay.traffic import Totals
from runners.replay.variants import Variant
from runners.replay.working import Outcome


@dataclass(frozen=True, slots=True)
class ReplayRow:
    """One measure of one variant over one family of runs."""

    family: str
    policy: str
    budget: int
    scope: str
    layout: str
    lam: float | None
    options: dict[str, object]
    measure: str
    stratum: str
    n: int
    value: float
    low: float | None
    high: float | None
    mean_tokens: float
    mean_history_tokens: float
    cached_share: float | None
    cost: float | None
    """US dollars per step."""
    longevity: float | None
    """Median over the runs that ended; null when none did."""
    exhausted: int
    """Runs whose unfitted plan exceeded the budget at some step."""
    unbuilt: int
    over: int
    """Contexts above their budget."""
    assembly_ms: float | None
    """Milliseconds to decide one context; null unless asked for."""
    encoder: str
    cosine_spread: float | None


@dataclass(frozen=True, slots=True)
class DifferenceRow:
    """A variant less the first policy's at the same budget, layout and lambda, over the same units."""

    family: str
    policy: str
    against: str
    budget: int
    layout: str
    lam: float | None
    measure: str
    stratum: str
    n: int
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class SessionRow:
    """How far apart one encoder's cosines are in one session: what PACE's constants are relative to."""

    session: str
    family: str
    encoder: str
    contexts: int
    cosine_spread: float | None


@dataclass(frozen=True, slots=True)
class CurveRow:
    """Size of the context against the step, one session under one variant. ``points``: (step, tokens), thinned."""

    session: str
    family: str
    policy: str
    budget: int
    layout: str
    lam: float | None
    points: tuple[tuple[int, int], ...]


def curve_rows(outcomes: Sequence[Outcome], variants: Sequence[Variant], most: int = 64) -> list[CurveRow]:
    """The curves of up to ``most`` (session, variant) pairs, in order; none where there are more."""
    if len(outcomes) > most:
        return []
    rows = []
    for outcome in sorted(outcomes, key=lambda outcome: outcome.variant):
        variant = variants[outcome.variant]
        layout, points = variant.memory.layout, outcome.totals.curve
        rows.append(
            CurveRow(outcome.session, outcome.family, variant.label, variant.budget, layout, variant.lam, points)
        )
    return rows


def result_rows(outcomes: Sequence[Outcome], variants: Sequence[Variant], encoder: str, seed: int) -> list[ReplayRow]:
    """Rows by family, variant, measure and stratum, in that order."""
    groups: dict[tuple[str, int], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        groups[outcome.family, outcome.variant].append(outcome)
    rows: list[ReplayRow] = []
    for (family, position), group in sorted(groups.items()):
        variant = variants[position]
        traffic = _Traffic(group)
        for (measure, stratum), values in _by_stratum(group).items():
            # the name leaves the variant out: the same resamples for every policy
            found = estimate(list(values.values()), seed, f"{family} {measure} {stratum}")
            rows.append(_row(family, variant, measure, stratum, traffic, encoder, found))
    return rows


def difference_rows(outcomes: Sequence[Outcome], variants: Sequence[Variant], seed: int) -> list[DifferenceRow]:
    """Paired differences from the first policy."""
    groups: dict[tuple[str, int], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        groups[outcome.family, outcome.variant].append(outcome)
    base = variants[0].label
    rows: list[DifferenceRow] = []
    for (family, position), group in sorted(groups.items()):
        variant = variants[position]
        other = _counterpart(variants, variant, base)
        if variant.label == base or other is None:
            continue
        theirs = _by_stratum(groups.get((family, other), []))
        for (measure, stratum), values in _by_stratum(group).items():
            found = paired(values, theirs.get((measure, stratum), {}), seed, f"{family} {measure} {stratum}")
            if found is not None:
                rows.append(
                    DifferenceRow(
                        family,
                        variant.label,
                        base,
                        variant.budget,
                        variant.memory.layout,
                        variant.lam,
                        measure,
                        stratum,
                        **asdict(found),
                    )
                )
    return rows


def session_rows(outcomes: Sequence[Outcome], encoder: str) -> list[SessionRow]:
    """The spread of every session, from its first variant."""
    rows: dict[tuple[str, str], SessionRow] = {}
    for outcome in outcomes:
        totals = outcome.totals
        spread = totals.spread / totals.scored if totals.scored else None
        key = (outcome.family, outcome.session)
        rows.setdefault(key, SessionRow(outcome.session, outcome.family, encoder, totals.contexts, spread))
    return list(rows.values())


def _counterpart(variants: Sequence[Variant], variant: Variant, label: str) -> int | None:
    """The first policy's variant at the same budget and layout, and lambda where it has one."""
    near = [
        (other.lam != variant.lam, position)
        for position, other in enumerate(variants)
        if other.label == label and other.budget == variant.budget and other.memory.layout == variant.memory.layout
    ]
    return min(near)[1] if near else None


def _by_stratum(group: Sequence[Outcome]) -> dict[tuple[str, str], dict[str, float]]:
    """(measure, stratum) -> unit -> value, in order of appearance."""
    found: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    samples: list[Sample] = [sample for outcome in group for sample in outcome.samples]
    for sample in samples:
        found[sample.measure, sample.stratum][sample.unit] = sample.value
    return dict(sorted(found.items(), key=lambda item: (item[0][0], stratum_order(item[0][1]))))


def stratum_order(name: str) -> tuple[int, int, str]:
    """``all`` and ``final`` first, then by the number in the name."""
    digits = "".join(char for char in name.partition("-")[0] if char.isdigit())
    return (("all", "final").index(name) if name in ("all", "final") else 2, int(digits or 0), name)


class _Traffic:
    """Totals of a group of runs."""

    def __init__(self, group: Sequence[Outcome]) -> None:
        totals: list[Totals] = [outcome.totals for outcome in group]
        contexts = max(1, sum(total.contexts for total in totals))
        self.mean_tokens = sum(total.tokens for total in totals) / contexts
        self.mean_history_tokens = sum(total.history_tokens for total in totals) / contexts
        rendered = sum(total.rendered or 0 for total in totals)
        cached = sum(total.cached or 0 for total in totals)
        self.cached_share = cached / rendered if rendered else None
        costs = [total.cost for total in totals if total.cost is not None]
        self.cost = sum(costs) / contexts if costs else None
        ended = [total.longevity for total in totals if total.longevity is not None]
        self.longevity = float(median(ended)) if ended else None
        self.exhausted = len(ended)
        seconds = [total.seconds for total in totals if total.seconds is not None]
        self.assembly_ms = 1000 * sum(seconds) / contexts if seconds else None
        self.over = sum(total.over for total in totals)
        self.unbuilt = sum(total.unbuilt for total in totals)
        scored = sum(total.scored for total in totals)
        self.spread = sum(total.spread for total in totals) / scored if scored else None


def _row(
    family: str,
    variant: Variant,
    measure: str,
    stratum: str,
    traffic: _Traffic,
    encoder: str,
    found: Estimate,
) -> ReplayRow:
    return ReplayRow(
        family=family,
        policy=variant.label,
        budget=variant.budget,
        scope=variant.scope,
        layout=variant.memory.layout,
        lam=variant.lam,
        options=dict(variant.options),
        measure=measure,
        stratum=stratum,
        **asdict(found),
        mean_tokens=traffic.mean_tokens,
        mean_history_tokens=traffic.mean_history_tokens,
        cached_share=traffic.cached_share,
        cost=traffic.cost,
        longevity=traffic.longevity,
        exhausted=traffic.exhausted,
        unbuilt=traffic.unbuilt,
        over=traffic.over,
        assembly_ms=traffic.assembly_ms,
        encoder=encoder,
        cosine_spread=traffic.spread,
    )

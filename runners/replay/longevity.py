"""How long a session lasts under a policy: the context against the step, up to the first plan over the budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from memory.summaries.config import SummaryConfig
from runners.replay.engine import Walk
from runners.replay.generator import Endless, Generated, generate
from runners.replay.prepare import Toolkit
from runners.replay.samples import Sample
from runners.replay.traffic import Traffic
from runners.replay.variants import VariantRequest
from runners.replay.working import Job, Outcome, Settings, timed

MEASURE = "longevity"
EVERY, STRIDE = 6_000, 64
"""Every step is planned up to the first number, every so many after it (a multiple of `MemoryConfig.batch`)."""
EVERY_FITTED = 512
"""The first number where plans are made to fit: there is no end to find."""


@dataclass(frozen=True)
class LongevityJob(Job):
    """A generated session under every variant; ``recording`` only names it."""

    given: Generated = field(default_factory=Generated)

    def run(self, tools: Toolkit, settings: Settings) -> list[Outcome]:
        """Each variant is walked until its plan exceeds the budget (overflow ``stop``) or the session ends."""
        runs: dict[SummaryConfig, Endless] = {}
        outcomes = []
        for position, variant in self.variants:
            if variant.summaries not in runs:
                runs[variant.summaries] = generate(self.given, replace(tools, summaries=variant.summaries))
            run = runs[variant.summaries].with_recent(variant.memory.recent)
            traffic = Traffic(run, rendering=False)
            walk = Walk(run, variant)
            last = walked(walk, traffic)
            totals = timed(traffic.totals(), walk, settings)
            samples = (Sample(MEASURE, "steps", self.recording.id, float(totals.longevity or last)),)
            outcomes.append(
                Outcome(position, self.recording.family, self.recording.id, samples, totals, run.encoder_id)
            )
        return outcomes


def walked(walk: Walk, traffic: Traffic) -> int:
    """Walk to the end, or to the first step without a context; the last step planned."""
    step = 0
    for step in steps(len(walk.run), EVERY if walk.variant.memory.overflow == "stop" else EVERY_FITTED):
        shown = walk.step(step)
        traffic.see(shown)
        if shown.decision is None:
            break
    return step


def steps(last: int, every: int = EVERY) -> Iterator[int]:
    """The steps that are planned; the last one is among them."""
    yield from range(1, min(every, last) + 1)
    yield from range(every + STRIDE - every % STRIDE, last, STRIDE)
    if last > every:
        yield last


def published(budgets: Sequence[int], flat: int, profile: str | None, options: Sequence[str]) -> list[VariantRequest]:
    """The runs of the papers' Figure 2 at these budgets, and mosaic inside ``flat`` tokens.

    ``summary-append`` has summaries of up to 1,000 tokens, as the baseline's published lengths imply; ``fold-range``
    folds by rule. All but mosaic end where their unfitted plan exceeds the budget.
    """
    stopped = (*options, "memory.overflow=stop", "memory.spend=false")
    return [
        VariantRequest(["react"], budgets, options=stopped, scope="request", profile=profile),
        VariantRequest(
            ["summary-append"],
            budgets,
            options=(*stopped, "summaries.detailed_tokens=1000"),
            scope="request",
            profile=profile,
        ),
        VariantRequest(["fold-range-auto"], budgets, options=stopped, scope="request", profile=profile),
        VariantRequest(["pace"], budgets, lambdas=(0.5, 1.0), options=stopped, scope="request", profile=profile),
        VariantRequest(["mosaic"], [flat], layouts=["ledger"], options=options, scope="request", profile=profile),
    ]

"""Replaying many recordings under many variants, in processes; the result does not depend on how many."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar

from agent.pricing import ModelPrice
from memory.encoders.cache import CachedEncoder, KeyCache
from memory.encoders.factory import EncoderConfig, make_encoder
from memory.summaries.config import SummaryConfig
from memory.tokens import ScriptCounter
from runners.replay.engine import Walk
from runners.replay.prepare import Toolkit
from runners.replay.recall import StrictRecall
from runners.replay.recording import Recording
from runners.replay.samples import Sample
from runners.replay.sharing import Shared
from runners.replay.targets import Target, targets_of
from runners.replay.traffic import Totals, Traffic
from runners.replay.variants import Variant
from runners.replay.views import ViewCache


@dataclass(frozen=True, slots=True)
class Settings:
    """What every worker needs to know."""

    encoder: EncoderConfig
    cache: Path | None = None
    """Folder of the key cache and of the summaries' (None: neither is kept)."""
    rendering: bool = False
    timing: bool = False
    price: ModelPrice | None = None
    api_key: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """One recording under one variant (by its position)."""

    variant: int
    family: str
    session: str
    samples: tuple[Sample, ...]
    totals: Totals
    encoder: str = ""
    """Id of the encoder that made keys and queries."""


TOKENS = "context_tokens"
Placed: TypeAlias = tuple[int, Variant]
"""A variant with its position in the plan."""


R = TypeVar("R")


class Work(ABC, Generic[R]):
    """Something a worker does with one session; pickled to get there."""

    recording: Recording

    @abstractmethod
    def run(self, tools: Toolkit, settings: Settings) -> R: ...


@dataclass(frozen=True)
class Job(Work[list[Outcome]]):
    """Walks one session under several variants."""

    recording: Recording
    variants: tuple[Placed, ...]

    @abstractmethod
    def run(self, tools: Toolkit, settings: Settings) -> list[Outcome]:
        """One outcome for each variant."""


@dataclass(frozen=True)
class ReplayJob(Job):
    """A recording under every variant. ``recent``: the longest N of all variants, wherever they are worked on; targets
    are the same for all."""

    recent: int = 2

    def run(self, tools: Toolkit, settings: Settings) -> list[Outcome]:
        """Walk it once per variant, with everything else shared."""
        shared = Shared(self.recording, tools)
        targets: dict[SummaryConfig, dict[int, tuple[Target, ...]]] = {}
        outcomes = []
        for position, variant in self.variants:
            run = shared.of(variant)
            if variant.summaries not in targets:
                targets[variant.summaries] = targets_of(shared.at(variant.summaries, self.recent))
            recall = StrictRecall(run, targets[variant.summaries])
            traffic = Traffic(run, rendering=settings.rendering, price=settings.price)
            walk = Walk(run, variant)
            for shown in walk.steps():
                recall.see(shown)
                traffic.see(shown)
            totals = timed(traffic.totals(), walk, settings)
            session = self.recording
            samples = (*recall.samples(), *tokens_sample(totals, session.id))
            outcomes.append(Outcome(position, session.family, session.id, samples, totals, run.encoder_id))
        return outcomes


def tokens_sample(totals: Totals, unit: str) -> list[Sample]:
    """Mean tokens of a context, so that a run with nothing to recall is in the report too."""
    if not totals.contexts:
        return []
    return [Sample(TOKENS, "all", unit, totals.tokens / totals.contexts)]


def timed(totals: Totals, walk: Walk, settings: Settings) -> Totals:
    """The totals, with the time that deciding took when it was asked for."""
    return replace(totals, seconds=walk.seconds) if settings.timing else totals


J = TypeVar("J", bound=Job)


def toolkit(settings: Settings) -> Toolkit:
    """Encoder, caches and counter of one process."""
    cache = KeyCache(settings.cache / "keys.sqlite") if settings.cache else None
    encoder = make_encoder(settings.encoder, api_key=settings.api_key)
    return Toolkit(CachedEncoder(encoder, cache) if cache else encoder, ScriptCounter(), SummaryConfig(), cache)


def run_jobs(
    jobs: Sequence[Job], settings: Settings, workers: int, done: Callable[[int], None] | None = None
) -> list[Outcome]:
    """Every job's outcomes, in the order of the jobs. Where there are fewer jobs than workers, each is shared out by
    variant."""
    outcomes: list[Outcome] = []
    jobs = shared_out(jobs, workers)
    for count, some in enumerate(results(jobs, settings, workers), start=1):
        outcomes.extend(some)
        if done is not None:
            done(count)
    return outcomes


def shared_out(jobs: Sequence[J], workers: int) -> list[J]:
    """The same work in at least ``workers`` jobs, as far as there are variants."""
    parts = -(-workers // max(1, len(jobs)))
    return [
        replace(job, variants=job.variants[at::parts]) for job in jobs for at in range(min(parts, len(job.variants)))
    ]


def results(jobs: Sequence[Work[R]], settings: Settings, workers: int) -> Iterator[R]:
    """What each job gives, in their order, as it comes."""
    if workers <= 1 or len(jobs) <= 1:
        tools = toolkit(settings)
        for job in jobs:
            yield _with_views(job, tools, settings)
        return
    with ProcessPoolExecutor(
        min(workers, len(jobs)), get_context("spawn"), initializer=_start, initargs=(settings, workers)
    ) as pool:
        yield from pool.map(_work, jobs)


_process: list[tuple[Toolkit, Settings]] = []
"""What a worker process loaded once."""


def _start(settings: Settings, workers: int) -> None:
    # read when the encoder's package is loaded: workers that each take every core are in each other's way
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // workers)))
    _process.append((toolkit(settings), settings))


def _work(job: Work[R]) -> R:
    tools, settings = _process[-1]
    return _with_views(job, tools, settings)


def _with_views(job: Work[R], tools: Toolkit, settings: Settings) -> R:
    """A job with its own file of kept summaries."""
    if settings.cache is None:
        return job.run(tools, settings)
    tools.views = ViewCache(settings.cache / "replay", job_name(job))
    outcomes = job.run(tools, settings)
    tools.views.save()
    return outcomes


def job_name(job: Work[R]) -> str:
    """Names the file that a job's summaries are kept in."""
    return f"{job.recording.family}/{job.recording.id}/{len(job.recording.steps)}"

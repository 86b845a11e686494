"""The replay that a command line asks for, from its inputs to its report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.pricing import ModelPrice
from runners.errors import UsageFault
from runners.replay.readers.files import read_files
from runners.replay.recording import chain
from runners.replay.report import ReplayReport
from runners.replay.rows import difference_rows, result_rows, session_rows
from runners.replay.variants import Plan, VariantRequest, make_plan
from runners.replay.working import Job, Outcome, ReplayJob, Settings, run_jobs


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """Inputs and settings of one replay."""

    files: Sequence[Path]
    variants: VariantRequest
    chained: bool = False
    limit: int | None = None
    skip_broken: bool = False
    seed: int = 0
    workers: int = 1
    cache: Path | None = None
    rendering: bool = False
    price: ModelPrice | None = None
    api_key: str | None = None
    done: Callable[[int, int], None] | None = None
    """Told how many sessions of how many are done."""


def replay(request: ReplayRequest) -> ReplayReport:
    """Recorded runs under every variant. Raises UsageFault, ConfigError or EncoderFault; nothing is written."""
    plan = make_plan(request.variants)
    reading = read_files(request.files, skip_broken=request.skip_broken)
    recordings = reading.recordings[: request.limit]
    if request.chained:
        recordings = (chain(recordings),)
    if not recordings:
        raise UsageFault("--limit leaves no recorded run")
    jobs: list[Job] = [ReplayJob(recording, plan.variants) for recording in recordings]
    outcomes = run(jobs, plan, request)
    return report_of(outcomes, plan, request, len(recordings), reading.broken)


def run(jobs: Sequence[Job], plan: Plan, request: ReplayRequest) -> list[Outcome]:
    """The jobs' outcomes under the request's settings."""
    settings = Settings(
        plan.encoder,
        plan.summaries,
        plan.recent,
        request.cache,
        request.rendering,
        request.price,
        request.api_key,
    )
    told = request.done
    done = (lambda count: told(count, len(jobs))) if told is not None else None
    return run_jobs(jobs, settings, request.workers, done)


def report_of(
    outcomes: Sequence[Outcome], plan: Plan, request: ReplayRequest, sessions: int, skipped: Sequence[str]
) -> ReplayReport:
    """Rows, differences and spreads of these outcomes."""
    encoder = outcomes[0].encoder if outcomes else ""
    return ReplayReport(
        rows=tuple(result_rows(outcomes, plan.variants, encoder, request.seed)),
        differences=tuple(difference_rows(outcomes, plan.variants, request.seed)),
        sessions=tuple(session_rows(outcomes, encoder)),
        encoder=encoder,
        recordings=sessions,
        skipped=tuple(skipped),
        contexts=sum(outcome.totals.contexts for outcome in outcomes),
        seed=request.seed,
    )

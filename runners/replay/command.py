"""The replay that a command line asks for, from its inputs to its report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from agent.pricing import ModelPrice
from runners.errors import UsageFault
from runners.replay.dialogues import read_dialogues
from runners.replay.evidence import EvidenceJob
from runners.replay.generator import QUESTION, Generated
from runners.replay.longevity import LongevityJob
from runners.replay.planted import STRIDE, PlantedJob, build_session, read_collection
from runners.replay.readers.files import read_files
from runners.replay.recording import Recording, chain, single_question
from runners.replay.report import ReplayReport
from runners.replay.rows import curve_rows, difference_rows, result_rows, session_rows
from runners.replay.variants import Plan, VariantRequest, joined, make_plan
from runners.replay.working import Job, Outcome, ReplayJob, Settings, run_jobs

Mode: TypeAlias = Literal["steps", "planted", "evidence", "generated"]
"""Next-step recall on recorded runs; planted recall; evidence recall; longevity of generated sessions."""


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """Inputs and settings of one replay."""

    files: Sequence[Path]
    variants: Sequence[VariantRequest]
    """Taken together: figures of several settings in one report."""
    mode: Mode = "steps"
    chained: bool = False
    visits: int = 1_200
    sessions: int = 1
    """Planted sessions, seeded one after another."""
    steps: int = 10_000
    """Of a generated session."""
    probes: int = 100
    """Most probes at one distance in one planted session."""
    limit: int | None = None
    skip_broken: bool = False
    seed: int = 0
    workers: int = 1
    cache: Path | None = None
    rendering: bool = False
    timing: bool = False
    price: ModelPrice | None = None
    api_key: str | None = None
    done: Callable[[int, int], None] | None = None
    """Told how many sessions of how many are done."""


def replay(request: ReplayRequest) -> ReplayReport:
    """Recorded runs under every variant. Raises UsageFault, ConfigError or EncoderFault; nothing is written."""
    plan = joined([make_plan(each) for each in request.variants])
    jobs, skipped = MODES[request.mode](request, plan)
    if not jobs:
        raise UsageFault("nothing is left to replay")
    outcomes = run(jobs, plan, request)
    sessions = len({(outcome.family, outcome.session) for outcome in outcomes})
    return report_of(outcomes, plan, request, sessions, skipped)


def _steps(request: ReplayRequest, plan: Plan) -> Jobs:
    reading = read_files(request.files, skip_broken=request.skip_broken)
    recordings = reading.recordings[: request.limit]
    if request.chained:
        recordings = (chain(recordings),)
    placed = tuple(enumerate(plan.variants))
    recent = max(variant.memory.recent for variant in plan.variants)
    return [ReplayJob(recording, placed, recent) for recording in recordings], reading.broken


def _planted(request: ReplayRequest, plan: Plan) -> Jobs:
    placed = tuple(enumerate(plan.variants))
    stride = 1 if request.rendering else STRIDE
    jobs: list[Job] = []
    skipped: list[str] = []
    for folder in request.files:
        questions, pages = read_collection(folder)
        for seed in range(request.seed, request.seed + request.sessions):
            built = build_session(questions, pages, request.visits, seed, request.probes)
            jobs.append(PlantedJob(built.recording, placed, built.probes, stride))
            skipped.append(
                f"seed {seed}: {built.unusable} of {len(built.recording.questions)} questions have no answer to probe"
            )
    return jobs, skipped


def _evidence(request: ReplayRequest, plan: Plan) -> Jobs:
    placed = tuple(enumerate(plan.variants))
    dialogues = [dialogue for path in request.files for dialogue in read_dialogues(path)]
    return [EvidenceJob(one.recording, placed, one.asked) for one in dialogues[: request.limit]], ()


def _generated(request: ReplayRequest, plan: Plan) -> Jobs:
    given = Generated(request.steps, request.seed, request.files[0] if request.files else None)
    named = Recording(f"generated-{request.seed}", "generated", (), single_question(QUESTION))
    return [LongevityJob(named, tuple(enumerate(plan.variants)), given)], ()


Jobs: TypeAlias = tuple[Sequence[Job], Sequence[str]]
"""What there is to do, and what was left out of it."""
MODES: Mapping[Mode, Callable[[ReplayRequest, Plan], Jobs]] = {
    "steps": _steps,
    "planted": _planted,
    "evidence": _evidence,
    "generated": _generated,
}


def run(jobs: Sequence[Job], plan: Plan, request: ReplayRequest) -> list[Outcome]:
    """The jobs' outcomes under the request's settings."""
    settings = Settings(plan.encoder, request.cache, request.rendering, request.timing, request.price, request.api_key)
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
        curves=tuple(curve_rows(outcomes, plan.variants)),
        encoder=encoder,
        recordings=sessions,
        skipped=tuple(skipped),
        contexts=sum(outcome.totals.contexts for outcome in outcomes),
        seed=request.seed,
    )

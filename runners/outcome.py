"""What a run or a session reports: from the store and the outcome to `RunReport` and `ShowReport`."""

from __future__ import annotations

from agent.session import Outcome
from memory.errors import NotStored
from memory.ports import ChunkStore
from memory.stored import ChunkFacts, PlanRecord
from runners.config import RunConfig, config_hash
from runners.report import CitationReport, RunReport, ShowReport, StepReport


def run_report(outcome: Outcome, config: RunConfig, backbone: str, seconds: float, python: str = "") -> RunReport:
    """The report of ``run`` and ``resume``. ``python``: how code was isolated."""
    return RunReport(
        session=outcome.session,
        status=outcome.status,
        question=outcome.question,
        answer=outcome.answer,
        message=outcome.message,
        citations=tuple(CitationReport(c.chunk_id, c.url, c.title, c.quote, c.found) for c in outcome.citations),
        steps=outcome.steps,
        tokens=outcome.usage,
        cost=outcome.usage.cost,
        backbone=backbone,
        policy=config.policy.variant or config.policy.name,
        config_hash=config_hash(config),
        seconds=round(seconds, 3),
        python=python,
    )


async def show_report(name: str, store: ChunkStore) -> ShowReport:
    """The report of ``show``. Raises NotStored for a session without a question."""
    questions = await store.questions()
    if not questions:
        raise NotStored(f"session {name} has no question yet")
    plans = {record.step: record for record in await store.plans()}
    steps = tuple(_step_report(facts, plans.get(facts.number)) for facts in await store.facts())
    ended = [event for event in await store.events() if event.kind in ("working", "ended")]
    status = str(ended[-1].body.get("status", "open")) if ended and ended[-1].kind == "ended" else "open"
    return ShowReport(name, status, tuple(question.text for question in questions), steps)


def _step_report(facts: ChunkFacts, plan: PlanRecord | None) -> StepReport:
    return StepReport(
        step=facts.number,
        kind=facts.kind,
        tools=facts.tools,
        summary=facts.placeholder,
        policy=plan.policy if plan else "",
        budget=plan.budget if plan else None,
        tokens=plan.tokens if plan else None,
        pressure=plan.pressure if plan else None,
        thresholds=plan.thresholds if plan else None,
        planned=plan.planned_counts if plan else (),
        shown=plan.shown_counts if plan else (),
        shown_tokens=plan.shown_tokens if plan else (),
        fixed_tokens=plan.fixed_tokens if plan else None,
        recent_tokens=plan.recent_tokens if plan else None,
        render_hash=plan.render_hash if plan else "",
    )

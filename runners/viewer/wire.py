"""What the page is given, as plain JSON values: heads, steps by range, tiles of the grid, decisions, texts.

Arrays travel as base64 of deflated little-endian bytes. Every text has passed `Recorded.safe`.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray

from memory.chunking import full_text
from memory.fit import level_fidelity
from memory.plan import Block
from memory.records import Chunk, JsonValue, Level, Usage, View
from memory.stored import PlanRecord
from runners.sessions.catalogue import RUNNING
from runners.viewer.recorded import Recorded
from runners.viewer.replan import Replanned

Tree = dict[str, JsonValue]


async def head(session: Recorded, *, live: bool, held: bool = False) -> Tree:
    """What the page shows before anything else. ``held``: a process works on the session."""
    plan = session.plans.get(session.grid.last)
    asked: list[JsonValue] = [{"task": q.task, "text": q.text, "from": q.from_step} for q in session.questions]
    return {
        "session": session.name,
        "status": RUNNING if held else session.status if session.questions else "new",
        "policy": session.policy,
        "options": _options(session),
        "budget": plan.budget if plan else None,
        "live": live,
        "steps": len(session.facts),
        "last": session.last,
        "questions": asked,
        "answers": await answers(session),
        "total": usage(session.total),
        "replannable": session.config is not None,
    }


def _options(session: Recorded) -> Tree:
    """Of the session's own policy, those that are plain numbers."""
    options = session.config.policy.options.model_dump(by_alias=True) if session.config else {}
    return {key: value for key, value in options.items() if type(value) in (int, float)}


async def answers(session: Recorded) -> list[JsonValue]:
    """Every answer with what it cites."""
    found: list[JsonValue] = []
    for answer in await session.answers():
        cited: list[JsonValue] = [
            {"chunk": c.chunk, "url": c.url, "title": c.title, "quote": c.quote, "found": c.found}
            for c in answer.citations
        ]
        found.append({"step": answer.step, "text": answer.text, "citations": cited})
    return found


def rows(session: Recorded, first: int, last: int) -> list[JsonValue]:
    """The steps ``first``-``last``, as far as there are any; the one under way has a context and nothing else."""
    return [_row(session, step) for step in range(max(1, first), min(last, session.last) + 1)]


def _row(session: Recorded, step: int) -> Tree:
    made: Tree = {"step": step, "plan": None, "usage": None}
    if step <= len(session.facts):
        facts = session.facts[step - 1]
        made |= {
            "kind": facts.kind,
            "tools": list(facts.tools),
            "line": session.safe(facts.placeholder),
            "url": session.safe(facts.source_url),
            "title": session.safe(facts.source_title),
        }
    if step in session.plans:
        made["plan"] = _plan(session.plans[step])
    if step in session.usage:
        made["usage"] = usage(session.usage[step])
    return made


def _plan(record: PlanRecord) -> Tree:
    return {
        "policy": record.policy,
        "budget": record.budget,
        "tokens": record.tokens,
        "unfitted": record.unfitted_tokens,
        "fixed": record.fixed_tokens,
        "recent": record.recent_tokens,
        "recentFrom": record.recent_from,
        "cap": record.recent_cap,
        "pressure": record.pressure,
        "thresholds": list(record.thresholds) if record.thresholds else None,
        "planned": list(record.planned_counts),
        "counts": list(record.shown_counts),
        "byLevel": list(record.shown_tokens),
        "mean": record.cosine_mean,
        "spread": record.cosine_spread,
        "prefix": record.prefix_tokens,
        "blocks": list(record.blocks),
        "ledger": record.ledger_base,
        "scored": bool(record.query_key),
    }


def usage(used: Usage) -> Tree:
    """Tokens and money of calls; null where unknown."""
    return {"input": used.input_total, "cached": used.cache_read, "output": used.output, "cost": used.cost}


def decision(made: Replanned) -> Tree:
    """A step decided again: arrays over its old chunks, oldest first."""
    plan, fitted, given = made.decision.plan, made.decision.fitted, made.given
    pool = given.pool
    shares = level_fidelity(pool)
    at = np.arange(len(pool)), np.maximum(fitted.levels, 0)
    fidelity = np.where(fitted.levels < 0, 0.0, shares[at]) if len(pool) else np.zeros(0)
    return {
        "step": made.step,
        "policy": made.policy,
        "same": made.same,
        "budget": given.budget,
        "tokens": fitted.tokens,
        "unfitted": fitted.unfitted_tokens,
        "fixed": given.fixed_tokens,
        "recent": given.recent_tokens,
        "cap": fitted.recent_cap,
        "cuts": fitted.cuts,
        "spent": fitted.spent,
        "pressure": plan.pressure,
        "thresholds": list(plan.thresholds) if plan.thresholds else None,
        "objective": _finite(plan.objective),
        "bound": _finite(plan.upper_bound),
        "codes": squeezed(made.codes.astype("<i1")),
        "planned": squeezed(plan.levels.astype("<i1")),
        "cosines": squeezed(pool.cosines.astype("<f4")),
        "values": squeezed(plan.values.astype("<f4")),
        "shares": squeezed(fidelity.astype("<f4")),
        "costs": squeezed(pool.tokens.astype("<i4")),
        "available": squeezed(pool.available.astype("<i1")),
        "reasons": {str(chunk): reason for chunk, reason in plan.reasons.items()},
        "blocks": [block(one) for one in fitted.blocks],
    }


def block(one: Block) -> Tree:
    """A text that stands for a run of steps, without the text."""
    return {"number": one.number, "first": one.first, "last": one.last, "kind": one.kind, "tokens": one.tokens}


def texts(session: Recorded, chunk: Chunk, views: Sequence[View], limit: int) -> Tree:
    """A chunk at each level; a text over ``limit`` characters is cut, and says so by its whole length."""
    full = full_text(chunk.step)
    found: Tree = {"placeholder": chunk.placeholder, "full": full[:limit], "chars": len(full)}
    for view in sorted(views, key=lambda view: view.version):
        name = Level(view.level).name.lower()
        found[name] = view.text[:limit]
        found[f"{name}From"] = view.published_step
        found[f"{name}By"] = view.producer
        found[f"{name}Fidelity"] = view.fidelity
    tokens: dict[str, JsonValue] = {view.level.name.lower(): view.tokens for view in views}
    sources: list[JsonValue] = [asdict(s) for item in chunk.step.observations for s in item.sources]
    return {
        "chunk": chunk.step.number,
        "kind": chunk.step.kind,
        "created": chunk.step.created,
        "tokens": tokens | {"full": chunk.tokens_full, "placeholder": chunk.tokens_placeholder},
        "sources": sources,
        "errors": [item.error for item in chunk.step.observations if item.error],
        "texts": found,
    }


def squeezed(array: NDArray[np.generic]) -> str:
    """An array's bytes, deflated (zlib), as base64."""
    return base64.b64encode(zlib.compress(np.ascontiguousarray(array).tobytes(), 6)).decode("ascii")


def _finite(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)

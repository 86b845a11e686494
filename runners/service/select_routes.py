"""``/select`` and what belongs to it."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter, Request

from memory.errors import NotStored
from runners.service.bodies import (
    Body,
    DebugOut,
    DecisionOut,
    PrewarmIn,
    PrewarmOut,
    SelectIn,
    SelectOut,
    UsedIn,
    UsedOut,
)
from runners.service.routes import post, read
from runners.service.state import Answer, Service


class Done(Body):
    done: bool = True


def select_routes(service: Service) -> APIRouter:
    """Selection; ``/select_debug`` where the settings allow it."""
    router = APIRouter(tags=["selection"])

    async def select(request: Request) -> SelectOut:
        """Choose, under a token budget, which candidates stand in the context."""
        return _out(await service.select(await request.body()))

    async def select_debug(request: Request) -> DebugOut:
        """As `/select`, with score, gain, order and reason of every candidate."""
        answer = await service.select(await request.body(), debug=True)
        decisions = [DecisionOut(**asdict(one)) for one in answer.decisions]
        dropped = [one.id for one in decisions if not one.kept]
        return DebugOut(**dict(_out(answer)), decisions=decisions, dropped=dropped)

    async def used(request: Request) -> UsedOut:
        """Tell what the agent did after a selection: how much of what it used had been kept?"""
        body = await read(request, UsedIn)
        found = await service.threaded(lambda: service.recent.used(body.selection, body.text))
        if found is None:
            raise NotStored("this selection is not held any more")
        service.metrics.used += found[0]
        service.metrics.kept += found[1]
        return UsedOut(used=found[0], kept=found[1])

    async def prewarm(request: Request) -> PrewarmOut:
        """Make the keys of texts before they are candidates."""
        body = await read(request, PrewarmIn)
        if len(body.texts) > service.settings.max_candidates:
            raise ValueError(f"at most {service.settings.max_candidates} texts")
        return PrewarmOut(made=await service.prewarm(body.texts))

    async def reset() -> Done:
        """Forget all keys that are held warm."""
        service.selector.reset()
        return Done()

    post(router, "/select", select, takes=SelectIn, gives=SelectOut)
    if service.settings.debug:
        post(router, "/select_debug", select_debug, takes=SelectIn, gives=DebugOut)
    post(router, "/select/used", used, takes=UsedIn, gives=UsedOut)
    post(router, "/prewarm", prewarm, takes=PrewarmIn, gives=PrewarmOut)
    post(router, "/reset", reset, gives=Done)
    return router


def _out(answer: Answer) -> SelectOut:
    selected = answer.selected
    return SelectOut(
        selection=answer.name,
        selected=list(selected.ids),
        tokens=selected.tokens,
        budget=answer.asked.budget,
        strategy=answer.asked.strategy,
        recency=selected.recency,
        warm=selected.warm,
        objective=selected.objective,
        upper_bound=selected.upper_bound,
        notes=list(selected.notes),
    )

"""The application: routes behind the gate, and its description."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from runners.service.bodies import AssembleIn, BeginIn, GlimpseIn, IngestIn, PrewarmIn, SearchIn, SelectIn, UsedIn
from runners.service.faults import add_handlers
from runners.service.gate import Gate
from runners.service.ops_routes import ops_routes
from runners.service.select_routes import select_routes
from runners.service.session_routes import session_routes, watch_routes
from runners.service.state import Service
from runners.viewer.held import Held
from runners.viewer.routes import page_routes, viewer_routes

ABOUT = (
    "Selects what stands in a model's context under a token budget, and keeps the memory of sessions. Times out and "
    "fails like any service: use the client of `runners.service.client`, which falls back to recency."
)
_BODIES = (SelectIn, UsedIn, PrewarmIn, BeginIn, IngestIn, AssembleIn, GlimpseIn, SearchIn)


def make_app(service: Service) -> Gate:
    """The ASGI application over a service, which its shutdown closes."""

    held = Held(service.sessions.reading, service.environment)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await service.aclose()
        await held.aclose()

    # no page of documentation: the ones that there are load scripts from elsewhere
    app = FastAPI(title="longstride", version="1", description=ABOUT, docs_url=None, redoc_url=None, lifespan=lifespan)
    for router in (select_routes(service), session_routes(service), watch_routes(service), ops_routes(service)):
        app.include_router(router)
    for router in (page_routes(service), viewer_routes(service, held)):
        app.include_router(router, include_in_schema=False)
    add_handlers(app, service.environment.home, service.settings.database)
    described = _described(app)
    app.openapi = lambda: described  # type: ignore[method-assign]

    def count(route: str, status: int) -> None:
        service.metrics.requests[route, status] += 1

    return Gate(app, service.settings, count, service.passes)


def _described(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI description, bodies and the token included: they are read and checked outside of the framework."""
    whole = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    models = models_json_schema(
        [(model, "validation") for model in _BODIES], ref_template="#/components/schemas/{model}"
    )[1]
    components = whole.setdefault("components", {})
    components.setdefault("schemas", {}).update(models["$defs"])
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    whole["security"] = [{}, {"token": []}]
    return whole

"""Whether the service is well, and what it counts."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse

from runners.service.bodies import Body
from runners.service.routes import ERRORS
from runners.service.state import Service


class Health(Body):
    status: str = "ok"


def ops_routes(service: Service) -> APIRouter:
    """``/healthz`` and ``/metrics``."""
    router = APIRouter(tags=["operation"])

    async def healthz() -> Health:
        """Answers while the process does; needs no token."""
        return Health()

    async def metrics() -> PlainTextResponse:
        """For Prometheus."""
        text = service.metrics.text(service.selector.figures(), len(service.sessions), service.streams)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    router.add_api_route("/healthz", healthz, methods=["GET"], responses=ERRORS)
    described = {**ERRORS, 200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
    router.add_api_route("/metrics", metrics, methods=["GET"], responses=described, response_class=PlainTextResponse)
    return router

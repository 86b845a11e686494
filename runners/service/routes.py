"""How a route is declared: its body read and checked by one model, all answers described."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel

from runners.service.bodies import Body, ErrorOut

if TYPE_CHECKING:
    from fastapi import APIRouter, Request

B = TypeVar("B", bound=Body)
_SHORT = 64 * 1024
"""Bytes of a body that is checked on the event loop."""
_ERRORS = {
    400: "the body is no JSON, or headers contradict each other",
    401: "no token, or a wrong one",
    403: "a page of another origin",
    404: "no such thing",
    408: "the body took too long",
    409: "held by another process, read only, or exhausted",
    413: "the body is too large",
    415: "the body is not application/json",
    421: "this name is not served here",
    422: "the body is not what it should be",
    500: "the service failed",
    503: "too much to do, the encoder failed, or the database of the sessions does not answer",
    507: "the disk is full, or the database's",
}
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorOut, "description": about} for status, about in _ERRORS.items()
}


async def read(request: Request, model: type[B]) -> B:
    """The body of a request. Raises ValidationError."""
    body = await request.body()
    if len(body) > _SHORT:
        return await asyncio.to_thread(model.model_validate_json, body)
    return model.model_validate_json(body)


def post(
    router: APIRouter,
    path: str,
    function: Callable[..., Awaitable[BaseModel]],
    *,
    takes: type[Body] | None = None,
    gives: type[Body],
    status: int = 200,
) -> None:
    """Add a route for POST whose body is a ``takes``."""
    reference = f"#/components/schemas/{takes.__name__}" if takes else ""
    extra = {"requestBody": {"required": True, "content": {"application/json": {"schema": {"$ref": reference}}}}}
    router.add_api_route(
        path,
        function,
        methods=["POST"],
        response_model=gives,
        status_code=status,
        responses=ERRORS,
        openapi_extra=extra if takes else None,
    )

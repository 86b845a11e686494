"""Faults as answers: a status, a kind, one line, and a hint; never a traceback, never a path of this machine."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from memory.errors import (
    BudgetTooSmall,
    ContextExhausted,
    EncoderFault,
    MemoryFault,
    NotStored,
    StoreBusy,
    StoreCorrupt,
    StoreFault,
    StoreFull,
    StoreTooNew,
)
from memory.store.address import Address
from runners.errors import ConfigError, RunnerFault, UsageFault
from runners.service.gate import INTERNAL, Refused, unavailable
from tools.base import ToolError

if TYPE_CHECKING:
    from fastapi import FastAPI, Request
    from fastapi.responses import JSONResponse

_PROBLEMS = 5
_LISTED = 100
"""More problems than this are counted, not listed: a hostile body has millions."""
_STATUS: tuple[tuple[type[Exception], int, str], ...] = (
    (NotStored, 404, "not_found"),
    (StoreBusy, 409, "busy"),
    (StoreFull, 507, "full"),
    (StoreTooNew, 500, "too_new"),
    (StoreCorrupt, 500, "corrupt"),
    (StoreFault, 500, "store"),
    (BudgetTooSmall, 422, "budget"),
    (ContextExhausted, 409, "exhausted"),
    (EncoderFault, 503, "encoder"),
    (UsageFault, 409, "usage"),
    (ConfigError, 409, "config"),
    (ToolError, 422, "invalid"),
    (ValueError, 422, "invalid"),
)
"""Told to the caller; anything else of ours is a 500 of which only the log tells."""
_log = logging.getLogger(__name__)


_STORES = frozenset({NotStored, StoreBusy, StoreFull, StoreTooNew, StoreCorrupt, StoreFault})
_FAILED, _NONE = "the database of the sessions failed: the log of the service says more", "there is no such session"


def add_handlers(app: FastAPI, home: Path, database: Address | None = None) -> None:
    """Make every fault of a route a JSON answer, which does not say where ``home`` is, and of ``database`` nothing."""
    from fastapi.exceptions import RequestValidationError
    from starlette.exceptions import HTTPException

    app.state.home = str(home)
    app.state.database = database.database if database else ""
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(ValidationError, _invalid)
    app.add_exception_handler(RequestValidationError, _parameters)
    for kind in (MemoryFault, RunnerFault, ToolError, ValueError):
        app.add_exception_handler(kind, _fault)
    app.add_exception_handler(Exception, _unforeseen)


def answer(status: int, kind: str, message: str, hint: str = "", headers: dict[str, str] | None = None) -> JSONResponse:
    """An error as JSON."""
    from fastapi.responses import JSONResponse

    # lone surrogates and control characters of a request do not come back
    plain = " ".join(message.encode("ascii", "replace").decode().split())[:1000]
    return JSONResponse({"error": {"kind": kind, "message": plain, "hint": hint}}, status, headers)


async def _http(request: Request, fault: Exception) -> JSONResponse:
    status = getattr(fault, "status_code", 500)
    kind = {404: "not_found", 405: "method"}.get(status, "http")
    return answer(status, kind, str(getattr(fault, "detail", "")), headers=getattr(fault, "headers", None))


async def _refused(request: Request, fault: Exception) -> JSONResponse:
    assert isinstance(fault, Refused)
    headers = {name.decode(): value.decode() for name, value in fault.headers}
    return answer(fault.status, fault.kind, str(fault), headers=headers)


async def _invalid(request: Request, fault: Exception) -> JSONResponse:
    assert isinstance(fault, ValidationError)
    if fault.error_count() > _LISTED:
        return answer(422, "invalid", f"{fault.title}: {fault.error_count()} problems")
    problems = fault.errors(include_input=False, include_url=False, include_context=False)
    if problems[0]["type"] == "json_invalid":
        return answer(400, "json", problems[0]["msg"])
    lines = [f"{'.'.join(str(part)[:64] for part in one['loc'])}: {one['msg']}" for one in problems[:_PROBLEMS]]
    more = f" and {len(problems) - _PROBLEMS} more" if len(problems) > _PROBLEMS else ""
    return answer(422, "invalid", "; ".join(lines) + more)


async def _parameters(request: Request, fault: Exception) -> JSONResponse:
    """Of the path, the query or the headers."""
    from fastapi.exceptions import RequestValidationError

    assert isinstance(fault, RequestValidationError)
    problems = list(fault.errors())[:_PROBLEMS]
    lines = [f"{'.'.join(str(part)[:64] for part in one['loc'])}: {one['msg']}" for one in problems]
    return answer(422, "invalid", "; ".join(lines))


async def _fault(request: Request, fault: Exception) -> JSONResponse:
    state = request.app.state
    for kind, status, name in _STATUS:
        if isinstance(fault, kind):
            of_server = bool(state.database) and kind in _STORES and state.database in str(fault)
            away = of_server and getattr(fault, "retryable", False)
            if status >= 500 or away:
                _log.warning("%s %s: %s", request.method, request.url.path, fault)
            if away:
                return await _refused(request, unavailable())
            if of_server:
                return answer(status, name, _NONE if status == 404 else _FAILED)
            text, hint = (
                told.replace(state.home, "LONGSTRIDE_HOME") for told in (str(fault), getattr(fault, "hint", ""))
            )
            return answer(status, name, text, hint)
    _log.error("%s %s failed", request.method, request.url.path, exc_info=fault)
    return answer(500, "internal", INTERNAL)


async def _unforeseen(request: Request, fault: Exception) -> JSONResponse:
    """The gate logs it."""
    return answer(500, "internal", INTERNAL)

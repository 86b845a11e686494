"""The live viewer on the service: its pages, and a session's data by range."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from pydantic import Field

from memory.chunking import full_text
from memory.errors import SummaryFailed
from memory.records import JsonValue
from memory.sanitize import sanitize
from runners.errors import UsageFault
from runners.service.bodies import SESSION, Body
from runners.service.deadline import timely
from runners.service.gate import Refused
from runners.service.passes import ENTER, PATH
from runners.service.routes import read
from runners.service.state import Service
from runners.service.stream import begun, events, guarded
from runners.viewer import wire
from runners.viewer.find import find
from runners.viewer.held import Held, Viewed
from runners.viewer.page import SCRIPTS, STYLE, chunk_texts, shell, static
from runners.viewer.replan import WhatIf, policies

MOST = 1_000_000_000
ROWS, CELLS, CHARS = 4_000, 4_000_000, 400_000
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
Name = Annotated[str, Path(pattern=SESSION)]
Number = Annotated[int, Path(ge=1, le=MOST)]
Count = Annotated[int, Query(ge=1, le=MOST)]


class WhatIfIn(Body):
    """What is to be different about a step; null: as it was."""

    policy: str | None = Field(None, max_length=64)
    options: dict[str, float] = Field({}, max_length=16)
    budget: int | None = Field(None, ge=1, le=MOST)
    layout: Literal["interleaved", "ledger"] | None = None
    spend: bool | None = None


def page_routes(service: Service) -> APIRouter:
    """The pages and their files."""
    router = APIRouter(prefix=PATH, route_class=timely(service))

    async def enter(token: Annotated[str, Query(max_length=200)] = "") -> Response:
        """From the address that is opened once to the page."""
        value = service.passes.enter(token)
        if value is None:
            raise Refused(401, "token", "this address was used before: start `longstride ui` again")
        answer = RedirectResponse(f"{PATH}/", 303)
        answer.set_cookie(service.passes.cookie, value, path=PATH, httponly=True, samesite="strict")
        return answer

    async def sessions() -> Response:
        return _page(shell("sessions.html", base=PATH))

    async def session(name: Name) -> Response:
        await service.sessions.check(name)
        return _page(shell("live.html", base=PATH, session=name))

    async def file(name: str) -> Response:
        if name not in (*SCRIPTS, STYLE):
            raise Refused(404, "not_found", "no such file")
        kind = "text/css" if name == STYLE else "text/javascript"
        return Response(static(name), media_type=f"{kind}; charset=utf-8")

    router.add_api_route(ENTER.removeprefix(PATH), enter, methods=["GET"])
    router.add_api_route("/", sessions, methods=["GET"])
    router.add_api_route("/s/{name}", session, methods=["GET"])
    router.add_api_route("/static/{name}", file, methods=["GET"])
    return router


def viewer_routes(service: Service, held: Held) -> APIRouter:
    """A session's data; what `static/remote.js` asks for."""
    router = APIRouter(prefix=f"{PATH}/api/sessions", route_class=timely(service))
    data = _Data(service, held)
    for path, function in (
        ("", data.listed),
        ("/{name}/head", data.head),
        ("/{name}/rows", data.rows),
        ("/{name}/codes", data.codes),
        ("/{name}/policies", data.policies),
        ("/{name}/decisions/{step}", data.decision),
        ("/{name}/chunks/{number}", data.chunk),
        ("/{name}/chunks/{number}/raw", data.raw),
        ("/{name}/search", data.search),
        ("/{name}/events", data.events),
    ):
        router.add_api_route(path, function, methods=["GET"], response_model=None)
    router.add_api_route("/{name}/decisions/{step}", data.what_if, methods=["POST"], response_model=None)
    return router


class _Data:
    def __init__(self, service: Service, held: Held) -> None:
        self._service = service
        self._held = held

    async def listed(self) -> Response:
        """Every session, latest activity first; where they lie is not told."""
        entries = await self._service.sessions.listed()
        rows: list[JsonValue] = [
            {key: value for key, value in asdict(entry).items() if key not in ("folder", "problem")}
            | {"session": sanitize(entry.session), "opens": bool(re.fullmatch(SESSION, entry.session))}
            for entry in entries
        ]
        return JSONResponse(rows)

    async def head(self, name: Name) -> Response:
        async with self._held.use(name) as viewed, viewed.turn:
            await viewed.session.refresh()
            held = await viewed.store.owner() is not None
            return JSONResponse(await wire.head(viewed.session, live=True, held=held))

    async def rows(self, name: Name, first: Count, last: Count, stride: Count = 1) -> Response:
        if (last - first) // stride >= ROWS:
            raise ValueError(f"at most {ROWS} rows at once")
        async with self._held.use(name) as viewed:
            session = viewed.session
            steps = range(first, min(last, session.last) + 1, stride)
            return JSONResponse([row for step in steps for row in wire.rows(session, step, step)])

    async def codes(
        self, name: Name, step: Count, steps: Count, every: Count, chunk: Count, chunks: Count, stride: Count
    ) -> Response:
        """One byte a cell: a column of chunks for each step."""
        if steps * chunks > CELLS:
            raise ValueError(f"at most {CELLS} cells at once")
        async with self._held.use(name) as viewed, viewed.turn:
            asked = [min(step + every * at, viewed.session.last + 1) for at in range(steps)]
            tile = await asyncio.to_thread(viewed.session.grid.codes, asked, chunk, stride, chunks)
        return Response(tile.tobytes(), media_type="application/octet-stream")

    async def policies(self, name: Name) -> Response:
        known = await asyncio.to_thread(policies)
        return JSONResponse([{"name": policy, "options": options} for policy, options in known.items()])

    async def decision(self, name: Name, step: Number) -> Response:
        async with self._held.use(name) as viewed:
            return await _planned(viewed, step, WhatIf())

    async def what_if(self, name: Name, step: Number, request: Request) -> Response:
        body = await read(request, WhatIfIn)
        async with self._held.use(name) as viewed:
            return await _planned(viewed, step, WhatIf(**body.model_dump()))

    async def chunk(self, name: Name, number: Number) -> Response:
        async with self._held.use(name) as viewed:
            (texts,) = await chunk_texts(viewed.session, [number], CHARS)
            return JSONResponse(texts)

    async def raw(self, name: Name, number: Number) -> Response:
        """The whole text, to be kept as a file."""
        async with self._held.use(name) as viewed:
            (chunk,) = await viewed.session.chunks([number])
        headers = {"content-disposition": f'attachment; filename="c{number}.txt"'}
        return Response(full_text(chunk.step), media_type="text/plain; charset=utf-8", headers=headers)

    async def search(self, name: Name, q: Annotated[str, Query(min_length=2, max_length=400)]) -> Response:
        async with self._held.use(name) as viewed:
            return JSONResponse(await find(viewed.session, q))

    async def events(self, name: Name, after: Annotated[int, Query(ge=0, le=MOST)] = 0) -> Response:
        """Server-sent: that something happened; what it was is asked for by range."""
        return StreamingResponse(await begun(self._moved(name, after)), media_type="text/event-stream")

    async def _moved(self, name: str, after: int) -> AsyncGenerator[str, None]:
        service = self._service
        with service.streaming():
            async with service.sessions.reading(name) as store:
                async for text in guarded(events(store, after, service.closing, service.sessions.poll_s)):
                    yield text if text.startswith((":", "retry")) else "event: moved\ndata: {}\n\n"


async def _planned(viewed: Viewed, step: int, what: WhatIf) -> Response:
    async with viewed.turn:
        try:
            made = await (await viewed.planned()).step(step, what)
        except (UsageFault, SummaryFailed) as fault:
            raise ValueError(str(fault)) from fault
        return JSONResponse(await asyncio.to_thread(wire.decision, made))


def _page(text: str) -> Response:
    return HTMLResponse(text, headers={"content-security-policy": POLICY})

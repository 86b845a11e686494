"""The sessions of the service: for an agent that has its memory kept here, and for those who watch one."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Request
from fastapi.responses import StreamingResponse

from memory.sanitize import sanitize
from runners.service.bodies import (
    SESSION,
    AssembleIn,
    AssembleOut,
    BeginIn,
    FoundOut,
    FoundsOut,
    GlimpseIn,
    IngestIn,
    IngestOut,
    ListedOut,
    MessageOut,
    SearchIn,
    SessionOut,
    StepOut,
    TextOut,
)
from runners.service.deadline import timely
from runners.service.routes import ERRORS, post, read
from runners.service.state import Service
from runners.service.stream import begun, events, guarded, step_row
from runners.sessions.catalogue import SessionEntry
from tools.glimpse import GlimpseArguments, parse_ref

Name = Annotated[str, Path(pattern=SESSION)]
After = Annotated[int, Query(ge=0, le=1_000_000_000, description="steps after this one")]


class Hosting:
    """An agent's memory, kept here."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._sessions = service.sessions

    async def begin(self, request: Request) -> SessionOut:
        """Begin a session, or open one; a session of the agent itself is opened for reading."""
        return await self.session(await self._sessions.begin((await read(request, BeginIn)).name))

    async def listed(self) -> list[ListedOut]:
        """All sessions, latest activity first."""
        return [_listed(entry) for entry in await self._sessions.listed()]

    async def session(self, name: Name) -> SessionOut:
        """One session."""
        async with self._sessions.use(name) as hosted:
            return SessionOut(
                session=name,
                steps=await hosted.recall.last(),
                writable=hosted.memory is not None,
                policy=hosted.config.policy.name,
                budget=hosted.config.memory.budget,
            )

    async def ingest(self, name: Name, request: Request) -> IngestOut:
        """Keep one turn, or what a tool gave back."""
        body = await read(request, IngestIn)
        speaker = " ".join(f"{body.role} {body.tool}".split()) if body.role == "tool" else body.role
        async with self._sessions.use(name) as hosted:
            return IngestOut(chunk=(await hosted.ingest(body.text, speaker)).step.chunk_id)

    async def assemble(self, name: Name, request: Request) -> AssembleOut:
        """The messages of the next model call, within the budget."""
        body = await read(request, AssembleIn)
        async with self._sessions.use(name) as hosted:
            context = await hosted.assemble(body.question, body.budget)
        messages = [MessageOut(role=message.role, content=message.content) for message in context.messages]
        return AssembleOut(step=context.step, tokens=context.tokens, budget=context.budget, messages=messages)

    async def glimpse(self, name: Name, request: Request) -> TextOut:
        """One turn in full, a part of it, or the members of a range."""
        body = await read(request, GlimpseIn)
        ref = parse_ref(GlimpseArguments(chunk_id=body.chunk, part=body.part, query=body.query))
        async with self._sessions.use(name) as hosted:
            return TextOut(text=await hosted.recall.expand(ref))

    async def search(self, name: Name, request: Request) -> FoundsOut:
        """Turns by words and meaning."""
        body = await read(request, SearchIn)
        async with self._sessions.use(name) as hosted:
            found = await hosted.search.find(body.query, body.count)
        return FoundsOut(found=[FoundOut(chunk=f"c{one.chunk}", passage=one.passage) for one in found])


def session_routes(service: Service) -> APIRouter:
    """``/v1/sessions``."""
    router = APIRouter(prefix="/v1/sessions", tags=["sessions"], route_class=timely(service))
    hosting = Hosting(service)
    post(router, "", hosting.begin, takes=BeginIn, gives=SessionOut, status=201)
    post(router, "/{name}/ingest", hosting.ingest, takes=IngestIn, gives=IngestOut, status=201)
    post(router, "/{name}/assemble", hosting.assemble, takes=AssembleIn, gives=AssembleOut)
    post(router, "/{name}/glimpse", hosting.glimpse, takes=GlimpseIn, gives=TextOut)
    post(router, "/{name}/search", hosting.search, takes=SearchIn, gives=FoundsOut)
    router.add_api_route("", hosting.listed, methods=["GET"], responses=ERRORS)
    router.add_api_route("/{name}", hosting.session, methods=["GET"], responses=ERRORS)
    return router


def watch_routes(service: Service) -> APIRouter:
    """Reading a session that somebody else may be writing to."""
    router = APIRouter(prefix="/v1/sessions", tags=["watching"], route_class=timely(service))

    async def steps(name: Name, after: After = 0, limit: Annotated[int, Query(ge=1, le=1000)] = 100) -> list[StepOut]:
        """Steps in one line each, by page."""
        async with service.sessions.reading(name) as store:
            facts = await store.facts(after, after + limit)
        return [StepOut.model_validate(step_row(one)) for one in facts]

    async def stream(
        name: Name, after: After = 0, last_event_id: Annotated[str, Header(max_length=20)] = ""
    ) -> StreamingResponse:
        """Server-sent events: `plan`, `step` (its number is the id), `session`; `resync` for who is far behind."""
        begin = int(last_event_id) if last_event_id.isascii() and last_event_id.isdigit() else after
        return StreamingResponse(await begun(_sent(service, name, begin)), media_type="text/event-stream")

    router.add_api_route("/{name}/steps", steps, methods=["GET"], responses=ERRORS)
    described = {**ERRORS, 200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}}
    router.add_api_route(
        "/{name}/events", stream, methods=["GET"], responses=described, response_class=StreamingResponse
    )
    return router


def _listed(entry: SessionEntry) -> ListedOut:
    return ListedOut(
        session=sanitize(entry.session),
        status=entry.status,
        steps=entry.steps,
        question=entry.question,
        policy=entry.policy,
        last_activity=entry.last_activity,
    )


async def _sent(service: Service, name: str, after: int) -> AsyncGenerator[str, None]:
    with service.streaming():
        async with service.sessions.reading(name) as store:
            async for text in guarded(events(store, after, service.closing, service.sessions.poll_s)):
                yield text

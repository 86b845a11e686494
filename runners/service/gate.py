"""Who and what gets in: host names, origins, tokens, media types and sizes, before any route is reached."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from runners.service.passes import ENTER, Passes
from runners.service.settings import ServiceSettings

Message: TypeAlias = MutableMapping[str, Any]
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Take: TypeAlias = Callable[[int], None]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
OPEN = frozenset({"/healthz", ENTER})
"""Paths that need no token; the second asks for one of its own."""
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
"""Sent with every answer that does not set them itself."""
INTERNAL = "the service failed: its log says more"
_BODIES = frozenset({"POST", "PUT", "PATCH"})
_BODIES_HELD = 32
"""Of the largest size, at once."""
_DRAIN_BYTES = 1024 * 1024
_DRAIN_S = 0.2
log = logging.getLogger(__name__)


class Refused(Exception):
    """A request that goes no further."""

    def __init__(self, status: int, kind: str, message: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.headers = headers


def unavailable() -> Refused:
    """What is said when the database of the sessions is away, or hangs; of what is wrong with it the log tells."""
    return Refused(503, "unavailable", "the database of the sessions does not answer", ((b"retry-after", b"2"),))


class _Room:
    """Bytes that the bodies of all requests under way may take together."""

    def __init__(self, limit: int) -> None:
        self._left = limit

    @contextlib.contextmanager
    def share(self) -> Iterator[Take]:
        """One request's part, given back at the end. What it yields raises Refused when there is no more room."""
        mine = 0

        def take(size: int) -> None:
            nonlocal mine
            if size > self._left:
                raise Refused(503, "busy", "too many bodies at once", ((b"retry-after", b"1"),))
            self._left -= size
            mine += size

        try:
            yield take
        finally:
            self._left += mine


class Gate:
    """ASGI middleware around everything: checks the request, reads its whole body (counted), adds `HEADERS`, and turns
    a fault of the program into a 500 that tells nothing, with the traceback in the log. ``count`` is told of every
    answer: the route's path, and the status. ``passes``: who may see the pages without a bearer token."""

    def __init__(
        self, app: App, settings: ServiceSettings, count: Callable[[str, int], None], passes: Passes | None = None
    ) -> None:
        self._app = app
        self._passes = passes
        self._settings = settings
        self._count = count
        self._hosts = settings.allowed_hosts()
        self._room = _Room(_BODIES_HELD * settings.max_body)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        begun = False

        async def guarded(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                self._count(getattr(scope.get("route"), "path", "none"), message["status"])
                have = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(pair for pair in HEADERS if pair[0] not in have)]
            await send(message)

        try:
            with self._room.share() as take:
                body = await self._admit(scope, receive, take)
                await self._app(scope, receive if body is None else _replay(body, receive), guarded)
        except Refused as refused:
            if not begun:
                await _drain(scope, receive)
            await _answer(guarded, refused.status, refused.kind, str(refused), refused.headers)
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            if not begun:
                await _answer(guarded, 500, "internal", INTERNAL)

    async def _admit(self, scope: Scope, receive: Receive, take: Take) -> bytes | None:
        headers = _headers(scope)
        self._check_host(headers)
        self._check_origin(headers)
        admitted = self._passes is not None and self._passes.admits(scope["path"], headers.get("cookie", ""))
        if scope["path"] not in OPEN and not admitted:
            self._check_token(headers)
        if scope["method"] not in _BODIES:
            return None
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise Refused(415, "media_type", "bodies are not compressed")
        kind, _, parameters = headers.get("content-type", "").partition(";")
        charset = parameters.strip().lower().replace('"', "")
        if kind.strip().lower() != "application/json" or charset not in ("", "charset=utf-8"):
            raise Refused(415, "media_type", "bodies are application/json")
        return await self._body(headers, receive, take)

    def _check_host(self, headers: Mapping[str, str]) -> None:
        """Pages that were given our address by a name of theirs (DNS rebinding) send that name."""
        if _name(headers.get("host", "")) not in self._hosts:
            raise Refused(421, "host", "this name is not served here")

    def _check_origin(self, headers: Mapping[str, str]) -> None:
        """Other sites' pages are told nothing and change nothing; there is no CORS. What they load without an
        ``Origin`` (pictures, scripts) a browser marks; following a link from one is no loading."""
        origin = headers.get("origin")
        foreign = origin is not None and _site(origin) != headers.get("host", "").lower()
        loads = headers.get("sec-fetch-mode", "navigate") != "navigate"
        if foreign or (loads and headers.get("sec-fetch-site") in ("cross-site", "same-site")):
            raise Refused(403, "origin", "pages of other origins are not served")

    def _check_token(self, headers: Mapping[str, str]) -> None:
        token = self._settings.token
        if token is None:
            return
        scheme, _, given = headers.get("authorization", "").partition(" ")
        known = token.reveal().encode()
        if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode("utf-8", "replace"), known):
            raise Refused(401, "token", "a bearer token is needed", ((b"www-authenticate", b"Bearer"),))

    async def _body(self, headers: Mapping[str, str], receive: Receive, take: Take) -> bytes:
        limit = self._settings.max_body
        too_large = Refused(413, "size", f"bodies have at most {limit} bytes", ((b"connection", b"close"),))
        declared = headers.get("content-length", "0")
        if not declared.isascii() or not declared.isdigit() or int(declared[:20]) > limit:
            raise too_large
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._settings.body_timeout_s):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refused(400, "body", "the body did not arrive whole")
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > limit:
                        raise too_large
                    take(len(parts[-1]))
                    if not message.get("more_body"):
                        return b"".join(parts)
        except TimeoutError:
            raise Refused(408, "timeout", "the body took too long", ((b"connection", b"close"),)) from None


def _headers(scope: Scope) -> dict[str, str]:
    """Lower-case names; of headers that may stand once only, two are as bad as a wrong one."""
    found: dict[str, str] = {}
    for raw, value in scope["headers"]:
        name = raw.decode("latin-1").lower()
        if name in found and name in ("host", "origin", "authorization", "content-type", "content-length"):
            raise Refused(400, "header", f"{name} stands twice")
        found[name] = value.decode("latin-1")
    return found


def _name(host: str) -> str:
    """The name in a Host header, without port and brackets; empty for one that is malformed."""
    try:
        parts = urlsplit(f"//{host.lower()}")
        _ = parts.port
    except ValueError:
        return ""
    return parts.hostname or "" if parts.netloc == host.lower() and "@" not in host else ""


def _site(origin: str) -> str:
    """Name and port of an origin; empty for what is none, such as ``null``."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


async def _drain(scope: Scope, receive: Receive) -> None:
    """Throw away what of a body is on its way: a connection that is closed on unread bytes loses the answer as well."""
    if scope["method"] not in _BODIES:
        return
    left = _DRAIN_BYTES
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_S):
            while left > 0:
                message = await receive()
                left -= len(message.get("body", b""))
                if message["type"] == "http.disconnect" or not message.get("more_body"):
                    return


def _replay(body: bytes, receive: Receive) -> Receive:
    """A receive that gives the body that was read already."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _answer(
    send: Send, status: int, kind: str, message: str, headers: tuple[tuple[bytes, bytes], ...] = ()
) -> None:
    body = json.dumps({"error": {"kind": kind, "message": message, "hint": ""}}).encode()
    length = (b"content-length", str(len(body)).encode())
    start = {"type": "http.response.start", "status": status}
    await send({**start, "headers": [(b"content-type", b"application/json"), length, *headers]})
    await send({"type": "http.response.body", "body": body})

"""Live search: one adapter for every provider of `shapes.SHAPES`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import httpx

from memory.records import JsonValue
from tools.base import ToolError
from tools.search.base import Hit, ProviderRefused, canonical_url
from tools.search.shapes import Ask, Shape, since_date
from tools.web.decode import BoundedDecoder

MAX_BYTES = 5_000_000
MAX_HITS = 100
_ATTEMPTS = 2
_WAIT_S = 1.0
_REFUSED = frozenset({401, 402, 403, 432, 433})
"""The key is not accepted, or its quota is spent (432 and 433 are Tavily's): asking again changes nothing."""
_TRANSIENT = frozenset({408, 500, 502, 503, 504, 529})
_SNIPPET_CHARS = 600


@dataclass(frozen=True, slots=True)
class Access:
    """How one provider is reached. ``base``: empty for the provider's own server. ``rpm``: requests per minute."""

    key: str = ""
    base: str = ""
    timeout_s: float = 20.0
    rpm: int | None = None
    concurrency: int = 4

    def __repr__(self) -> str:
        return f"Access(base={self.base!r}, key={'***' if self.key else ''!r})"


class HttpProvider:
    """`SearchProvider` over one shape. ``sleep`` takes the wait before the second attempt.

    The server is configuration, so it may be local; no proxy, redirect or cookie is used.
    """

    def __init__(
        self, shape: Shape, access: Access, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    ) -> None:
        """Raises ValueError when the shape needs a key or a base URL and there is none."""
        if shape.header and not access.key:
            raise ValueError(f"{shape.name} needs a key: set {shape.keys[0]}")
        base = access.base or shape.base
        if not base.startswith(("http://", "https://")):
            raise ValueError(f"{shape.name} needs the address of a server: set {shape.urls[0]} to http(s)://…")
        from asyncio_throttle import Throttler  # type: ignore[attr-defined,unused-ignore]

        self.name = shape.name
        self._shape = shape
        self._key = access.key
        self._sleep = sleep
        self._url = base.rstrip("/") + shape.path
        headers = {"Accept": "application/json", "Accept-Encoding": "gzip, deflate"}
        if shape.header:
            headers[shape.header] = f"{shape.prefix}{access.key}"
        self._client = httpx.AsyncClient(
            timeout=access.timeout_s, trust_env=False, follow_redirects=False, headers=headers
        )
        self._throttle = Throttler(rate_limit=access.rpm or shape.rpm, period=60.0)
        self._slots = asyncio.Semaphore(access.concurrency)

    async def search(self, query: str, n: int, lang: str | None = None, since: str | None = None) -> list[Hit]:
        """Pages of results are asked for until there are ``n``, or no new ones come. Raises ToolError."""
        n = min(n, MAX_HITS)
        size = min(n, self._shape.most) if self._shape.most else n
        hits: dict[str, Hit] = {}
        for page in range(1, self._shape.pages + 1):
            answer = await self._asked(Ask(query, size, page, lang, since_date(since)))
            before = len(hits)
            for hit in self._hits(answer):
                hits.setdefault(canonical_url(hit.url), hit)
            if len(hits) >= n or len(hits) == before:
                break
        return list(hits.values())[:n]

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _asked(self, ask: Ask) -> JsonValue:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                async with self._slots, self._throttle:
                    return await self._answer(ask)
            except _Transient as error:
                if attempt == _ATTEMPTS:
                    raise ToolError(error.kind, str(error)) from error
                await self._sleep(_WAIT_S)
        raise AssertionError("unreachable")

    async def _answer(self, ask: Ask) -> JsonValue:
        payload = self._shape.payload(ask)
        plain = {name: str(value) for name, value in payload.items()}
        get = self._shape.method == "GET"
        request = self._client.build_request(
            self._shape.method, self._url, params=plain if get else None, json=None if get else payload
        )
        try:
            response = await self._client.send(request, stream=True)
            try:
                body = await _body(response)
            finally:
                await response.aclose()
        except httpx.TimeoutException as error:
            raise _Transient("timeout", f"{self.name} did not answer in time") from error
        except httpx.HTTPError as error:
            raise _Transient("network", f"{self.name} cannot be reached ({type(error).__name__})") from error
        self._check(response.status_code, body)
        try:
            answer: JsonValue = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise ToolError("parse", f"{self.name} answered with something that is not JSON") from error
        return answer

    def _check(self, status: int, body: bytes) -> None:
        if status in _REFUSED:
            advice = self._shape.hint or f"check {self._shape.keys[0]} and its quota"
            raise ProviderRefused("http_status", f"{self.name} refuses the request (HTTP {status}); {advice}")
        if status == 429:
            raise ToolError("limit", f"{self.name} limits the rate of queries; wait, or ask fewer")
        if status in _TRANSIENT:
            raise _Transient("http_status", f"{self.name} answered HTTP {status}")
        if status != 200:
            raise ToolError("http_status", f"{self.name} answered HTTP {status}{self._message(body)}")

    def _message(self, body: bytes) -> str:
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            return ""
        return _told(answer, self._key)

    def _hits(self, answer: JsonValue) -> list[Hit]:
        found = answer
        for name in self._shape.results:
            if not isinstance(found, dict):
                raise ToolError("parse", f"the answer of {self.name} has not the shape it should have")
            found = found.get(name)
            if found is None:  # the list is left out when nothing was found; an error is not nothing
                if isinstance(answer, dict) and any(mark in answer for mark in ("error", "detail", "message")):
                    raise ToolError("http_status", f"{self.name} reports an error{_told(answer, self._key)}")
                return []
        if not isinstance(found, list):
            raise ToolError("parse", f"the answer of {self.name} has not the shape it should have")
        hits = [hit for hit in map(self._hit, found[: 10 * MAX_HITS]) if hit is not None]
        if found and not hits:
            raise ToolError("parse", f"no result of {self.name} has an address")
        return hits

    def _hit(self, item: JsonValue) -> Hit | None:
        if not isinstance(item, dict):
            return None
        shape = self._shape
        url = _text(item, shape.url)
        if not url.startswith(("http://", "https://")):
            return None
        day = _text(item, shape.date)
        day = day[:10] if day[4:5] == "-" and day[7:8] == "-" else day
        return Hit(
            _text(item, shape.title)[:300], url, _text(item, shape.snippet)[:_SNIPPET_CHARS], day[:40], self.name
        )


class _Transient(ToolError):
    """Worth a second attempt."""


async def _body(response: httpx.Response) -> bytes:
    """The decoded body. Raises ToolError ``too_large``, ``unsupported``, ``parse``."""
    encoding = ",".join(response.headers.get_list("content-encoding"))
    decoder = BoundedDecoder(encoding, max_raw=MAX_BYTES, max_decoded=MAX_BYTES)
    async for part in response.aiter_raw():
        decoder.feed(part)
        if decoder.full:
            raise ToolError("too_large", "the search engine's answer is too large")
    return bytes(decoder.body)


def _text(item: dict[str, JsonValue], names: tuple[str, ...]) -> str:
    """The first of the fields that says something; a list of strings is joined."""
    for name in names:
        value = item.get(name)
        if isinstance(value, list):
            value = " … ".join(part for part in value if isinstance(part, str))
        if isinstance(value, str) and value.strip():
            return value.strip()
    return ""


def _told(answer: JsonValue, key: str) -> str:
    """What an error body says, in brackets, without the key; empty when it says nothing readable."""
    if not isinstance(answer, dict):
        return ""
    for name in ("error", "detail", "message"):
        value = answer.get(name)
        if isinstance(value, dict):
            value = value.get("message") or value.get("error")
        if isinstance(value, str) and value.strip():
            said = " ".join(value.split())
            return f" ({(said.replace(key, '***') if key else said)[:200]})"
    return ""

"""The one HTTP client: every hop is checked, connected to the address that was checked, and bounded.

It stands on httpx's transport, below its client: no cookie jar, no redirects of its own (whose parsing of a hostile
``Location`` raises), no environment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from ssl import SSLContext
from typing import TypeAlias

import httpx

from tools.base import ToolError
from tools.web.blocklist import Blocklist
from tools.web.decode import BoundedDecoder
from tools.web.policy import FetchConfig, FetchPolicy, Target
from tools.web.resolver import Resolver, system_resolver

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_ACCEPT = "text/html,application/xhtml+xml,application/pdf,text/plain;q=0.9,application/json;q=0.9,*/*;q=0.5"
_MAX_TRIED = 3
Hop: TypeAlias = Callable[[httpx.URL], Awaitable[None]]
"""Told of the target of a redirect before anything is sent there; raises ToolError to refuse it."""


@dataclass(frozen=True, slots=True)
class Page:
    """A fetched document, whatever its status. ``url``: final. ``content_type``: the header, parameters included.

    ``note`` is empty, or says why the body is not whole (a size or time limit). ``local``: from our own corpus.
    """

    url: str
    status: int
    content_type: str
    body: bytes
    redirects: tuple[str, ...] = ()
    note: str = ""
    local: bool = False


class Fetcher:
    """Fetches public pages, and nothing else.

    ``hosts`` maps logical hosts to where they are now (``LocalCorpus.hosts``). ``blocked``: pages that nobody may read.
    ``verify``: TLS trust, for tests with their own authority.

    No proxy, cookie, credential or referer is ever used; connections are not shared, so that a
    pinned address and a verified name belong to one request.
    """

    def __init__(
        self,
        config: FetchConfig | None = None,
        *,
        resolver: Resolver = system_resolver,
        hosts: Mapping[str, str] | None = None,
        blocked: Blocklist | None = None,
        verify: SSLContext | bool = True,
    ) -> None:
        self._config = config or FetchConfig()
        self.policy = FetchPolicy(self._config, resolver, hosts or {}, blocked)
        self._verify = verify
        self._headers = {"User-Agent": self._config.user_agent, "Accept": _ACCEPT, "Accept-Encoding": "gzip, deflate"}
        self._transport: httpx.AsyncHTTPTransport | None = None

    async def fetch(self, url: str, hop: Hop | None = None) -> Page:
        """GET with redirects. Raises ToolError; HTTP error statuses are returned, not raised."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._config.total_s
        try:
            async with asyncio.timeout_at(deadline):
                return await self._follow(url, deadline, hop)
        except TimeoutError as error:
            raise ToolError("timeout", f"no answer from {url[:200]} within {self._config.total_s:g} s") from error

    async def aclose(self) -> None:
        if self._transport is not None:
            await self._transport.aclose()
            self._transport = None

    async def _follow(self, url: str, deadline: float, hop: Hop | None) -> Page:
        parsed = self.policy.parse(url)
        passed: list[str] = []
        while True:
            target = await self.policy.admit(parsed)
            response = await self._open(target)
            try:
                location = _location(response)
                if response.status_code not in _REDIRECTS or not location:
                    return await self._read(response, target, tuple(passed), deadline)
            finally:
                await response.aclose()
            passed.append(str(parsed))
            if len(passed) > self._config.max_redirects:
                raise ToolError("limit", f"more than {self._config.max_redirects} redirects, last to {location[:200]}")
            try:
                parsed = self.policy.parse(str(parsed.join(location)))
            except (httpx.InvalidURL, UnicodeError, ValueError) as error:
                raise ToolError(
                    "http_status", f"the page redirects to an invalid address {location[:200]!r}"
                ) from error
            if hop is not None:
                await hop(parsed)

    async def _open(self, target: Target) -> httpx.Response:
        transport = self._transport or self._start()
        for number, address in enumerate(target.addresses[:_MAX_TRIED], 1):
            extensions = {"sni_hostname": target.host} if target.url.scheme == "https" else {}
            request = httpx.Request(
                "GET",
                target.url.copy_with(host=address, port=target.connect_port),
                headers={"Host": target.url.netloc.decode("ascii"), **self._headers},
                extensions={**extensions, "timeout": self._timeout()},
            )
            try:
                return await transport.handle_async_request(request)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                if number == min(len(target.addresses), _MAX_TRIED):
                    raise ToolError("network", f"cannot connect to {target.host} ({_reason(error)})") from error
            except httpx.TimeoutException as error:
                raise ToolError("timeout", f"{target.host} did not answer in time") from error
            except httpx.HTTPError as error:
                raise ToolError("network", f"{target.host} gave no valid answer ({_reason(error)})") from error
        raise ToolError("network", f"{target.host} has no address")

    async def _read(self, response: httpx.Response, target: Target, passed: tuple[str, ...], deadline: float) -> Page:
        config = self._config
        encoding = ",".join(response.headers.get_list("content-encoding"))
        decoder = BoundedDecoder(encoding, max_raw=config.max_raw, max_decoded=config.max_decoded)
        note = ""
        try:
            async with asyncio.timeout_at(deadline - 0.05 * config.total_s):
                async for part in response.aiter_raw():
                    decoder.feed(part)
                    if decoder.full:
                        note = f"cut at {len(decoder.body)} bytes: the document is larger than is read"
                        break
        except (httpx.HTTPError, TimeoutError) as error:
            if not decoder.body:
                kind = "no body in time" if isinstance(error, TimeoutError) else f"no body ({_reason(error)})"
                raise ToolError("timeout" if isinstance(error, TimeoutError) else "network", kind) from error
            note = "incomplete: the connection broke off or was too slow"
        if decoder.cut and not note:
            note = "incomplete: the compressed body breaks off"
        return Page(
            url=str(target.url),
            status=response.status_code,
            content_type=response.headers.get("content-type", ""),
            body=bytes(decoder.body),
            redirects=passed,
            note=note,
            local=self.policy.is_local(target.url),
        )

    def _start(self) -> httpx.AsyncHTTPTransport:
        limits = httpx.Limits(max_connections=32, max_keepalive_connections=0)
        self._transport = httpx.AsyncHTTPTransport(verify=self._verify, trust_env=False, limits=limits)
        return self._transport

    def _timeout(self) -> dict[str, float | None]:
        return httpx.Timeout(self._config.total_s, connect=self._config.connect_s).as_dict()


def _location(response: httpx.Response) -> str:
    """Where a redirect leads, empty for nowhere. Raises ToolError when it leads to two places."""
    targets = dict.fromkeys(response.headers.get_list("location"))
    if len(targets) > 1:
        raise ToolError("http_status", "the page redirects to two addresses at once")
    return next(iter(targets), "")


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:160] or type(error).__name__

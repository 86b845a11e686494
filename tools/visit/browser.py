"""Pages as a browser shows them: Playwright with the system's Chromium (extra ``browser``).

Chromium itself never opens a connection. Every request of the page is answered here, by the same `Fetcher` that reads
pages, so policy, pinning and limits hold for each of them; whatever might pass the routes by (name lookups, web
sockets, workers, WebRTC) finds no network: names resolve to nothing and the proxy is a closed port.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import httpx

from tools.base import ToolError
from tools.web.client import Fetcher, Page
from tools.web.policy import host_of, port_of

if TYPE_CHECKING:
    from playwright.async_api import Browser, Route, WebSocketRoute

INSTALL = "pip install 'longstride[browser]'"
EXECUTABLES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
MAX_REQUESTS = 100
MAX_BYTES = 30_000_000
_FETCHED = frozenset({"document", "script", "stylesheet", "xhr", "fetch"})
"""Kinds of requests that text may depend on; images, fonts and media are not."""
_SETTLE_S = 5.0
_ARGUMENTS = (
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--proxy-server=http://127.0.0.1:9",
    "--proxy-bypass-list=<-loopback>",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-pings",
    "--dns-prefetch-disable",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--mute-audio",
)


def find_chromium(path: str = "") -> str | None:
    """The executable: the configured one, else the first on PATH; None when there is none."""
    for name in (path,) if path else EXECUTABLES:
        found = shutil.which(name)
        if found:
            return found
    return None


class ChromiumRenderer:
    """A `Renderer`. Starts Chromium for the first page; one page at a time. ``limit_s``: seconds a page may take."""

    def __init__(self, fetcher: Fetcher, path: str = "", limit_s: float = 30.0) -> None:
        """Raises ModuleNotFoundError or FileNotFoundError, saying what to install."""
        try:
            import playwright.async_api  # noqa: F401
        except ImportError as error:
            raise ModuleNotFoundError(f"rendering pages needs the extra: {INSTALL}") from error
        found = find_chromium(path)
        if found is None:
            wanted = path or "Chromium"
            raise FileNotFoundError(f"{wanted} is not there: install chromium, or set visit.browser_path to it")
        self._executable = found
        self._fetcher = fetcher
        self._limit_s = limit_s
        self._lock = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._browser: Browser | None = None

    async def render(self, page: Page) -> Page:
        """The markup after the page's scripts have run. Raises ToolError ``timeout`` or ``execution``."""
        from playwright.async_api import Error

        async with self._lock:
            try:
                async with asyncio.timeout(self._limit_s):
                    return await self._rendered(page)
            except TimeoutError as error:
                await self._stop()
                raise ToolError("timeout", f"the browser took longer than {self._limit_s:g} s for the page") from error
            except Error as error:
                await self._stop()
                reason = " ".join(str(error).split())[:160]
                raise ToolError("execution", f"the browser could not show the page ({reason})") from error

    async def aclose(self) -> None:
        async with self._lock:
            await self._stop()

    async def _rendered(self, page: Page) -> Page:
        browser = self._browser or await self._start()
        context = await browser.new_context(accept_downloads=False, service_workers="block", permissions=[])
        try:
            routes = _Routes(self._fetcher, page)
            await context.route("**/*", routes.answer)
            await context.route_web_socket("**/*", _closed)
            tab = await context.new_page()
            await tab.goto(page.url, wait_until="domcontentloaded", timeout=1000 * self._limit_s)
            await routes.settled(_SETTLE_S)
            markup = (await tab.content()).encode("utf-8", "replace")
            url = tab.url
        finally:
            await context.close()
        if not url.startswith(("http://", "https://")):  # the error page of Chromium
            raise ToolError("forbidden", "the page's script leads to an address that is not fetched")
        return Page(url, page.status, "text/html; charset=utf-8", markup, page.redirects)

    async def _start(self) -> Browser:
        from playwright.async_api import async_playwright

        driver = await self._stack.enter_async_context(async_playwright())
        self._browser = await driver.chromium.launch(
            executable_path=self._executable,
            args=list(_ARGUMENTS),
            chromium_sandbox=os.geteuid() != 0 if hasattr(os, "geteuid") else True,
            env={name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ},
        )
        return self._browser

    async def _stop(self) -> None:
        browser, self._browser = self._browser, None
        if browser is not None:
            await browser.close()
        stack, self._stack = self._stack, AsyncExitStack()
        await stack.aclose()


class _Routes:
    """Answers the requests of one page. ``main``: the page itself, which was fetched already."""

    def __init__(self, fetcher: Fetcher, main: Page) -> None:
        self._fetcher = fetcher
        self._main: Page | None = main
        self._origin = _origin(fetcher.policy.parse(main.url))
        self._bytes = 0
        self._count = 0
        self._open = 0

    async def answer(self, route: Route) -> None:
        """Fulfil a GET that the policy admits; abort everything else."""
        from playwright.async_api import Error

        self._open += 1
        try:
            page = await self._page(route)
            if page is None:
                await route.abort("blockedbyclient")
                return
            headers = {"Content-Type": page.content_type or "text/plain", "Access-Control-Allow-Origin": "*"}
            await route.fulfill(status=page.status, headers=headers, body=page.body)
        except Error:  # the page went away meanwhile
            return
        finally:
            self._open -= 1

    async def settled(self, most_s: float) -> None:
        """Until no request is open and the scripts had a moment to use the last answer, or the time is over."""
        loop = asyncio.get_running_loop()
        until = loop.time() + most_s
        quiet = 0
        while quiet < 3 and loop.time() < until:
            await asyncio.sleep(0.1)
            quiet = 0 if self._open else quiet + 1

    async def _page(self, route: Route) -> Page | None:
        request = route.request
        if self._main is not None and request.is_navigation_request():
            main, self._main = self._main, None
            return main
        self._count += 1
        wanted = request.method == "GET" and request.resource_type in _FETCHED
        if not wanted or self._count > MAX_REQUESTS or self._bytes > MAX_BYTES:
            return None
        try:
            target = self._fetcher.policy.parse(request.url.partition("#")[0])
            await self._keep_out(target)
            page = await self._fetcher.fetch(str(target), self._keep_out)
        except ToolError:
            return None
        self._bytes += len(page.body)
        return page

    async def _keep_out(self, target: httpx.URL) -> None:
        """What only configuration opens (the corpus, an allowed host) is open to its own pages: the scripts of any
        other could read it and carry it away. Raises ToolError."""
        if self._fetcher.policy.is_exempt(target) and _origin(target) != self._origin:
            raise ToolError("forbidden", "the page is not of that site")


def _origin(url: httpx.URL) -> tuple[str, str, int]:
    return url.scheme, host_of(url), port_of(url)


def _closed(socket: WebSocketRoute) -> None:
    """A web socket that is never connected; the page sees it open and silent."""

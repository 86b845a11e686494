"""robots.txt: respected, warned about, or ignored."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Literal, Protocol, TypeAlias, cast

import httpx

from tools.base import ToolError
from tools.web.client import Fetcher

RobotsMode: TypeAlias = Literal["respect", "warn", "off"]
AGENT = "longstride"
_MAX_ORIGINS = 256
_MAX_BYTES = 500_000


class _Rules(Protocol):
    def can_fetch(self, url: str, user_agent: str) -> bool: ...


class Robots:
    """Answers whether a page may be visited. A site without readable rules allows everything.

    ``limit_s``: seconds that its rules are waited for.
    """

    def __init__(self, fetcher: Fetcher, mode: RobotsMode, limit_s: float = 5.0) -> None:
        self._fetcher = fetcher
        self._limit_s = limit_s
        self._mode = mode
        self._rules: OrderedDict[str, _Rules | None] = OrderedDict()

    async def check(self, url: httpx.URL) -> str:
        """A note when the site asks robots to stay away (mode ``warn``). Raises ToolError in mode ``respect``."""
        if self._mode == "off":
            return ""
        rules = await self._of(url)
        if rules is None or rules.can_fetch(str(url), AGENT):
            return ""
        if self._mode == "respect":
            raise ToolError("forbidden", "the site's robots.txt asks not to visit this page; use another source")
        return "the site's robots.txt asks robots not to visit this page"

    async def _of(self, url: httpx.URL) -> _Rules | None:
        origin = f"{url.scheme}://{url.netloc.decode('ascii')}"
        if origin not in self._rules:
            self._rules[origin] = await self._load(origin)
            while len(self._rules) > _MAX_ORIGINS:
                self._rules.popitem(last=False)
        return self._rules[origin]

    async def _load(self, origin: str) -> _Rules | None:
        from protego import Protego

        try:
            async with asyncio.timeout(self._limit_s):
                page = await self._fetcher.fetch(f"{origin}/robots.txt")
        except (ToolError, TimeoutError):
            return None
        if page.status != 200 or "html" in page.content_type:
            return None
        return cast(_Rules, Protego.parse(page.body[:_MAX_BYTES].decode("utf-8-sig", "replace")))

"""A URL to a document: the recorded one, else policy, robots, fetch, extraction, and the browser where it is needed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Protocol

import httpx

from tools.base import ToolError
from tools.search.base import canonical_url
from tools.search.server import page_text
from tools.visit.cache import Document, PageCache
from tools.visit.config import VisitConfig
from tools.visit.extracted import Unreadable
from tools.visit.files import FileReader
from tools.visit.robots import Robots
from tools.visit.worker import ExtractionWorker
from tools.web.client import Fetcher, Page

_LOGGER = logging.getLogger(__name__)
_LITTLE_CHARS = 400
_RENDERED = "rendered by a browser"


class Renderer(Protocol):
    """Turns a fetched page into the page that a browser would show."""

    async def render(self, page: Page) -> Page:
        """The rendered markup. Raises ToolError."""
        ...

    async def aclose(self) -> None: ...


class PageReader:
    """Reads pages, and records what came of it. ``cache``: folder of the recordings. Owns fetcher and renderer."""

    def __init__(
        self,
        fetcher: Fetcher,
        cache: Path,
        config: VisitConfig,
        *,
        renderer: Renderer | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._config = config
        self._fetcher = fetcher
        self._renderer = renderer
        self._cache = PageCache(cache, config.cache_bytes)
        self._files = FileReader(ExtractionWorker(config.extract_s))
        self._robots = Robots(fetcher, config.robots, config.robots_s)
        self._clock = clock

    async def read(self, url: str, *, refresh: bool = False) -> Document:
        """The whole text of a page; ``refresh`` passes over a recording. Raises ToolError."""
        parsed = self._fetcher.policy.parse(url)
        if self._fetcher.policy.is_local(parsed):
            return await self._extracted(await self._fetcher.fetch(url), [])
        key = canonical_url(str(parsed))
        if self._config.offline:
            return await asyncio.to_thread(self._replayed, key)
        if not refresh:
            recorded = await asyncio.to_thread(self._cache.get, key, self._clock(), self._config.max_age_s)
            if recorded is not None:
                return recorded
        try:
            document = await self._fetched(parsed)
        except ToolError as error:
            await asyncio.to_thread(self._cache.put_failure, key, error, self._clock())
            raise
        await asyncio.to_thread(self._cache.put, key, document)
        return document

    async def aclose(self) -> None:
        await self._fetcher.aclose()
        if self._renderer is not None:
            await self._renderer.aclose()
        await asyncio.to_thread(self._files.close)
        self._cache.close()

    def _replayed(self, key: str) -> Document:
        recorded = self._cache.get(key, self._clock())
        if recorded is not None:
            return recorded
        failure = self._cache.failure(key, self._clock())
        if failure is None:
            _LOGGER.warning("offline: no recording of the page %s", key)
            failure = ToolError("not_found", "offline: this page was not recorded, and nothing is fetched")
        raise failure

    async def _fetched(self, url: httpx.URL) -> Document:
        notes: list[str] = []

        async def admitted(target: httpx.URL) -> None:
            note = await self._robots.check(target)
            if note and note not in notes:
                notes.append(note)

        await admitted(url)
        page = await self._fetcher.fetch(str(url), admitted)
        try:
            document = await self._extracted(page, notes)
        except _NoText:
            if self._renderer is None:
                raise
            return await self._extracted(await self._renderer.render(page), [*notes, _RENDERED])
        if self._renderer is None or not _needs_scripts(page, document):
            return document
        try:
            rendered = await self._extracted(await self._renderer.render(page), [*notes, _RENDERED])
        except ToolError:
            return document
        return rendered if len(rendered.text) > len(document.text) else document

    async def _extracted(self, page: Page, notes: list[str]) -> Document:
        if page.status >= 400:
            raise _status_error(page)
        notes = [*notes, page.note] if page.note else notes
        own = page_text(page.body.decode("utf-8", "replace")) if page.local else None
        if own is not None:
            return Document(page.url, own[0], own[1], tuple(notes), self._clock())
        suffix = PurePosixPath(page.url.split("?")[0].split("://", 1)[-1].partition("/")[2]).suffix
        try:
            found = await asyncio.to_thread(self._files.read, page.body, suffix, page.url, page.content_type)
        except Unreadable as error:
            raise ToolError(error.kind, f"{error}; use another source") from error
        if not found.text.strip():
            raise _NoText("parse", "the page has no text (it may need JavaScript); use another source")
        return Document(page.url, found.title, found.text, (*notes, *found.notes), self._clock(), found.whole)


class _NoText(ToolError):
    """A page that a browser may have more to say about."""


def _needs_scripts(page: Page, document: Document) -> bool:
    """Next to no text, and scripts: perhaps a page that they would write."""
    return len(document.text) < _LITTLE_CHARS and b"<script" in page.body.lower()


def _status_error(page: Page) -> ToolError:
    if page.status in (404, 410):
        return ToolError("not_found", f"no such page (HTTP {page.status}); search for its present address")
    if page.status in (401, 402, 403, 407, 429, 451):
        return ToolError("http_status", f"the site refuses to show the page (HTTP {page.status}); use another source")
    advice = "try again later or use another source" if page.status >= 500 else "use another source"
    return ToolError("http_status", f"the site answered HTTP {page.status}; {advice}")

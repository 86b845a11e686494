"""The ``visit`` tool: policy, fetch, sniff, text, page cache, and the part of the page that is wanted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from memory.records import JsonValue, Observation, Source
from tools.base import Arguments, CallContext, ToolError
from tools.search.base import canonical_url
from tools.search.server import page_text
from tools.visit.cache import Document, PageCache
from tools.visit.extracted import Unreadable
from tools.visit.files import FileReader
from tools.visit.robots import Robots, RobotsMode
from tools.visit.window import for_goal, places, windows
from tools.visit.worker import ExtractionWorker
from tools.web.client import Fetcher, Page

Url = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=8192)]
_OLD_S = 3600.0


class VisitConfig(BaseModel):
    """``window_chars``: the most text of one page in an observation. ``max_age_s``: how long a recorded page is used
    again. ``offline``: only recorded pages (and the local corpus). ``extract_s``: limit for parsing one document."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    window_chars: int = Field(default=6000, ge=500)
    max_age_s: float = Field(default=86_400.0, ge=0)
    offline: bool = False
    robots: RobotsMode = "respect"
    extract_s: float = Field(default=20.0, gt=0)
    cache_bytes: int = Field(default=256_000_000, gt=0)
    timeout_s: float = Field(default=120.0, gt=0)


class VisitArguments(Arguments):
    """``goal``: what to look for; ``page``: which window of a long page; ``find``: words to locate in the page."""

    urls: list[Url] = Field(min_length=1, max_length=3, description="1 to 3 whole URLs")
    goal: str = Field(default="", max_length=2000, description="what you want to learn; its best passages come first")
    page: int = Field(default=1, ge=1, description="which part of a long page to read, in order and in full")
    find: str = Field(default="", max_length=200, description="exact words to locate in the page")

    @model_validator(mode="before")
    @classmethod
    def _one_url(cls, data: JsonValue) -> JsonValue:
        """A single ``url``, or a bare string, is taken too: models write both."""
        if isinstance(data, dict) and "urls" not in data and "url" in data:
            data = {"urls": data["url"], **{key: value for key, value in data.items() if key != "url"}}
        if isinstance(data, dict) and isinstance(data.get("urls"), str):
            data = {**data, "urls": [data["urls"]]}
        return data


class VisitTool:
    """``visit``. ``cache``: folder of the page cache. The fetcher is used, and closed, by this tool."""

    name: ClassVar[str] = "visit"
    description: ClassVar[str] = (
        "Read web pages (HTML, PDF, text). With a goal, the passages that speak to it come first; "
        "page=2, 3, … reads on in a long page; find locates exact words."
    )
    arguments: type[VisitArguments] = VisitArguments

    def __init__(
        self,
        fetcher: Fetcher,
        cache: Path,
        config: VisitConfig | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._config = config or VisitConfig()
        self.timeout_s = self._config.timeout_s
        self._fetcher = fetcher
        self._cache = PageCache(cache, self._config.cache_bytes)
        self._reader = FileReader(ExtractionWorker(self._config.extract_s))
        self._robots = Robots(fetcher, self._config.robots)
        self._clock = clock

    async def run(self, arguments: VisitArguments, context: CallContext) -> Observation:
        """Raises ToolError when none of the pages could be read."""
        urls = list(dict.fromkeys(arguments.urls))
        results = await asyncio.gather(*(self._try(url) for url in urls))
        failures = [result for result in results if isinstance(result, ToolError)]
        if len(failures) == len(urls):
            raise failures[0]
        blocks: list[str] = []
        sources: list[Source] = []
        for url, result in zip(urls, results, strict=True):
            if isinstance(result, ToolError):
                blocks.append(f"{url}\ncould not be read ({result.kind}): {result}")
                continue
            sources.append(Source(result.url, result.title))
            blocks.append(self._show(result, arguments))
        return Observation(context.call_id, self.name, "\n\n".join(blocks), sources=tuple(sources))

    async def read(self, url: str) -> Document:
        """The whole text of a page, from the cache when it is fresh there. Raises ToolError."""
        parsed = self._fetcher.policy.parse(url)
        if self._fetcher.policy.is_local(parsed):
            return await self._extracted(await self._fetcher.fetch(url), "")
        key = canonical_url(str(parsed))
        age = None if self._config.offline else self._config.max_age_s
        recorded = await asyncio.to_thread(self._cache.get, key, self._clock(), age)
        if recorded is not None:
            return recorded
        if self._config.offline:
            raise ToolError("not_found", "offline: this page was not recorded, and nothing is fetched")
        warning = await self._robots.check(parsed)
        document = await self._extracted(await self._fetcher.fetch(url), warning)
        await asyncio.to_thread(self._cache.put, key, document)
        return document

    async def aclose(self) -> None:
        await self._fetcher.aclose()
        await asyncio.to_thread(self._reader.close)
        self._cache.close()

    async def _try(self, url: str) -> Document | ToolError:
        try:
            return await self.read(url)
        except ToolError as error:
            return error

    async def _extracted(self, page: Page, warning: str) -> Document:
        if page.status >= 400:
            raise _status_error(page)
        notes = tuple(note for note in (warning, page.note) if note)
        own = page_text(page.body.decode("utf-8", "replace")) if page.local else None
        if own is not None:
            return Document(page.url, own[0], own[1], notes, self._clock())
        suffix = PurePosixPath(page.url.split("?")[0].split("://", 1)[-1].partition("/")[2]).suffix
        try:
            found = await asyncio.to_thread(self._reader.read, page.body, suffix, page.url, page.content_type)
        except Unreadable as error:
            raise ToolError(error.kind, f"{error}; use another source") from error
        if not found.text.strip():
            raise ToolError("parse", "the page has no text (it may need JavaScript); use another source")
        return Document(page.url, found.title, found.text, (*notes, *found.notes), self._clock())

    def _show(self, document: Document, arguments: VisitArguments) -> str:
        text = document.text.strip()
        cuts = windows(text, self._config.window_chars)
        number = min(arguments.page, len(cuts))
        body, place = text, "whole page"
        if arguments.find.strip():
            body = places(text, arguments.find, self._config.window_chars)
            body = body or f'"{arguments.find}" does not occur in this page ({len(text):,} characters)'
            place = f"found places; page has {len(cuts)} parts"
        elif len(cuts) > 1 and arguments.goal.strip() and arguments.page == 1:
            body = for_goal(text, arguments.goal, self._config.window_chars)
            place = f"extract of {len(text):,} characters; page=2 to {len(cuts)}, or no goal, reads them in order"
        elif len(cuts) > 1 or arguments.page > 1:
            body = text[slice(*cuts[number - 1])].strip()
            more = f"; page={number + 1} reads on" if number < len(cuts) else "; this is the last"
            missing = f"no page {arguments.page}: " if arguments.page > len(cuts) else ""
            place = f"{missing}page {number} of {len(cuts)}{more}"
        title = " ".join(document.title.split()).replace("[", "(").replace("]", ")") or document.url
        notes = [place, *document.notes]
        if self._clock() - document.fetched > _OLD_S:
            notes.append(f"as fetched on {datetime.fromtimestamp(document.fetched, UTC):%Y-%m-%d}")
        return f"[{title}]({document.url})\n({'; '.join(notes)})\n\n{body}"


def _status_error(page: Page) -> ToolError:
    if page.status in (404, 410):
        return ToolError("not_found", f"no such page (HTTP {page.status}); search for its present address")
    if page.status in (401, 402, 403, 429, 451):
        return ToolError("http_status", f"the site refuses to show the page (HTTP {page.status}); use another source")
    advice = "try again later or use another source" if page.status >= 500 else "use another source"
    return ToolError("http_status", f"the site answered HTTP {page.status}; {advice}")

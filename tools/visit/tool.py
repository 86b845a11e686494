"""The ``visit`` tool: pages, and the part of each that is wanted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints, model_validator

from memory.records import JsonValue, Observation, Source
from tools.base import Arguments, CallContext, ToolError
from tools.visit.cache import Document
from tools.visit.config import VisitConfig
from tools.visit.goal import GoalExtractor
from tools.visit.reader import PageReader, Renderer
from tools.visit.window import for_goal, places, windows
from tools.web.client import Fetcher

Url = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=8192)]
_OLD_S = 3600.0
_WHOLE = "whole page"
_MORE_CHARS = 300
"""A whole page that has so much more than its main text is pointed out: a box or a side table may be among it."""


class VisitArguments(Arguments):
    """``goal``: what to look for; ``page``: which window of a long page; ``find``: words to locate in the page;
    ``mode``: the main text, or everything on the page; ``refresh``: fetch a page again that was read before."""

    urls: list[Url] = Field(min_length=1, max_length=3, description="1 to 3 whole URLs")
    goal: str = Field(default="", max_length=2000, description="what you want to learn; its best passages come first")
    page: int = Field(default=1, ge=1, description="which part of a long page to read, in order and in full")
    find: str = Field(default="", max_length=200, description="exact words to locate in the page")
    mode: Literal["main", "page"] = Field(
        default="main", description="main: the main text; page: everything, with boxes, side tables and menus"
    )
    refresh: bool = Field(default=False, description="fetch the page again although it was read before")

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
    """``visit``. ``cache``: folder of the recorded pages. The fetcher is used, and closed, by this tool."""

    name: ClassVar[str] = "visit"
    description: ClassVar[str] = (
        "Read web pages (HTML, PDF, office and data files, text). With a goal, the passages that speak to it come "
        "first; page=2, 3, … reads on in a long page; find locates exact words; mode=page shows all of a page."
    )
    arguments: type[VisitArguments] = VisitArguments

    def __init__(
        self,
        fetcher: Fetcher,
        cache: Path,
        config: VisitConfig | None = None,
        *,
        extractor: GoalExtractor | None = None,
        renderer: Renderer | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._config = config or VisitConfig()
        self.timeout_s = self._config.timeout_s
        self._reader = PageReader(fetcher, cache, self._config, renderer=renderer, clock=clock)
        self._extractor = extractor
        self._clock = clock

    async def run(self, arguments: VisitArguments, context: CallContext) -> Observation:
        """Raises ToolError when none of the pages could be read."""
        urls = list(dict.fromkeys(arguments.urls))
        results = await asyncio.gather(*(self._try(url, arguments.refresh) for url in urls))
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
            blocks.append(await self._show(result, arguments, context.step))
        return Observation(context.call_id, self.name, "\n\n".join(blocks), sources=tuple(sources))

    async def read(self, url: str) -> Document:
        """The whole text of a page, from the recordings when it is fresh there. Raises ToolError."""
        return await self._reader.read(url)

    async def aclose(self) -> None:
        await self._reader.aclose()

    async def _try(self, url: str, refresh: bool) -> Document | ToolError:
        try:
            return await self._reader.read(url, refresh=refresh)
        except ToolError as error:
            return error

    async def _show(self, document: Document, arguments: VisitArguments, step: int) -> str:
        whole = arguments.mode == "page" and document.whole
        text = (document.whole if whole else document.text).strip()
        body, notes = await self._part(text, arguments, step)
        title = " ".join(document.title.split()).replace("[", "(").replace("]", ")") or document.url
        notes += document.notes
        if not whole and len(document.whole) > len(text) + _MORE_CHARS:
            notes = ["whole main text" if note == _WHOLE else note for note in notes]
            notes.append(f"mode=page shows all {len(document.whole):,} characters of the page")
        if self._clock() - document.fetched > _OLD_S:
            notes.append(f"as fetched on {datetime.fromtimestamp(document.fetched, UTC):%Y-%m-%d}")
        return f"[{title}]({document.url})\n({'; '.join(notes)})\n\n{body}"

    async def _part(self, text: str, arguments: VisitArguments, step: int) -> tuple[str, list[str]]:
        """The part of a page that is asked for, and what to say of it."""
        chars = self._config.window_chars
        cuts = windows(text, chars)
        number = min(arguments.page, len(cuts))
        if arguments.find.strip():
            found = places(text, arguments.find, chars)
            missing = f'"{arguments.find}" does not occur in this page ({len(text):,} characters)'
            return found or missing, [f"found places; page has {len(cuts)} parts"]
        if len(cuts) > 1 and arguments.goal.strip() and arguments.page == 1:
            body, notes = await self._for_goal(text, arguments.goal, step)
            place = f"extract of {len(text):,} characters; page=2 to {len(cuts)}, or no goal, reads them in order"
            return body, [place, *notes]
        if len(cuts) > 1 or arguments.page > 1:
            more = f"; page={number + 1} reads on" if number < len(cuts) else "; this is the last"
            missing = f"no page {arguments.page}: " if arguments.page > len(cuts) else ""
            return text[slice(*cuts[number - 1])].strip(), [f"{missing}page {number} of {len(cuts)}{more}"]
        return text, [_WHOLE]

    async def _for_goal(self, text: str, goal: str, step: int) -> tuple[str, list[str]]:
        notes: list[str] = []
        if self._extractor is not None:
            try:
                return await self._extractor.extract(text, goal, step), ["extracted by a model"]
            except ToolError as error:
                notes.append(f"passages by rank: the extracting model failed ({error})")
        return for_goal(text, goal, self._config.window_chars), notes

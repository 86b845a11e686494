"""SearXNG, the metasearch engine that people host themselves; no account needed."""

from __future__ import annotations

from datetime import date

import httpx
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tools.base import ToolError
from tools.search.base import Hit

_MAX_BYTES = 5_000_000
_MAX_PAGES = 3


class SearxngConfig(BaseModel):
    """``url``: base of the instance (SEARXNG_URL); it is configuration, so it may be local. ``timeout_s``: seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str = Field(pattern=r"^https?://")
    timeout_s: float = Field(default=20.0, gt=0)


class _Result(BaseModel):
    url: str
    title: str | None = None
    content: str | None = None
    publishedDate: str | None = None


class _Answer(BaseModel):
    results: list[_Result] = []


class Searxng:
    """`SearchProvider` over the JSON interface (``search.formats`` of the instance must list ``json``)."""

    name = "searxng"

    def __init__(self, config: SearxngConfig) -> None:
        self._url = f"{config.url.rstrip('/')}/search"
        self._client = httpx.AsyncClient(timeout=config.timeout_s, trust_env=False, follow_redirects=False)

    async def search(self, query: str, n: int, lang: str | None = None, since: str | None = None) -> list[Hit]:
        """Pages of results are asked for until there are ``n``. ``since`` becomes the nearest range that it offers."""
        parameters = {"q": query, "format": "json", "language": lang or "all"}
        if since:
            parameters["time_range"] = _time_range(since)
        hits: dict[str, Hit] = {}
        for number in range(1, _MAX_PAGES + 1):
            results = (await self._ask({**parameters, "pageno": str(number)})).results
            before = len(hits)
            for result in results:
                day = (result.publishedDate or "")[:10]
                hits.setdefault(result.url, Hit(result.title or "", result.url, result.content or "", day, self.name))
            if len(hits) >= n or len(hits) == before:
                break
        return list(hits.values())[:n]

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _ask(self, parameters: dict[str, str]) -> _Answer:
        try:
            response = await self._client.get(self._url, params=parameters)
        except httpx.TimeoutException as error:
            raise ToolError("timeout", "the search engine did not answer in time") from error
        except httpx.HTTPError as error:
            raise ToolError("network", f"the search engine cannot be reached ({type(error).__name__})") from error
        if response.status_code == 403:
            raise ToolError("http_status", "the SearXNG instance refuses JSON (search.formats must list json)")
        if response.status_code == 429:
            raise ToolError("limit", "the search engine limits the rate of queries; wait, or ask fewer")
        if response.status_code != 200:
            raise ToolError("http_status", f"the search engine answered HTTP {response.status_code}")
        if len(response.content) > _MAX_BYTES:
            raise ToolError("too_large", "the search engine's answer is too large")
        try:
            return _Answer.model_validate_json(response.content)
        except ValidationError as error:
            raise ToolError("parse", "the search engine's answer is not the JSON it should be") from error


def _time_range(since: str) -> str:
    try:
        days = (date.today() - date.fromisoformat(since[:10])).days  # noqa: DTZ011 - days are near enough
    except ValueError as error:
        raise ToolError("invalid_arguments", f"since must be an ISO date, not {since!r}") from error
    return "day" if days <= 1 else "month" if days <= 31 else "year"

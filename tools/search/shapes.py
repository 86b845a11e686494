"""What each search provider is asked and what it answers: a table of request and response shapes, no I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Literal, TypeAlias

from memory.records import JsonValue
from tools.base import ToolError

Payload: TypeAlias = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Ask:
    """One request. ``page`` counts from 1; ``lang``: BCP 47 tag; ``since``: first day wanted."""

    query: str
    n: int
    page: int = 1
    lang: str | None = None
    since: date | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """One provider. Field names are alternatives in order of preference; a path is the keys from the top.

    ``payload`` becomes the query string of a GET and the JSON body of a POST. ``keys`` and ``urls`` name environment
    variables, the first of each being the proper one; without ``header`` the provider takes no key, and without
    ``base`` it has no server of its own. ``most``: results in one answer, 0 when nothing says how many.
    """

    name: str
    method: Literal["GET", "POST"]
    base: str
    path: str
    payload: Callable[[Ask], Payload]
    results: tuple[str, ...]
    title: tuple[str, ...] = ("title",)
    url: tuple[str, ...] = ("url",)
    snippet: tuple[str, ...] = ("snippet",)
    date: tuple[str, ...] = ()
    header: str = ""
    prefix: str = ""
    keys: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    most: int = 0
    pages: int = 1
    rpm: int = 60
    hint: str = ""


def _serper(ask: Ask) -> Payload:
    payload: Payload = {"q": ask.query, "num": ask.n, "page": ask.page}
    if ask.lang:
        payload["hl"] = ask.lang.split("-")[0].lower()
    if ask.since:
        payload["tbs"] = f"cdr:1,cd_min:{ask.since.month}/{ask.since.day}/{ask.since.year}"
    return payload


def _tavily(ask: Ask) -> Payload:
    payload: Payload = {"query": ask.query, "max_results": ask.n, "search_depth": "basic"}
    return {**payload, "start_date": ask.since.isoformat()} if ask.since else payload


def _brave(ask: Ask) -> Payload:
    payload: Payload = {"q": ask.query, "count": ask.n, "offset": ask.page - 1}
    if ask.lang:
        payload["search_lang"] = ask.lang.split("-")[0].lower()
    if ask.since:
        payload["freshness"] = f"{ask.since.isoformat()}to{_today().isoformat()}"
    return payload


def _exa(ask: Ask) -> Payload:
    payload: Payload = {"query": ask.query, "numResults": ask.n, "type": "auto", "contents": {"highlights": True}}
    return {**payload, "startPublishedDate": f"{ask.since.isoformat()}T00:00:00.000Z"} if ask.since else payload


def _jina(ask: Ask) -> Payload:
    payload: Payload = {"q": ask.query, "num": ask.n}
    return {**payload, "hl": ask.lang.split("-")[0].lower()} if ask.lang else payload


def _searxng(ask: Ask) -> Payload:
    payload: Payload = {"q": ask.query, "format": "json", "language": ask.lang or "all", "pageno": ask.page}
    return {**payload, "time_range": _time_range(ask.since)} if ask.since else payload


def _time_range(since: date) -> str:
    days = (_today() - since).days
    return "day" if days <= 1 else "month" if days <= 31 else "year"


def _today() -> date:
    return date.today()  # noqa: DTZ011 - days are near enough


SHAPES: Mapping[str, Shape] = {
    shape.name: shape
    for shape in (
        Shape(
            "serper", "POST", "https://google.serper.dev", "/search", _serper, ("organic",), url=("link",),
            date=("date",), header="X-API-KEY", keys=("SERPER_API_KEY", "SERPER_KEY_ID"), urls=("SERPER_BASE_URL",),
            most=100, rpm=300,
        ),
        Shape(
            "tavily", "POST", "https://api.tavily.com", "/search", _tavily, ("results",), snippet=("content",),
            date=("published_date",), header="Authorization", prefix="Bearer ", keys=("TAVILY_API_KEY",),
            urls=("TAVILY_BASE_URL",), most=20, rpm=100,
        ),
        Shape(
            "brave", "GET", "https://api.search.brave.com", "/res/v1/web/search", _brave, ("web", "results"),
            snippet=("description", "extra_snippets"), date=("page_age", "age"), header="X-Subscription-Token",
            keys=("BRAVE_API_KEY", "BRAVE_SEARCH_API_KEY"), urls=("BRAVE_BASE_URL",), most=20, pages=3, rpm=60,
        ),
        Shape(
            "exa", "POST", "https://api.exa.ai", "/search", _exa, ("results",),
            snippet=("highlights", "summary", "text"), date=("publishedDate",), header="x-api-key",
            keys=("EXA_API_KEY",), urls=("EXA_BASE_URL",), most=100, rpm=300,
        ),
        Shape(
            "jina", "GET", "https://s.jina.ai", "/", _jina, ("data",), snippet=("description", "content"),
            date=("date", "publishedTime"), header="Authorization", prefix="Bearer ",
            keys=("JINA_API_KEY", "JINA_API_KEYS"), urls=("JINA_BASE_URL",), most=20, rpm=100,
        ),
        Shape(
            "searxng", "GET", "", "/search", _searxng, ("results",), snippet=("content",), date=("publishedDate",),
            urls=("SEARXNG_URL", "SEARXNG_BASE_URL", "SEARXNG_API_BASE"), pages=3,
            hint="search.formats of the instance must list json",
        ),
    )
}  # fmt: skip
"""In the order in which they are asked when the configuration names none."""
KEYLESS = "ddgs"
"""Searches without a key through the extra ``search``; best effort, so only when it is asked for."""
NAMES: tuple[str, ...] = (*SHAPES, KEYLESS)


def since_date(since: str | None) -> date | None:
    """Raises ToolError for what is no ISO date."""
    if not since:
        return None
    try:
        return date.fromisoformat(since[:10])
    except ValueError as error:
        raise ToolError("invalid_arguments", f"since must be an ISO date, not {since[:40]!r}") from error

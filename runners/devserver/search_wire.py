"""Requests and answers of the search providers, seen from their side. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from memory.records import JsonValue
from tools.search.base import Hit

Json: TypeAlias = dict[str, JsonValue]
Type: TypeAlias = Literal["text", "number", "flag", "other"]


@dataclass(frozen=True, slots=True)
class Emulated:
    """``fields``: what a request may hold (a query string holds numbers as text). ``count``, ``page``: the fields that
    say how many results and which page of them; ``first``: the number of the first page; ``most``: results a page.
    ``denied`` and ``invalid``: statuses of a wrong key and of a request that is not understood."""

    query: str
    answer: Callable[[str, Sequence[Hit]], Json]
    fields: Mapping[str, Type] = field(default_factory=dict)
    count: str = ""
    page: str = ""
    first: int = 1
    most: int = 20
    denied: int = 401
    invalid: int = 400
    message: tuple[str, ...] = ("error",)
    required: Mapping[str, str] = field(default_factory=dict)

    def wrong(self, parameters: Mapping[str, JsonValue]) -> str:
        """What is wrong with a request, empty for nothing."""
        for name, value in parameters.items():
            wanted = self.fields.get(name)
            if wanted is None:
                return f"unknown parameter {name}"
            if not _fits(value, wanted):
                return f"{name} must be a {wanted}"
        for name, needed in self.required.items():
            if parameters.get(name) != needed:
                return f"{name} must be {needed}"
        query = parameters.get(self.query)
        if not isinstance(query, str) or not query.strip():
            return f"{self.query} is missing"
        count = _number(parameters, self.count, 1)
        if count < 1 or (self.count and count > self.most):
            return f"{self.count} must be between 1 and {self.most}"
        return ""

    def read(self, parameters: Mapping[str, JsonValue]) -> tuple[str, int, int]:
        """(query, results a page, page from 1)."""
        default = min(10, self.most)
        page = _number(parameters, self.page, self.first) - self.first + 1
        return str(parameters[self.query]), _number(parameters, self.count, default), max(1, page)

    def body(self, query: str, hits: Sequence[Hit]) -> bytes:
        return json.dumps(self.answer(query, hits)).encode()

    def error(self, text: str) -> bytes:
        value: JsonValue = text
        for name in reversed(self.message):
            value = {name: value}
        return json.dumps(value).encode()


def _fits(value: JsonValue, wanted: Type) -> bool:
    if wanted == "number":
        return (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, str) and value.isdigit())
    if wanted == "flag":
        return isinstance(value, bool)
    return wanted == "other" or isinstance(value, str)


def _number(parameters: Mapping[str, JsonValue], name: str, default: int) -> int:
    value = parameters.get(name, default)
    return int(value) if isinstance(value, int | str) else default


def _serper(query: str, hits: Sequence[Hit]) -> Json:
    found: list[JsonValue] = [
        {
            "title": hit.title,
            "link": hit.url,
            "snippet": hit.snippet,
            "position": n,
            **({"date": hit.date} if hit.date else {}),
        }
        for n, hit in enumerate(hits, 1)
    ]
    return {"searchParameters": {"q": query, "type": "search"}, "organic": found, "credits": 1}


def _tavily(query: str, hits: Sequence[Hit]) -> Json:
    found: list[JsonValue] = [
        {
            "title": h.title,
            "url": h.url,
            "content": h.snippet,
            "score": 0.5,
            "raw_content": None,
            "published_date": h.date,
        }
        for h in hits
    ]
    return {"query": query, "answer": None, "images": [], "results": found, "response_time": 0.01}


def _brave(query: str, hits: Sequence[Hit]) -> Json:
    found: list[JsonValue] = [
        {"title": h.title, "url": h.url, "description": h.snippet, "extra_snippets": [], "page_age": h.date}
        for h in hits
    ]
    head: Json = {"type": "search", "query": {"original": query}}
    return {**head, "web": {"type": "search", "results": found}} if found else head


def _exa(query: str, hits: Sequence[Hit]) -> Json:
    found: list[JsonValue] = [
        {
            "id": h.url,
            "title": h.title,
            "url": h.url,
            "publishedDate": h.date or None,
            "author": None,
            "highlights": [h.snippet],
        }
        for h in hits
    ]
    return {"requestId": "emulated", "resolvedSearchType": "neural", "results": found}


def _jina(query: str, hits: Sequence[Hit]) -> Json:
    found: list[JsonValue] = [{"title": h.title, "url": h.url, "description": h.snippet, "date": h.date} for h in hits]
    return {"code": 200, "status": 20000, "data": found}


def _searxng(query: str, hits: Sequence[Hit]) -> Json:
    found: list[JsonValue] = [
        {"url": h.url, "title": h.title, "content": h.snippet, "engine": "emulated", "publishedDate": h.date or None}
        for h in hits
    ]
    rest: Json = {"answers": [], "infoboxes": [], "suggestions": [], "unresponsive_engines": []}
    return {"query": query, "results": found, **rest}


EMULATED: Mapping[str, Emulated] = {
    "serper": Emulated(
        "q",
        _serper,
        {"q": "text", "num": "number", "page": "number", "hl": "text", "gl": "text", "tbs": "text", "location": "text"},
        count="num", page="page", most=100, denied=403, message=("message",),
    ),
    "tavily": Emulated(
        "query",
        _tavily,
        {
            "query": "text", "max_results": "number", "search_depth": "text", "topic": "text", "include_answer": "flag",
            "include_raw_content": "flag", "include_domains": "other", "exclude_domains": "other", "start_date": "text",
        },
        count="max_results", most=20, message=("detail", "error"),
    ),
    "brave": Emulated(
        "q",
        _brave,
        {
            "q": "text", "count": "number", "offset": "number", "freshness": "text", "country": "text",
            "search_lang": "text", "extra_snippets": "text",
        },
        count="count", page="offset", first=0, most=20, invalid=422, message=("error", "detail"),
    ),
    "exa": Emulated(
        "query",
        _exa,
        {
            "query": "text", "numResults": "number", "type": "text", "contents": "other", "startPublishedDate": "text",
            "includeDomains": "other",
        },
        count="numResults", most=100,
    ),
    "jina": Emulated(
        "q",
        _jina,
        {"q": "text", "num": "number", "hl": "text", "gl": "text"},
        count="num", message=("message",),
    ),
    "searxng": Emulated(
        "q",
        _searxng,
        {
            "q": "text", "format": "text", "categories": "text", "engines": "text", "language": "text",
            "pageno": "number", "time_range": "text",
        },
        page="pageno", most=20, invalid=403, required={"format": "json"},
    ),
}  # fmt: skip
"""By the names of `tools.search.shapes.SHAPES`."""

"""The ``search`` tool: a few queries at once, the results as numbered links with snippets."""

from __future__ import annotations

import asyncio
from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints, model_validator

from memory.records import JsonValue, Observation, Source
from tools.base import Arguments, CallContext, ToolError
from tools.search.base import Hit, SearchProvider, canonical_url
from tools.search.config import SearchConfig
from tools.web.blocklist import Blocklist

Query = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1000)]


class SearchArguments(Arguments):
    """``queries``: 1 to 5 search queries, each answered by itself."""

    queries: list[Query] = Field(min_length=1, max_length=5, description="1 to 5 queries, each in its own words")

    @model_validator(mode="before")
    @classmethod
    def _one_query(cls, data: JsonValue) -> JsonValue:
        """A single ``query``, or a bare string, is taken too: models write both."""
        if isinstance(data, dict) and "queries" not in data and "query" in data:
            data = {"queries": data["query"], **{key: value for key, value in data.items() if key != "query"}}
        if isinstance(data, dict) and isinstance(data.get("queries"), str):
            data = {**data, "queries": [data["queries"]]}
        return data


class SearchTool:
    """``search``: every query goes to the provider; a page found by an earlier query is not listed again."""

    name: ClassVar[str] = "search"
    description: ClassVar[str] = (
        "Search for pages. Give one or more queries; each returns a numbered list of [title](url) with a snippet. "
        "Read a page with visit before you rely on it."
    )
    arguments: type[SearchArguments] = SearchArguments

    def __init__(
        self, provider: SearchProvider, config: SearchConfig | None = None, blocked: Blocklist | None = None
    ) -> None:
        """``blocked``: the whole blocklist; None takes that of the configuration without its named lists."""
        self._provider = provider
        self._config = config or SearchConfig()
        self._blocked = blocked or Blocklist(self._config.blocked)
        self.timeout_s = self._config.timeout_s

    async def run(self, arguments: SearchArguments, context: CallContext) -> Observation:
        """Raises ToolError when every query failed."""
        queries = list(dict.fromkeys(arguments.queries))
        found = await asyncio.gather(*(self._ask(query) for query in queries))
        failures = [result for result in found if isinstance(result, ToolError)]
        if len(failures) == len(queries):
            raise failures[0]
        seen: dict[str, Source] = {}
        blocks = [self._block(query, result, seen) for query, result in zip(queries, found, strict=True)]
        return Observation(context.call_id, self.name, "\n\n".join(blocks), sources=tuple(seen.values()))

    async def aclose(self) -> None:
        await self._provider.aclose()

    async def _ask(self, query: str) -> list[Hit] | ToolError:
        try:
            return await self._provider.search(query, self._config.results)
        except ToolError as error:
            return error

    def _block(self, query: str, result: list[Hit] | ToolError, seen: dict[str, Source]) -> str:
        if isinstance(result, ToolError):
            return f'Search for "{query}" failed: {result}'
        lines: list[str] = []
        repeated = 0
        for hit in result:
            key = canonical_url(hit.url)
            if self._blocked.blocks(hit.url):
                continue
            if key in seen:
                repeated += 1
                continue
            seen[key] = Source(hit.url, hit.title)
            lines.append(_entry(len(lines) + 1, hit))
        if not lines:
            what = "nothing new (its results are listed above)" if repeated else "nothing found; try other words"
            return f'Results for "{query}": {what}.'
        head = f'Results for "{query}" ({len(lines)}{f", {repeated} more already listed above" if repeated else ""}):'
        return "\n".join([head, *lines])


def _entry(number: int, hit: Hit) -> str:
    title = " ".join(hit.title.split()).replace("[", "(").replace("]", ")") or hit.url
    date = f" ({hit.date})" if hit.date else ""
    snippet = " ".join(hit.snippet.split())
    return f"{number}. [{title}]({hit.url}){date}" + (f"\n   {snippet}" if snippet else "")

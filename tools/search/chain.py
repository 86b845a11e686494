"""Providers one after another: the next is asked when one fails, and when one finds nothing."""

from __future__ import annotations

from collections.abc import Sequence

from tools.base import ToolError
from tools.search.base import Hit, SearchProvider


class SearchChain:
    """A `SearchProvider` over others, in order of preference. Raises the last failure when all of them fail."""

    def __init__(self, providers: Sequence[SearchProvider]) -> None:
        if not providers:
            raise ValueError("a chain needs a provider")
        self._providers = tuple(providers)
        self.name = "+".join(provider.name for provider in providers)

    async def search(self, query: str, n: int, lang: str | None = None, since: str | None = None) -> list[Hit]:
        failure: ToolError | None = None
        answered = False
        for provider in self._providers:
            try:
                hits = await provider.search(query, n, lang, since)
            except ToolError as error:
                failure = error
                continue
            answered = True
            if hits:
                return hits
        if failure is not None and not answered:
            raise failure
        return []

    async def aclose(self) -> None:
        for provider in self._providers:
            await provider.aclose()

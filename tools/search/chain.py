"""Providers one after another: the next is asked when one fails, and when one finds nothing; one that refuses us is
not asked again."""

from __future__ import annotations

from collections.abc import Sequence

from tools.base import ToolError
from tools.search.base import Hit, ProviderRefused, SearchProvider


class SearchChain:
    """A `SearchProvider` over others, in order of preference. Raises the last failure when all of them fail."""

    def __init__(self, providers: Sequence[SearchProvider]) -> None:
        if not providers:
            raise ValueError("a chain needs a provider")
        self._providers = tuple(providers)
        self._refused: dict[str, ProviderRefused] = {}
        self.name = "+".join(provider.name for provider in providers)

    async def search(self, query: str, n: int, lang: str | None = None, since: str | None = None) -> list[Hit]:
        failure: ToolError | None = None
        answered = False
        for provider in self._providers:
            if provider.name in self._refused:
                failure = failure or self._refused[provider.name]
                continue
            try:
                hits = await provider.search(query, n, lang, since)
            except ToolError as error:
                failure = error
                if isinstance(error, ProviderRefused):
                    self._refused[provider.name] = error
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

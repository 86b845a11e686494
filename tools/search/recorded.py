"""Searches as they were answered: used again while they are fresh, and replayed offline."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from memory.records import ErrorKind
from tools.base import ToolError
from tools.recordings import Recordings
from tools.search.base import Hit, SearchProvider

FORMAT = 1
_LOGGER = logging.getLogger(__name__)
_MAX_BYTES = 64_000_000


@dataclass(frozen=True, slots=True)
class _Answer:
    """``failed`` None: ``hits`` are the answer."""

    hits: tuple[Hit, ...] = ()
    failed: ErrorKind | None = None
    message: str = ""


_ANSWER = TypeAdapter(_Answer)


class RecordedSearch:
    """A `SearchProvider` that remembers. ``provider`` None: offline, recordings only. ``folder``: of the cache.

    A recording is found by query, count, language and date, whoever answered. Failures are replayed offline only, and
    never replace an answer.
    """

    def __init__(
        self,
        provider: SearchProvider | None,
        folder: Path,
        max_age_s: float = 86_400.0,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.name = provider.name if provider is not None else "recorded"
        self._provider = provider
        self._store = Recordings(folder / f"searches-v{FORMAT}.sqlite", _MAX_BYTES)
        self._max_age_s = max_age_s
        self._clock = clock

    async def search(self, query: str, n: int, lang: str | None = None, since: str | None = None) -> list[Hit]:
        key = json.dumps([" ".join(query.split()), n, lang, since])
        if self._provider is None:
            return self._replayed(query, await asyncio.to_thread(self._get, key, None))
        recorded = await asyncio.to_thread(self._get, key, self._max_age_s)
        if recorded is not None and recorded.failed is None:
            return list(recorded.hits)
        try:
            hits = await self._provider.search(query, n, lang, since)
        except ToolError as error:
            await asyncio.to_thread(self._put, key, _Answer(failed=error.kind, message=str(error)))
            raise
        await asyncio.to_thread(self._put, key, _Answer(tuple(hits)))
        return hits

    async def aclose(self) -> None:
        if self._provider is not None:
            await self._provider.aclose()
        self._store.close()

    @staticmethod
    def _replayed(query: str, recorded: _Answer | None) -> list[Hit]:
        if recorded is None:
            _LOGGER.warning("offline: no recording of the search %r", query)
            raise ToolError("not_found", f"offline: the search {query[:200]!r} was not recorded, and nothing is asked")
        if recorded.failed is not None:
            raise ToolError(recorded.failed, recorded.message)
        return list(recorded.hits)

    def _get(self, key: str, max_age_s: float | None) -> _Answer | None:
        found = self._store.get(key, self._clock(), max_age_s)
        if found is None:
            return None
        try:
            return _ANSWER.validate_json(found.body)
        except ValueError:  # written by something else
            return None

    def _put(self, key: str, answer: _Answer) -> None:
        if answer.failed is not None:
            standing = self._get(key, None)
            if standing is not None and standing.failed is None:
                return
        self._store.put(key, json.dumps(_ANSWER.dump_python(answer), ensure_ascii=False), self._clock())

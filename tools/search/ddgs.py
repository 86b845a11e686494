"""Search without a key, by the package ``ddgs`` (extra ``search``): best effort, the engines behind it limit rates."""

from __future__ import annotations

import asyncio
from datetime import date

from tools.base import ToolError
from tools.search.base import Hit
from tools.search.shapes import KEYLESS, since_date

INSTALL = "pip install 'longstride[search]'"


class DdgsProvider:
    """`SearchProvider`. ``timeout_s``: seconds for one query."""

    name = KEYLESS

    def __init__(self, timeout_s: float = 20.0) -> None:
        """Raises ModuleNotFoundError, naming what to install."""
        try:
            import ddgs  # noqa: F401
        except ImportError as error:
            raise ModuleNotFoundError(f"search by ddgs needs the extra: {INSTALL}") from error
        self._timeout_s = timeout_s
        self._lock = asyncio.Lock()

    async def search(self, query: str, n: int, lang: str | None = None, since: str | None = None) -> list[Hit]:
        """One query at a time: the engines refuse bursts. Raises ToolError."""
        limit = _time_limit(since_date(since))
        async with self._lock:
            return await asyncio.to_thread(self._search, query, n, lang, limit)

    async def aclose(self) -> None:
        """Nothing is kept open."""

    def _search(self, query: str, n: int, lang: str | None, limit: str | None) -> list[Hit]:
        from ddgs import DDGS
        from ddgs.exceptions import DDGSException, RatelimitException, TimeoutException

        region = (
            f"{'us' if lang == 'en' else lang.split('-')[0].lower()}-{lang.split('-')[0].lower()}" if lang else "wt-wt"
        )
        try:
            found = DDGS(timeout=int(self._timeout_s)).text(query, region=region, timelimit=limit, max_results=n)
        except RatelimitException as error:
            raise ToolError(
                "limit", "the keyless search engines limit the rate of queries; wait, or ask fewer"
            ) from error
        except TimeoutException as error:
            raise ToolError("timeout", "the keyless search engines did not answer in time") from error
        except DDGSException as error:
            if "no results" in str(error).lower():
                return []
            raise ToolError("network", f"keyless search failed ({' '.join(str(error).split())[:160]})") from error
        hits = [
            Hit(str(r.get("title", "")), str(r.get("href", "")), str(r.get("body", "")), "", KEYLESS) for r in found
        ]
        return [hit for hit in hits if hit.url.startswith(("http://", "https://"))][:n]


def _time_limit(since: date | None) -> str | None:
    if since is None:
        return None
    days = (date.today() - since).days  # noqa: DTZ011 - days are near enough
    return "d" if days <= 1 else "w" if days <= 7 else "m" if days <= 31 else "y"

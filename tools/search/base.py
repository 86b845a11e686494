"""What a search is: hits, the provider seam, and when two URLs are the same page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from tools.base import ToolError

_TRACKING = ("utm_", "fbclid", "gclid", "mc_cid", "mc_eid", "igshid", "ref_src")
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Hit:
    """One search result. ``date`` as the provider wrote it, empty when unknown; ``source`` names the provider."""

    title: str
    url: str
    snippet: str = ""
    date: str = ""
    source: str = ""


class SearchProvider(Protocol):
    """A search engine. ``lang``: BCP 47 tag; ``since``: ISO date; a provider that cannot filter ignores them."""

    name: str

    async def search(self, query: str, n: int, lang: str | None = None, since: str | None = None) -> list[Hit]:
        """At most ``n`` hits, best first; an empty list when nothing was found. Raises ToolError."""
        ...

    async def aclose(self) -> None: ...


class ProviderRefused(ToolError):
    """The provider does not accept us (a wrong key, a spent quota): asking it again in this session is of no use."""


class CorpusFault(Exception):
    """A corpus that cannot be opened: no such path, nothing readable in it, no FTS5. ``hint``: what to do."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def canonical_url(url: str) -> str:
    """A key under which the same page has one name: lower-case host, no default port, fragment or tracking query."""
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        return url.strip()
    host = (parts.hostname or "").rstrip(".")
    if port and port != _PORTS.get(parts.scheme):
        host = f"{host}:{port}"
    query = [(k, v) for k, v in parse_qsl(parts.query, keep_blank_values=True) if not k.lower().startswith(_TRACKING)]
    path = parts.path.rstrip("/")
    return urlunsplit((parts.scheme.lower(), host, path, urlencode(sorted(query)), ""))

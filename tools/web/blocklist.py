"""Pages that a run may not see: where a benchmark's answers are published, or what a person rules out."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from urllib.parse import unquote, urlsplit


class Blocklist:
    """``entries``: a host (``example.org``: it and its subdomains) or a host with the beginning of a path
    (``example.org/datasets``: that path and all below it). Letter case, ``www.`` and escapes make no difference."""

    def __init__(self, entries: Iterable[str] = ()) -> None:
        """Raises ValueError for an entry that is no host."""
        self._prefixes: dict[str, list[str]] = {}
        for entry in entries:
            host, path = _parts(entry if "://" in entry else f"https://{entry}")
            if not host:
                raise ValueError(f"not a host, nor a host with a path: {entry!r}")
            self._prefixes.setdefault(host, []).append(path)

    def __bool__(self) -> bool:
        return bool(self._prefixes)

    def blocks(self, url: str) -> bool:
        """Whether the page of a whole URL may not be seen. False for what is no URL."""
        if not self._prefixes:
            return False
        try:
            host, path = _parts(url)
        except ValueError:
            return False
        labels = host.split(".")
        return any(
            path == prefix or path.startswith(f"{prefix}/")
            for start in range(len(labels))
            for prefix in self._prefixes.get(".".join(labels[start:]), ())
        )


def _parts(url: str) -> tuple[str, str]:
    parts = urlsplit(url.strip())
    host = (parts.hostname or "").rstrip(".").removeprefix("www.")
    path = posixpath.normpath("/" + unquote(parts.path).lstrip("/"))
    return host, path.rstrip("/").lower()

"""Pages as they were read, and the reasons why others could not be: for speed, and for replaying a run offline."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from memory.records import ErrorKind
from tools.base import ToolError
from tools.recordings import Recordings

FORMAT = 2


@dataclass(frozen=True, slots=True)
class Document:
    """A page's whole text. ``url``: final; ``whole``: what mode ``page`` shows, empty when that is ``text``;
    ``fetched``: Unix time, seconds."""

    url: str
    title: str
    text: str
    notes: tuple[str, ...] = ()
    fetched: float = 0.0
    whole: str = ""


@dataclass(frozen=True, slots=True)
class _Failed:
    failed: ErrorKind
    message: str


_READ = TypeAdapter[Document | _Failed](Document | _Failed)


class PageCache:
    """Documents and failures by canonical URL; the least recently used go when ``max_bytes`` of text is passed.

    Thread-safe. A failure never replaces a document, and only a replay asks for it.
    """

    def __init__(self, folder: Path, max_bytes: int = 256_000_000) -> None:
        self._store = Recordings(folder / f"pages-v{FORMAT}.sqlite", max_bytes)
        self.file = self._store.file

    def get(self, key: str, now: float, max_age_s: float | None = None) -> Document | None:
        """The document, None when absent or older than ``max_age_s`` seconds (None: any age will do)."""
        found = self._read(key, now, max_age_s)
        return found if isinstance(found, Document) else None

    def failure(self, key: str, now: float) -> ToolError | None:
        """Why the page could not be read when it was asked for, None when it was read or never asked for."""
        found = self._read(key, now, None)
        return ToolError(found.failed, found.message) if isinstance(found, _Failed) else None

    def put(self, key: str, document: Document) -> None:
        """Record a document, replacing an older one."""
        self._store.put(key, _dump(document), document.fetched)

    def put_failure(self, key: str, error: ToolError, now: float) -> None:
        """Record that a page could not be read, unless a document stands there."""
        if self.get(key, now) is None:
            self._store.put(key, _dump(_Failed(error.kind, str(error))), now)

    def close(self) -> None:
        self._store.close()

    def _read(self, key: str, now: float, max_age_s: float | None) -> Document | _Failed | None:
        found = self._store.get(key, now, max_age_s)
        if found is None:
            return None
        try:
            return _READ.validate_json(found.body)
        except ValueError:  # written by something else
            return None


def _dump(record: Document | _Failed) -> str:
    """Lone surrogates replaced: JSON would keep them, and nothing after it can."""
    plain = _READ.dump_python(record)
    return json.dumps(plain, ensure_ascii=False).encode("utf-8", "replace").decode()

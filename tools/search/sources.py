"""Where a corpus' pages come from: files with a stamp, each read into pages. The index asks, the sources answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Stamp:
    """When a file last changed, as far as its directory entry tells."""

    mtime_ns: int
    size: int

    @classmethod
    def of(cls, path: Path) -> Stamp:
        status = path.stat()
        return cls(status.st_mtime_ns, status.st_size)


@dataclass(frozen=True, slots=True)
class PageDraft:
    """A page to be indexed. ``path``: its stable address below the corpus host, without leading slash or escapes."""

    path: str
    title: str
    text: str
    date: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of a source, and why some entries were left out."""

    files: Mapping[str, Stamp]
    skipped: Mapping[str, str] = field(default_factory=dict)


class BrokenFile(Exception):
    """A file that gives no page; the message says why. Never fatal for the corpus."""


class PageSource(Protocol):
    """``kind`` and ``location`` (absolute) name the corpus and key its index."""

    kind: str
    location: str

    def listing(self) -> Listing: ...

    def read(self, name: str) -> Iterable[PageDraft]:
        """The pages of one listed file. Raises BrokenFile."""
        ...

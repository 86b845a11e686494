"""Pages from one JSONL file (also gzipped): ``{"title", "text", "page_id" | "id" | "url"}`` a line."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from tools.search.sources import BrokenFile, Listing, PageDraft, Stamp


class PageLine(BaseModel):
    """One line. Further fields are ignored; a missing id becomes the line's number, a missing title the id."""

    model_config = ConfigDict(extra="ignore", frozen=True, coerce_numbers_to_str=True)

    id: str = Field(default="", validation_alias=AliasChoices("page_id", "id", "docid", "url"))
    title: str = ""
    text: str = Field(validation_alias=AliasChoices("text", "contents", "content", "body"))
    date: str = ""


class JsonlPages:
    """`PageSource` over a JSONL file. Pages live at ``page/<id>``, or at ``host/path`` when the id is a URL."""

    kind = "jsonl"

    def __init__(self, file: Path) -> None:
        self._file = file.resolve()
        self.location = str(self._file)

    def listing(self) -> Listing:
        return Listing({self._file.name: Stamp.of(self._file)})

    def read(self, name: str) -> Iterator[PageDraft]:
        """The pages, line by line; lines that are no page are counted and reported at the end."""
        bad: list[str] = []
        try:
            with self._open() as lines:
                for number, line in enumerate(lines, 1):
                    if not line.strip():
                        continue
                    try:
                        yield _draft(number, PageLine.model_validate_json(line))
                    except ValidationError as error:
                        reason = error.errors(include_url=False, include_context=False)[0]
                        bad.append(f"line {number}: {reason['msg']}")
        except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
            raise BrokenFile(f"{name}: {error}") from error
        if bad:
            raise BrokenFile(f"{len(bad)} lines are not pages; {bad[0]}")

    def _open(self) -> IO[str]:
        if self._file.suffix == ".gz":
            return gzip.open(self._file, "rt", encoding="utf-8-sig")
        return self._file.open(encoding="utf-8-sig")


def _draft(number: int, page: PageLine) -> PageDraft:
    key = page.id or str(number)
    return PageDraft(_path(key), page.title or key, page.text, page.date)


def _path(key: str) -> str:
    if "://" in key:
        parts = urlsplit(key)
        query = f"?{parts.query}" if parts.query else ""
        return f"{parts.netloc}{parts.path}{query}"
    return f"page/{key}"

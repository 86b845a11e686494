"""Pages from a folder of HTML, Markdown, text and PDF files, recursively."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias
from urllib.parse import quote

from tools.search.sources import BrokenFile, Listing, PageDraft, Stamp
from tools.visit.extracted import Extracted, Unreadable
from tools.visit.sniff import BY_SUFFIX

MAX_FILE_BYTES = 20_000_000
MAX_FILES = 200_000

Reader: TypeAlias = Callable[[bytes, str, str], Extracted]
"""(body, suffix, url) -> text. Raises Unreadable."""


class FolderPages:
    """`PageSource` over a folder; one page a file, addressed by its path below the folder. ``base``: URL prefix."""

    kind = "folder"

    def __init__(self, folder: Path, reader: Reader, base: str = "") -> None:
        self._folder = folder.resolve()
        self._reader = reader
        self._base = base
        self.location = str(self._folder)

    def listing(self) -> Listing:
        files: dict[str, Stamp] = {}
        skipped: dict[str, str] = {}
        for name in self._names():
            if len(files) >= MAX_FILES:
                skipped["…"] = f"more than {MAX_FILES} files: the rest was left out"
                break
            path = self._folder / name
            try:
                stamp = Stamp.of(path)
            except OSError as error:
                skipped[name] = f"cannot be read: {error.strerror}"
                continue
            if stamp.size > MAX_FILE_BYTES:
                skipped[name] = f"larger than {MAX_FILE_BYTES // 1_000_000} MB"
            elif path.is_symlink() and not path.resolve().is_relative_to(self._folder):
                skipped[name] = "a link that leaves the folder"
            elif path.is_file():
                files[name] = stamp
        return Listing(files, skipped)

    def read(self, name: str) -> Iterator[PageDraft]:
        try:
            body = (self._folder / name).read_bytes()
            found = self._reader(body, Path(name).suffix, self._base + quote(name))
        except OSError as error:
            raise BrokenFile(f"cannot be read: {error.strerror}") from error
        except Unreadable as error:
            raise BrokenFile(str(error)) from error
        if not found.text.strip():
            raise BrokenFile("no text in it")
        yield PageDraft(name, found.title or Path(name).stem.replace("_", " "), found.text)

    def _names(self) -> Iterator[str]:
        for folder, folders, files in os.walk(self._folder):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(files):
                if not name.startswith(".") and Path(name).suffix.lower() in BY_SUFFIX:
                    yield (Path(folder) / name).relative_to(self._folder).as_posix()

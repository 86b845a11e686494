"""parse_file: the text of a file that was attached to the run, page by page. No other file can be named."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote

from pydantic import Field

from memory.records import Observation, Source
from tools.base import Arguments, CallContext, ToolError
from tools.visit.extracted import Extracted, Unreadable
from tools.visit.files import FileReader
from tools.visit.window import windows

MAX_BYTES = 50_000_000


class ParseFileArguments(Arguments):
    file: str = Field(min_length=1, max_length=1000, description="name of the attached file")
    page: int = Field(default=1, ge=1, description="which part of a long file, from 1")


class ParseFile:
    """``paths``: the attached files, and all that can be read. ``window_chars``: the most text of one page."""

    name: ClassVar[str] = "parse_file"
    arguments: type[Arguments] = ParseFileArguments

    def __init__(
        self,
        paths: Sequence[Path],
        *,
        window_chars: int = 6000,
        timeout_s: float = 120.0,
        reader: FileReader | None = None,
    ) -> None:
        self._paths = _named(paths)
        self._window_chars = window_chars
        self._reader = reader or FileReader()
        self.timeout_s = timeout_s
        self.description = (
            "Read a file attached to the question: csv, json, text, Markdown, HTML, PDF. page=2, 3, … reads on. "
            f"Attached: {', '.join(self._paths)}."
        )

    async def run(self, arguments: ParseFileArguments, context: CallContext) -> Observation:
        """Raises ToolError: not_found, too_large, unsupported, parse, timeout."""
        name = self._known(arguments.file)
        found = await asyncio.to_thread(self._read, name)
        text = found.text.strip()
        cuts = windows(text, self._window_chars)
        if arguments.page > len(cuts):
            raise ToolError("not_found", f"{name} has {len(cuts)} pages; there is no page {arguments.page}")
        place = "whole file"
        if len(cuts) > 1:
            more = f"page={arguments.page + 1} reads on" if arguments.page < len(cuts) else "this is the last"
            place = f"page {arguments.page} of {len(cuts)}; {more}"
        body = text[slice(*cuts[arguments.page - 1])].strip() or "[the file is empty]"
        header = f"{name} ({'; '.join((place, *found.notes))})"
        source = Source(f"file:{quote(name)}", found.title or name)
        return Observation(context.call_id, self.name, f"{header}\n\n{body}", sources=(source,))

    async def aclose(self) -> None:
        await asyncio.to_thread(self._reader.close)

    def _known(self, asked: str) -> str:
        """The attached file that is meant: by its name, or by the path it was attached with."""
        for name, path in self._paths.items():
            if asked.strip() in (name, str(path), path.name):
                return name
        near = difflib.get_close_matches(asked, self._paths, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ToolError("not_found", f"no such attachment.{hint} Attached: {', '.join(self._paths)}")

    def _read(self, name: str) -> Extracted:
        path = self._paths[name]
        try:
            size = path.stat().st_size
            if size > MAX_BYTES:
                raise ToolError("too_large", f"{name} has {size // 1_000_000} MB; at most {MAX_BYTES // 1_000_000}")
            return self._reader.read(path.read_bytes(), path.suffix)
        except OSError as error:
            raise ToolError("not_found", f"{name} cannot be read: {error.strerror}") from error
        except Unreadable as error:
            raise ToolError(error.kind, f"{name}: {error}") from error


def _named(paths: Sequence[Path]) -> dict[str, Path]:
    """Files by their names; of two with one name, the later is called by its folder too."""
    named: dict[str, Path] = {}
    for path in paths:
        name, parents = path.name, list(path.absolute().parent.parts)
        while name in named and named[name] != path and parents:
            name = f"{parents.pop()}/{name}"
        named[name] = path
    return named

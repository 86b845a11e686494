"""The ``parse_file`` tool: the files that a person attached to the question, and no others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field, create_model

from memory.records import Observation, Source
from tools.base import Arguments, CallContext, ToolError
from tools.visit.extracted import Extracted, Unreadable
from tools.visit.files import FileReader
from tools.visit.window import places, windows
from tools.visit.worker import ExtractionWorker

_SENT = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})
_PICTURES = _SENT | {".bmp", ".tif", ".tiff", ".heic"}
_SOUNDS = frozenset({".mp3", ".wav", ".m4a", ".ogg", ".flac", ".mp4", ".mov", ".avi", ".mkv", ".webm"})


class FilesConfig(BaseModel):
    """``window_chars``: the most text of a file in one observation. ``max_bytes``: larger files are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    window_chars: int = Field(default=6000, ge=500)
    max_bytes: int = Field(default=50_000_000, gt=0)
    extract_s: float = Field(default=30.0, gt=0)
    timeout_s: float = Field(default=120.0, gt=0)


class FileArguments(Arguments):
    """``file``: name of an attached file; ``page``: which window of a long one; ``find``: words to locate in it."""

    file: str = Field(min_length=1, max_length=1000, description="name of an attached file")
    page: int = Field(default=1, ge=1, description="which part of a long file to read")
    find: str = Field(default="", max_length=200, description="exact words to locate in the file")


class ParseFileTool:
    """``parse_file`` over an allow-list. Names are base names; of two files with one name the path tells them apart."""

    name: ClassVar[str] = "parse_file"
    description: ClassVar[str] = (
        "Read a file attached to the question (PDF, spreadsheets, documents, slides, CSV, JSON, text, HTML)."
    )
    arguments: type[FileArguments] = FileArguments

    def __init__(
        self, files: Sequence[Path], config: FilesConfig | None = None, *, pictures_shown: bool = False
    ) -> None:
        """``pictures_shown``: the model is sent the pictures themselves. Raises ValueError for no files,
        FileNotFoundError for one that is not there."""
        if not files:
            raise ValueError("no files are attached")
        self._config = config or FilesConfig()
        self.timeout_s = self._config.timeout_s
        self._pictures_shown = pictures_shown
        for file in files:
            file.stat()
        # links are left as they are: where files are kept by their hash, only the link has the name and its ending
        placed = [file.absolute() for file in files]
        names = [file.name for file in placed]
        self._files = {str(file) if names.count(file.name) > 1 else file.name: file for file in placed}
        self.arguments = _naming(self._files)
        self._reader = FileReader(ExtractionWorker(self._config.extract_s))
        self._read: dict[str, Extracted] = {}

    async def run(self, arguments: FileArguments, context: CallContext) -> Observation:
        """Raises ToolError ``not_found``, ``too_large``, ``unsupported`` or ``parse``."""
        name = self._named(arguments.file)
        if name not in self._read:
            self._read[name] = await asyncio.to_thread(self._extract, self._files[name])
        found = self._read[name]
        text = found.text.strip()
        cuts = windows(text, self._config.window_chars)
        number = min(arguments.page, len(cuts))
        place = f"page {number} of {len(cuts)}" if len(cuts) > 1 else "whole file"
        body = text[slice(*cuts[number - 1])].strip()
        if arguments.find.strip():
            body = places(text, arguments.find, self._config.window_chars) or f'"{arguments.find}" does not occur in it'
            place = f"found places; file has {len(cuts)} parts"
        head = f"{name} ({'; '.join([place, *found.notes])})"
        source = Source(self._files[name].as_uri(), found.title or name)
        return Observation(context.call_id, self.name, f"{head}\n\n{body}", sources=(source,))

    async def aclose(self) -> None:
        await asyncio.to_thread(self._reader.close)

    def _named(self, wanted: str) -> str:
        if wanted in self._files:
            return wanted
        for name, file in self._files.items():
            if wanted.strip() in (str(file), file.name):
                return name
        raise ToolError("not_found", f"no attached file {wanted[:200]!r}; attached: {', '.join(self._files)}")

    def _extract(self, file: Path) -> Extracted:
        kind = file.suffix.lower()
        if kind in _SENT and self._pictures_shown:
            raise ToolError("unsupported", f"{file.name} is a picture: it stands beside the question, look at it there")
        if kind in _PICTURES | _SOUNDS:
            raise ToolError("unsupported", f"unsupported_attachment: this model cannot take {kind} files")
        try:
            if file.stat().st_size > self._config.max_bytes:
                raise ToolError("too_large", f"the file is larger than {self._config.max_bytes // 1_000_000} MB")
            return self._reader.read(file.read_bytes(), file.suffix)
        except OSError as error:
            raise ToolError("not_found", f"the file cannot be read: {error.strerror}") from error
        except Unreadable as error:
            raise ToolError(error.kind, str(error)) from error


def _naming(names: Iterable[str]) -> type[FileArguments]:
    """The arguments with a schema that lists the files. It only advises: a whole path is taken too."""
    listed = Field(
        min_length=1, max_length=1000, description="name of an attached file", json_schema_extra={"enum": [*names]}
    )
    return create_model("FileArguments", __base__=FileArguments, file=(str, listed))

"""What a cell sends back (`inside_cells.Cells.run`), read on the host: checked, not believed."""

from __future__ import annotations

import base64
from contextlib import suppress

from pydantic import BaseModel

from tools.python.base import WorkFile

MAX_FILES = 50


class _File(BaseModel):
    name: str
    size: int
    data: str | None = None


class CellReply(BaseModel):
    """Raises pydantic's ValidationError for anything else."""

    value: str | None = None
    error: str | None = None
    files: list[_File] = []

    @property
    def work_files(self) -> tuple[WorkFile, ...]:
        return tuple(_work_file(one) for one in self.files[:MAX_FILES])


def _work_file(file: _File) -> WorkFile:
    raw: bytes | None = None
    if file.data is not None:
        with suppress(ValueError):
            raw = base64.b64decode(file.data, validate=True)
    return WorkFile(file.name, len(raw) if raw is not None else max(0, file.size), raw)

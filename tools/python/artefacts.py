"""Files that the code made, kept for people in a folder of the session: few, small, under names of our own making."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.python.base import MIB, WorkFile

MAX_NAME = 100
_BAD = re.compile(r"[^\w.+=@ -]|[\x00-\x1f]")
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Kept:
    """``at``: where the file is, relative to the session's folder; ``why``: why it was not kept."""

    file: WorkFile
    at: str = ""
    why: str = ""


class Artefacts:
    """Keeps files below ``folder``, each call's apart, at most ``max_files`` and ``max_bytes`` in all."""

    def __init__(self, folder: Path, *, max_files: int = 200, max_bytes: int = 64 * MIB) -> None:
        self._folder = folder
        self._max_files, self._max_bytes = max_files, max_bytes
        self._used: tuple[int, int] | None = None

    def keep(self, call_id: str, files: Sequence[WorkFile]) -> list[Kept]:
        """Write what may be kept. A disk that refuses is a reason not to, no failure of the call."""
        count, size = self._used = self._used or self._before()
        kept: list[Kept] = []
        for file in files:
            if file.data is None:
                kept.append(Kept(file, why="too large to keep"))
            elif count >= self._max_files or size + len(file.data) > self._max_bytes:
                kept.append(Kept(file, why="not kept: the session's room for files is used up"))
            else:
                try:
                    kept.append(Kept(file, self._write(safe_name(call_id), safe_name(file.name), file.data)))
                except OSError as error:
                    kept.append(Kept(file, why=f"not kept: {error.strerror or 'the disk refuses'}"))
                    continue
                count, size = count + 1, size + len(file.data)
        self._used = count, size
        return kept

    def _write(self, folder: str, name: str, data: bytes) -> str:
        into = self._folder / folder
        into.mkdir(mode=0o700, parents=True, exist_ok=True)
        stem, dot, kind = name.rpartition(".") if "." in name[1:] else (name, "", "")
        for number in range(1, 1000):
            free = name if number == 1 else f"{stem}-{number}{dot}{kind}"
            try:
                fd = os.open(into / free, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
            except FileExistsError:
                continue
            with os.fdopen(fd, "wb") as out:
                out.write(data)
            return f"{self._folder.name}/{folder}/{free}"
        raise OSError(f"too many files named {name}")

    def _before(self) -> tuple[int, int]:
        """Number and bytes of what an earlier process kept."""
        found = [path.lstat().st_size for path in self._folder.glob("*/*")] if self._folder.is_dir() else []
        return len(found), sum(found)


def safe_name(name: str) -> str:
    """One harmless file name: no folders, no control or bidirectional characters, not hidden, not too long."""
    plain = unicodedata.normalize("NFC", name).replace("/", "_").replace("\\", "_")
    plain = _BAD.sub("_", plain).strip(" .-")
    if _RESERVED.match(plain):
        plain = f"_{plain}"
    while len(plain.encode("utf-8", "replace")) > MAX_NAME:
        stem, dot, kind = plain.rpartition(".")
        plain = f"{stem[:-1]}{dot}{kind}" if stem and len(kind) < 16 else plain[:-1]
    return plain or "file"

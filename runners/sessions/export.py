"""``longstride sessions export``: one session into one file, whole or not at all, without secrets."""

from __future__ import annotations

import asyncio
import glob
import io
import os
import sys
import tarfile
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO, TextIO

from memory.store.redacted import copy_redacted
from memory.store.transfer import pull
from runners.errors import UsageFault
from runners.folders import STORE, SessionFolder
from runners.redact import Redactor
from runners.sessions.content import read_head, read_steps
from runners.sessions.formats import SUFFIXES, WRITERS, Format
from runners.stores import open_store


def export(folder: SessionFolder, form: Format, out: str | None, redact: Redactor) -> Path | None:
    """Write a session; returns the file, None for stdout. ``out`` None: named by session and format, in the working
    folder. An existing file is never replaced. Raises UsageFault, StoreFault."""
    if out == "-":
        if form == "tar":
            raise UsageFault("a tar is not text", hint="--out FILE")
        asyncio.run(_write_text(folder, form, redact, sys.stdout))
        return None
    path = Path(out or folder.name + SUFFIXES[form])
    if path.exists():
        raise UsageFault(f"{path} exists already", hint="--out gives it another name")
    try:
        _write_whole(folder, form, path, redact)
    except OSError as fault:
        raise UsageFault(f"{path}: cannot be written: {fault.strerror or fault}") from fault
    return path


def _write_whole(folder: SessionFolder, form: Format, path: Path, redact: Redactor) -> None:
    for left in path.absolute().parent.glob(f".{glob.escape(path.name)}.*.part"):  # of an export that was killed
        left.unlink(missing_ok=True)
    handle, name = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}.", suffix=".part")
    part = Path(name)
    try:
        if form == "tar":
            with os.fdopen(handle, "wb") as file:
                _write_tar(folder, file, redact)
                file.flush()
                os.fsync(file.fileno())
        else:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as text:
                asyncio.run(_write_text(folder, form, redact, text))
                text.flush()
                os.fsync(text.fileno())
        part.chmod(0o644)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


async def _write_text(folder: SessionFolder, form: Format, redact: Redactor, out: TextIO) -> None:
    async with await open_store(folder, create=False, read_only=True) as store:
        head = await read_head(folder.name, store, redact)
        if head.last == 0:
            raise UsageFault(f"session {folder.name} has no step yet")
        pieces: AsyncIterator[str] = WRITERS[form](head, read_steps(store, head.last, redact))
        async for piece in pieces:
            out.write(piece)


def _write_tar(folder: SessionFolder, file: BinaryIO, redact: Redactor) -> None:
    """The folder as plain tar: the store as of one moment, and every other regular file; no links are followed."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        store = Path(scratch) / STORE
        source = folder.store
        if folder.address is not None:
            source = Path(scratch) / "pulled"
            asyncio.run(pull(folder.address, source))
        copy_redacted(source, store, redact)
        with store.open("rb") as copied:
            _add(tar, f"{folder.name}/{STORE}", store.stat().st_size, copied, source)
        for path in sorted(folder.path.rglob("*")):
            if path.is_symlink() or not path.is_file() or path.name.startswith(STORE):
                continue
            name = redact(path.relative_to(folder.path).as_posix())
            data = redact.data(path.read_bytes())
            _add(tar, f"{folder.name}/{name}", len(data), io.BytesIO(data), path)


def _add(tar: tarfile.TarFile, name: str, size: int, data: BinaryIO, source: Path) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = size
    entry.mode = 0o644
    entry.mtime = int(source.stat().st_mtime)
    tar.addfile(entry, data)

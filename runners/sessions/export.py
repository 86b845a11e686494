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

from memory.store.postgres import PostgresStore
from memory.store.redacted import copy_redacted
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
    for ending in ("part", "part-store*"):  # of an export that was killed
        for left in path.absolute().parent.glob(f".{glob.escape(path.name)}.*.{ending}"):
            left.unlink(missing_ok=True)
    handle, name = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}.", suffix=".part")
    part = Path(name)
    try:
        if form == "tar":
            with os.fdopen(handle, "wb") as file:
                _write_tar(folder, file, part.with_name(f"{part.name}-store"), redact)
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


def _write_tar(folder: SessionFolder, file: BinaryIO, copy: Path, redact: Redactor) -> None:
    """The folder as plain tar: the store as of one moment, and every other regular file; no links are followed.
    ``copy``: where the store may stand meanwhile, redacted."""
    try:
        with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
            stored = asyncio.run(_copy_store(folder, copy, redact))
            with copy.open("rb") as copied:
                written = copy if folder.address is not None else folder.store
                _add(tar, f"{folder.name}/{STORE}", copy.stat().st_size, copied, written)
            for path in sorted(folder.path.rglob("*")):
                if path.is_symlink() or not path.is_file() or path.name.startswith(STORE):
                    continue
                _add_file(tar, folder.name, path.relative_to(folder.path).as_posix(), path.read_bytes(), path, redact)
            for name, body in stored.items():
                if not (folder.workspace / name).is_file():  # one of this machine is newer
                    _add_file(tar, folder.name, f"{folder.workspace.name}/{name}", body, copy, redact)
    finally:
        copy.unlink(missing_ok=True)


async def _copy_store(folder: SessionFolder, copy: Path, redact: Redactor) -> dict[str, bytes]:
    """Copy the store; returns the files that a database has besides."""
    async with await open_store(folder, create=False, read_only=True) as store:
        await copy_redacted(store, copy, redact)
        return await store.files() if isinstance(store, PostgresStore) else {}


def _add_file(tar: tarfile.TarFile, folder: str, name: str, body: bytes, source: Path, redact: Redactor) -> None:
    data = redact.data(body)
    _add(tar, f"{folder}/{redact(name)}", len(data), io.BytesIO(data), source)


def _add(tar: tarfile.TarFile, name: str, size: int, data: BinaryIO, source: Path) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = size
    entry.mode = 0o644
    entry.mtime = int(source.stat().st_mtime)
    tar.addfile(entry, data)

"""Private copies of a store, for reading what cannot be read where it lies; those of a process that was killed go."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from pathlib import Path

PREFIX = "longstride-read-"
FRESH_S = 60.0
"""A folder that was made so lately may not be held yet."""


class Copies:
    """A folder of copies, which the system lets go of when this process ends, whatever ends it."""

    def __init__(self) -> None:
        _forget_left()
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._hold = _held(self.folder)

    def of(self, path: Path, suffixes: tuple[str, ...]) -> Path:
        """Copy a file, and those of its name with a suffix that are there."""
        copy = self.folder / path.name
        for suffix in ("", *suffixes):
            part = path.with_name(path.name + suffix)
            if part.exists():
                shutil.copyfile(part, copy.with_name(copy.name + suffix))
        return copy

    def close(self) -> None:
        """Remove them."""
        shutil.rmtree(self.folder, ignore_errors=True)
        if self._hold is not None:
            os.close(self._hold)


def _held(folder: Path) -> int | None:
    """A handle by which the folder is held, None where another process holds it, or there is no such thing."""
    try:
        import fcntl
    except ImportError:
        return None
    handle = None
    try:
        handle = os.open(folder, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        if handle is not None:
            os.close(handle)
        return None
    return handle


def _forget_left() -> None:
    if os.name != "posix":
        return
    for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime < FRESH_S or left.stat().st_uid != os.getuid():
                continue
            hold = _held(left)
            if hold is not None:
                shutil.rmtree(left, ignore_errors=True)
                os.close(hold)

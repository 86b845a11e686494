"""An append-only file of JSON lines with one writer: whole lines only, each on the disk before it counts."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from memory.records import JsonValue
from runners.errors import UsageFault
from runners.replay.jsonlines import lines


class Journal:
    """Open for writing by this process alone; half a line that a crash left at the end is cut off."""

    def __init__(self, path: Path) -> None:
        """Raises UsageFault when another process holds it, or it cannot be written."""
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as fault:
            raise UsageFault(f"{path}: cannot be written: {fault.strerror or fault}") from fault
        try:
            self._lock()
            self._mend()
        except BaseException:
            os.close(self._file)
            raise

    def append(self, line: Mapping[str, JsonValue]) -> None:
        """One whole line. Raises UsageFault when the disk does not take it; nothing of it stays then."""
        data = json.dumps(line).encode("ascii") + b"\n"
        end = os.fstat(self._file).st_size
        try:
            if os.write(self._file, data) < len(data):
                raise OSError("no space left")
            os.fsync(self._file)
        except OSError as fault:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, end)
            raise UsageFault(f"{self.path}: cannot be written: {fault.strerror or fault}") from fault

    def close(self) -> None:
        """Let others write."""
        os.close(self._file)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _lock(self) -> None:
        try:
            import fcntl
        except ImportError:  # no such locks on Windows
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as fault:
            raise UsageFault(
                f"{self.path}: another process is writing it",
                hint="wait for it, or take a folder of your own: --out DIR, or a part of the work: --shard i/n",
            ) from fault

    def _mend(self) -> None:
        data = self.path.read_bytes()
        os.ftruncate(self._file, data.rfind(b"\n") + 1)


def read_journal(path: Path) -> Iterator[tuple[int, Mapping[str, object]]]:
    """(line number, object) of every whole line. Raises UsageFault naming file and line for any other."""
    if not path.is_file():
        return
    whole = path.read_bytes().endswith(b"\n")
    found = list(lines(path))
    for number, value in found if whole else found[:-1]:
        if not isinstance(value, dict):
            raise UsageFault(str(value), hint="the file was edited or is damaged: repair that line")
        yield number, value

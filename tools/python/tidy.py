"""Removes a folder of the code's. Also part of what runs inside: the host may be gone when it is time."""

from __future__ import annotations

import stat
from contextlib import suppress
from pathlib import Path


def remove(root: str) -> None:
    """Remove a folder however deep it is, following nothing; nobody may be writing there any more."""
    number = 0
    top = Path(root)
    with suppress(OSError):
        while entries := list(top.iterdir()):
            for entry in entries:
                if not _is_folder(entry):
                    entry.unlink()
                    continue
                for inner in _opened(entry):
                    if _is_folder(inner):
                        number += 1
                        _opened(inner)
                        inner.rename(top / f".{number}")
                    else:
                        inner.unlink()
                entry.rmdir()
        top.rmdir()


def _is_folder(path: Path) -> bool:
    return stat.S_ISDIR(path.lstat().st_mode)


def _opened(folder: Path) -> list[Path]:
    """What is in it, after its mode is made to allow that."""
    folder.chmod(0o700)
    return list(folder.iterdir())

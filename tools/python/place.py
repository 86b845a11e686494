"""A working folder on the host's own disk, for workers without mounts of their own: made, watched, removed."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tools.python.base import Limits
from tools.python.tidy import remove
from tools.python.view import View


@dataclass(frozen=True, slots=True)
class Place:
    """``root`` holds both folders. ``packages``: links to the packages that the view shows, read-only."""

    root: str
    workspace: str
    packages: str


def make_place(view: View, uid: int | None) -> Place:
    """A new one, its workspace given to ``uid``. Raises OSError."""
    root = Path(tempfile.mkdtemp(prefix="longstride-python-"))
    place = Place(str(root), str(root / "workspace"), str(root / "packages"))
    try:
        for folder in (place.workspace, place.packages):
            Path(folder).mkdir(mode=0o700)
        for source, target in view.packages:
            (root / "packages" / Path(target).name).symlink_to(source)
        if uid is not None:
            root.chmod(0o711)
            Path(place.packages).chmod(0o755)
            os.chown(place.workspace, uid, uid)
    except OSError:
        remove(place.root)
        raise
    return place


def overfull(place: Place, pids: list[int], limits: Limits) -> str:
    """What of the limits on files the processes exceed; empty for nothing. Counts files that are open and unlinked."""
    room, entries = limits.workspace, limits.entries
    folders = [place.workspace]
    while folders:
        try:
            with os.scandir(folders.pop()) as found:
                for entry in found:
                    entries -= 1
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        room -= entry.stat(follow_symlinks=False).st_blocks * 512
                    if entries < 0 or room < 0:
                        return "the working folder holds too much"
        except OSError as error:
            if error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
                return "the working folder is nested too deeply"
    gone: dict[tuple[int, int], int] = {}
    for pid in pids:
        with suppress(OSError):
            for fd in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    status = fd.stat()
                    if stat.S_ISREG(status.st_mode) and not status.st_nlink:
                        gone[status.st_dev, status.st_ino] = status.st_blocks * 512
    return "the working folder holds too much" if sum(gone.values()) > room else ""

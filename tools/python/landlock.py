"""What the Landlock ruleset of the sandbox says (landlock(7)); it is applied inside, by the process it binds."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

MIN_ABI = 3
"""Before it, a file that may be read could be truncated (Linux 6.2)."""
SIGNALS_ABI = 6
"""From here on signals and abstract sockets end at the sandbox (Linux 6.12)."""
_EXECUTE, _WRITE, _READ, _READ_DIR = 1, 2, 4, 8
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_FILE, _MAKE_FIFO, _MAKE_LINK = 16, 32, 128, 256, 1024, 4096
_REFER, _TRUNCATE, _DEVICE_CALLS = 1 << 13, 1 << 14, 1 << 15
_UP_TO_ABI_3 = (1 << 15) - 1
_NETWORK = 3
"""Binding and connecting TCP."""
_SCOPES = 3
"""Abstract Unix sockets, signals."""
_SYS_CREATE_RULESET, _VERSION = 444, 1


@dataclass(frozen=True, slots=True)
class Rules:
    """``attributes``: the ruleset's attributes as the kernel takes them, hex. ``paths``: path, rights for a folder,
    rights for a file."""

    attributes: str
    paths: tuple[tuple[str, int, int], ...]


def kernel_abi() -> int:
    """Version of the kernel's Landlock; 0 where there is none."""
    import ctypes
    import sys

    if not sys.platform.startswith("linux"):
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    return max(0, int(libc.syscall(ctypes.c_long(_SYS_CREATE_RULESET), None, ctypes.c_size_t(0), _VERSION)))


def rules(abi: int, *, read: Iterable[str], devices: Iterable[str], workspace: str) -> Rules:
    """Everything else is refused. ``abi``: what the kernel knows, at least `MIN_ABI`."""
    handled = _UP_TO_ABI_3 | (_DEVICE_CALLS if abi >= 5 else 0)
    attributes = struct.pack("=Q", handled)
    if abi >= 4:
        attributes += struct.pack("=Q", _NETWORK)
    if abi >= SIGNALS_ABI:
        attributes += struct.pack("=Q", _SCOPES)
    return Rules(attributes.hex(), tuple(_paths(read, devices, workspace)))


def _paths(read: Iterable[str], devices: Iterable[str], workspace: str) -> Iterator[tuple[str, int, int]]:
    for path in dict.fromkeys(read):
        yield path, _EXECUTE | _READ | _READ_DIR, _EXECUTE | _READ
    for path in devices:
        yield path, 0, _READ | _WRITE
    own = _WRITE | _READ | _READ_DIR | _REMOVE_DIR | _REMOVE_FILE | _REFER | _TRUNCATE
    yield workspace, own | _MAKE_DIR | _MAKE_FILE | _MAKE_FIFO | _MAKE_LINK, 0

"""Part of what runs inside the sandbox: its own root of the file system, where bubblewrap has not made it."""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
MNT_DETACH = 2
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
SYS_MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE = 442, -100, 0x8000
READ_ONLY, NO_SUID, NO_DEV = 1, 2, 4
OLD_ROOT = "/.old"


def check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    arguments = [text.encode() for text in (source, target, kind)]
    check(LIBC.mount(*arguments, ctypes.c_ulong(flags), data.encode()), f"mount {source} on {target}")


def restrict(target: str, attributes: int, *, recursive: bool = True) -> None:
    """Adds mount attributes, keeping those that a user namespace has locked; recursively with one call."""
    wanted = ctypes.create_string_buffer(struct.pack("=QQQQ", attributes, 0, 0, 0))
    arguments = (ctypes.c_long(SYS_MOUNT_SETATTR), ctypes.c_int(AT_FDCWD), target.encode())
    flags = ctypes.c_uint(AT_RECURSIVE if recursive else 0)
    check(LIBC.syscall(*arguments, flags, wanted, ctypes.c_size_t(32)), f"restrict {target}")


def enter_view(view: Any, devices: list[str], workspace: str, size: int) -> None:
    """A new root of tmpfs with nothing but the view in it."""
    mount("none", "/", "none", MS_REC | MS_PRIVATE)
    mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=1m")
    Path("/tmp" + OLD_ROOT).mkdir()
    number = ctypes.c_long(SYS_PIVOT_ROOT[os.uname().machine])
    check(LIBC.syscall(number, b"/tmp", b"/tmp" + OLD_ROOT.encode()), "pivot_root")
    os.chdir("/")
    for source, target in view["binds"]:
        bind(source, target, READ_ONLY | NO_SUID | NO_DEV)
    for target, link in view["links"]:
        Path(link).parent.mkdir(parents=True, exist_ok=True)
        Path(link).symlink_to(target)
    for path in view["hidden"]:
        mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=4k")
        restrict(path, READ_ONLY)
    for device in devices:
        bind(device, device, READ_ONLY | NO_SUID)
    Path(workspace).mkdir()
    mount("tmpfs", workspace, "tmpfs", MS_NOSUID | MS_NODEV, f"mode=1777,size={size}")
    Path("/tmp").symlink_to(workspace)
    check(LIBC.umount2(OLD_ROOT.encode(), MNT_DETACH), "umount of the old root")
    Path(OLD_ROOT).rmdir()
    restrict("/", READ_ONLY, recursive=False)
    os.chdir(workspace)


def bind(source: str, target: str, attributes: int) -> None:
    if Path(OLD_ROOT + source).is_dir():
        Path(target).mkdir(parents=True, exist_ok=True)
    else:
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        Path(target).touch(0o444)
    mount(OLD_ROOT + source, target, "none", MS_BIND | MS_REC)
    restrict(target, attributes)

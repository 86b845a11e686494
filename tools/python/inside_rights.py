"""Part of what runs inside the sandbox: rights given up for good, and proof that they are gone."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import socket
import struct
import sys
from pathlib import Path
from typing import Any

from tools.python.inside_cells import REPORT_ROOM
from tools.python.inside_view import LIBC, check

PR_CAPBSET_DROP, PR_SET_SECCOMP, PR_GET_SECCOMP, PR_SET_NO_NEW_PRIVS, PR_GET_NO_NEW_PRIVS = 24, 22, 21, 38, 39
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, SECCOMP_MODE_FILTER = 47, 4, 2
CAPABILITY_VERSION_3 = 0x20080522
SYS_LANDLOCK_CREATE, SYS_LANDLOCK_ADD, SYS_LANDLOCK_RESTRICT = 444, 445, 446
LANDLOCK_PATH_BENEATH = 1


def set_limits(limits: Any) -> None:
    size = limits["workspace"]
    for kind, soft, hard in (
        (resource.RLIMIT_AS, limits["memory"], limits["memory"] + REPORT_ROOM),
        (resource.RLIMIT_CPU, limits["cpu_s"], limits["cpu_s"]),
        (resource.RLIMIT_FSIZE, size, size),
        (resource.RLIMIT_NOFILE, limits["files"], limits["files"]),
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_MEMLOCK, 0, 0),
        (getattr(resource, "RLIMIT_MSGQUEUE", None), 0, 0),
    ):
        if kind is not None:
            set_limit(kind, soft, hard)


def set_limit(kind: int, soft: int, hard: int) -> None:
    """No higher than the host's own."""
    own = resource.getrlimit(kind)[1]
    if own != resource.RLIM_INFINITY:
        soft, hard = min(soft, own), min(hard, own)
    resource.setrlimit(kind, (soft, hard))


def give_up(config: Any) -> None:
    """Limits, files, user id, capabilities, new privileges, system calls: in this order, for good."""
    uid, limits = config["uid"], config["limits"]
    os.nice(5)  # busy code must not slow the run it belongs to
    if config["level"] == 0 and sys.platform != "linux":
        with contextlib.suppress(ValueError, OSError):
            set_limits(limits)
        return
    set_limits(limits)
    if config["level"] == 0:
        set_limit(resource.RLIMIT_NPROC, limits["processes"], limits["processes"])
        return
    LIBC.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    for capability in range(64):  # beyond the last one, or without the right to: the self-check decides
        LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    check(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    if config["landlock"] is not None:
        restrict_files(config["landlock"])
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    set_limit(resource.RLIMIT_NPROC, limits["processes"], limits["processes"])
    header = struct.pack("=Ii", CAPABILITY_VERSION_3, 0)
    check(LIBC.capset(header, bytes(24)), "capset")
    program = bytes.fromhex(config["filter"])
    program = program.replace(struct.pack("=I", config["own_pid"]), struct.pack("=I", os.getpid()))
    code = ctypes.create_string_buffer(program, len(program))
    filter_program = ctypes.create_string_buffer(struct.pack("@HP", len(program) // 8, ctypes.addressof(code)))
    check(LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter_program, 0, 0), "seccomp")


def restrict_files(rules: Any) -> None:
    """Landlock: nothing but the named paths, each with its rights; no TCP, no signals out where the kernel can."""
    attributes = bytes.fromhex(rules["attributes"])
    ruleset = LIBC.syscall(ctypes.c_long(SYS_LANDLOCK_CREATE), attributes, ctypes.c_size_t(len(attributes)), 0)
    if ruleset < 0:
        check(ruleset, "landlock_create_ruleset")
    for path, on_folder, on_file in rules["paths"]:
        try:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        rule = struct.pack("=Qi", on_folder if Path(path).is_dir() else on_file, fd)
        kind = ctypes.c_int(LANDLOCK_PATH_BENEATH)
        check(LIBC.syscall(ctypes.c_long(SYS_LANDLOCK_ADD), ruleset, kind, rule, 0), f"landlock rule for {path}")
        os.close(fd)
    check(LIBC.syscall(ctypes.c_long(SYS_LANDLOCK_RESTRICT), ruleset, 0), "landlock_restrict_self")
    os.close(ruleset)


def self_check(config: Any) -> list[str]:
    """What does not hold of the isolation, by trying it; empty when all is well."""
    wanted, uid, level = config["check"], config["uid"], config["level"]
    failed = [f"{name} is in the environment" for name in os.environ if name not in (*wanted["environment"], "PWD")]
    if not can_write(Path(config["workspace"])):
        failed.append("the workspace cannot be written")
    if level == 0:
        return failed
    header, data = struct.pack("=Ii", CAPABILITY_VERSION_3, 0), ctypes.create_string_buffer(24)
    LIBC.capget(header, data)
    if any(data.raw):
        failed.append("capabilities are left")
    if LIBC.prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1 or LIBC.prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 2:
        failed.append("no_new_privs or seccomp is off")
    if uid is not None and set(os.getresuid()) | set(os.getresgid()) | set(os.getgroups()) != {uid}:
        failed.append("the user id was kept")
    if level == 3 and os.getppid() != 1:
        failed.append("the process namespace is shared")
    seen = os.path.lexists if level == 3 else can_read
    failed += [f"{path} is visible" for path in wanted["hidden"] if seen(path)]
    if level == 2:
        failed += [f"process {pid} can be signalled" for pid in (wanted["host"], os.getppid()) if can_signal(pid)]
    failed += [f"{folder} can be written" for folder in (Path("/"), Path(os.__file__).parent) if can_write(folder)]
    with contextlib.suppress(OSError), socket.socket() as probe:
        probe.connect(("127.0.0.1", wanted["port"]))
        failed.append("the network is reachable")
    return failed


def can_write(folder: Path) -> bool:
    try:
        (folder / ".probe").touch()
        (folder / ".probe").unlink()
    except OSError:
        return False
    return True


def can_read(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_RDONLY))
    except OSError:
        return False
    return True


def can_signal(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True

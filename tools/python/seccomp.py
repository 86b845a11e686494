"""The system call filter of the sandbox, as a classic BPF program (seccomp(2)).

A deny list: namespaces already hide what there is to reach; the filter keeps code from making new namespaces, from
memory that no limit counts, from kernel interfaces with a record of holes, and from every socket but Unix ones
(AF_VSOCK, for one, ignores network namespaces).
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Mapping

# name: (x86_64, aarch64); None where the architecture has no such call
_NUMBERS: Mapping[str, tuple[int | None, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "migrate_pages": (256, 238),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "mq_open": (240, 180),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "shmget": (29, 194),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
}
_CLONE, _CLONE3, _SOCKET = (56, 220), 435, (41, 198)
_AUDIT_ARCH = (0xC000003E, 0xC00000B7)
_COLUMN = {"x86_64": 0, "aarch64": 1}
_X32_BIT = 0x40000000
_NEW_NAMESPACES = 0x7E020080
"""CLONE_NEW{NS,CGROUP,UTS,IPC,USER,PID,NET,TIME}"""
_AF_UNIX = 1

_LOAD, _JUMP_EQ, _JUMP_GE, _JUMP_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_AT_NUMBER, _AT_ARCH, _AT_ARG0 = 0, 4, 16


def supported(machine: str) -> bool:
    """Whether the filter knows this architecture (``platform.machine()``)."""
    return machine in _COLUMN


def denied(machine: str) -> dict[str, int]:
    """Number of every denied call. Raises KeyError for an unknown architecture."""
    column = _COLUMN[machine]
    return {name: number for name, pair in _NUMBERS.items() if (number := pair[column]) is not None}


def program(machine: str) -> bytes:
    """The filter, 8 bytes an instruction. Raises KeyError for an unknown architecture."""
    column = _COLUMN[machine]
    out = [
        _instruction(_LOAD, _AT_ARCH),
        _instruction(_JUMP_EQ, _AUDIT_ARCH[column], yes=1),
        _instruction(_RETURN, _KILL),
        _instruction(_LOAD, _AT_NUMBER),
    ]
    if machine == "x86_64":
        out += [_instruction(_JUMP_GE, _X32_BIT, no=1), _instruction(_RETURN, _KILL)]
    for number in sorted(denied(machine).values()):
        out += [_instruction(_JUMP_EQ, number, no=1), _instruction(_RETURN, _ERRNO | errno.EPERM)]
    # glibc falls back from clone3 (whose flags a filter cannot read) to clone
    out += [_instruction(_JUMP_EQ, _CLONE3, no=1), _instruction(_RETURN, _ERRNO | errno.ENOSYS)]
    out += [
        _instruction(_JUMP_EQ, _CLONE[column], no=3),
        _instruction(_LOAD, _AT_ARG0),
        _instruction(_JUMP_SET, _NEW_NAMESPACES, no=5),
        _instruction(_RETURN, _ERRNO | errno.EPERM),
        _instruction(_JUMP_EQ, _SOCKET[column], no=3),
        _instruction(_LOAD, _AT_ARG0),
        _instruction(_JUMP_EQ, _AF_UNIX, yes=1),
        _instruction(_RETURN, _ERRNO | errno.EACCES),
        _instruction(_RETURN, _ALLOW),
    ]
    return b"".join(out)


def _instruction(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)

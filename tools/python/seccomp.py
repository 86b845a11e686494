"""The system call filter of the sandbox, as a classic BPF program (seccomp(2)).

A deny list: namespaces (or Landlock) already hide what there is to reach; the filter keeps code from making new
namespaces, from memory that no limit counts, from kernel interfaces with a record of holes, and from every socket but
Unix ones (AF_VSOCK, for one, ignores network namespaces). Where the host's namespaces are shared it leaves only
connected pairs of sockets, and no way to touch another process.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from tools.python.seccomp_tables import (
    DENIED,
    DENIED_SAME_USER,
    DENIED_SHARED,
    DENIED_SIGNALS,
    PRETENDED_SAME_USER,
    SPECIAL,
    Numbers,
)

OWN_PID = 0x5AFE01D5
"""Stands in the program for the id of the process that installs it, which puts its own there."""
_AUDIT_ARCH = (0xC000003E, 0xC00000B7)
_COLUMN = {"x86_64": 0, "aarch64": 1}
_X32_BIT = 0x40000000
_NEW_NAMESPACES = 0x7E020080
"""CLONE_NEW{NS,CGROUP,UTS,IPC,USER,PID,NET,TIME}"""
_AF_UNIX, _STREAM, _TYPE_BITS = 1, 1, 0xF

_LOAD, _AND, _JUMP_EQ, _JUMP_GE, _JUMP_SET, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_AT_NUMBER, _AT_ARCH, _AT_ARG0, _AT_ARG1, _AT_ARG2 = 0, 4, 16, 24, 32


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the code shares with the host: ``namespaces``; its ``user``; and ``signals``, when nothing else keeps them
    in."""

    namespaces: bool = False
    user: bool = False
    signals: bool = False

    @property
    def tables(self) -> tuple[Numbers, ...]:
        """What is denied whatever the arguments."""
        return (
            DENIED,
            *((DENIED_SHARED,) if self.namespaces else ()),
            *((DENIED_SAME_USER,) if self.user else ()),
            *((DENIED_SIGNALS,) if self.signals else ()),
        )

    @property
    def pretended(self) -> tuple[Numbers, ...]:
        """What does nothing, without an error."""
        return (PRETENDED_SAME_USER,) if self.user else ()


def supported(machine: str) -> bool:
    """Whether the filter knows this architecture (``platform.machine()``)."""
    return machine in _COLUMN


def denied(machine: str, around: Surroundings = Surroundings()) -> dict[str, int]:
    """Number of every denied call. Raises KeyError for an unknown architecture."""
    return _numbers(machine, around.tables)


def pretended(machine: str, around: Surroundings) -> dict[str, int]:
    """The same for every call that does nothing."""
    return _numbers(machine, around.pretended)


def program(machine: str, around: Surroundings = Surroundings()) -> bytes:
    """The filter, 8 bytes an instruction. Raises KeyError for an unknown architecture."""
    column = _COLUMN[machine]
    special = {name: pair[column] or 0 for name, pair in SPECIAL.items()}
    out = [
        _instruction(_LOAD, _AT_ARCH),
        _instruction(_JUMP_EQ, _AUDIT_ARCH[column], yes=1),
        _instruction(_RETURN, _KILL),
        _instruction(_LOAD, _AT_NUMBER),
    ]
    if machine == "x86_64":
        out += [_instruction(_JUMP_GE, _X32_BIT, no=1), _instruction(_RETURN, _KILL)]
    for number in sorted(denied(machine, around).values()):
        out += [_instruction(_JUMP_EQ, number, no=1), _instruction(_RETURN, _ERRNO | errno.EPERM)]
    for number in sorted(pretended(machine, around).values()):
        out += [_instruction(_JUMP_EQ, number, no=1), _instruction(_RETURN, _ERRNO)]
    # glibc falls back from clone3 (whose flags a filter cannot read) to clone
    out += [_instruction(_JUMP_EQ, special["clone3"], no=1), _instruction(_RETURN, _ERRNO | errno.ENOSYS)]
    out += _refuse_unless(special["clone"], [_instruction(_JUMP_SET, _NEW_NAMESPACES, no=1)])
    if around.namespaces:
        # a pair of datagram sockets can be addressed elsewhere, a connected stream cannot
        out += _refuse_unless(special["socketpair"], [_instruction(_JUMP_EQ, _AF_UNIX, yes=1)])
        stream = [_instruction(_AND, _TYPE_BITS), _instruction(_JUMP_EQ, _STREAM, yes=1)]
        out += _refuse_unless(special["socketpair"], stream, at=_AT_ARG1)
        # setting a time does nothing, without an error, so that files can be copied; `touch` must see one, to go on
        out += [_instruction(_JUMP_EQ, special["utimensat"], no=4), _instruction(_LOAD, _AT_ARG2)]
        out += [_instruction(_JUMP_EQ, 0, yes=1), _instruction(_RETURN, _ERRNO)]
        out += [_instruction(_RETURN, _ERRNO | errno.EPERM)]
        out += _refuse_unless(special["prlimit64"], [_instruction(_JUMP_EQ, 0, yes=1)])
    else:
        out += _refuse_unless(special["socket"], [_instruction(_JUMP_EQ, _AF_UNIX, yes=1)], error=errno.EACCES)
    if around.signals:
        # its own process group (0) holds nothing of the host's: the worker leads a session
        own = [_instruction(_JUMP_EQ, OWN_PID, yes=2), _instruction(_JUMP_EQ, 0, yes=1)]
        out += _refuse_unless(special["kill"], own)
        out += _refuse_unless(special["tgkill"], [_instruction(_JUMP_EQ, OWN_PID, yes=1)])
    out.append(_instruction(_RETURN, _ALLOW))
    return b"".join(out)


def _numbers(machine: str, tables: Sequence[Numbers]) -> dict[str, int]:
    column = _COLUMN[machine]
    return {name: number for table in tables for name, pair in table.items() if (number := pair[column]) is not None}


def _refuse_unless(number: int, test: Sequence[bytes], *, at: int = _AT_ARG0, error: int = errno.EPERM) -> list[bytes]:
    """For one call: load an argument and refuse; ``test`` ends by jumping over one instruction, the refusal."""
    body = [_instruction(_LOAD, at), *test, _instruction(_RETURN, _ERRNO | error), _instruction(_LOAD, _AT_NUMBER)]
    return [_instruction(_JUMP_EQ, number, no=len(body)), *body]


def _instruction(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)

"""The filter, run by a small interpreter of its instructions: both architectures on any machine."""

from __future__ import annotations

import errno
import struct

import pytest

from tools.python.seccomp import denied, program, supported

ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
OTHER = {"x86_64": "aarch64", "aarch64": "x86_64"}
SOCKET, CLONE = {"x86_64": 41, "aarch64": 198}, {"x86_64": 56, "aarch64": 220}


def decide(machine: str, number: int, argument: int = 0, arch: int | None = None) -> int:
    data = struct.pack("=IIQQ", number, ARCH[machine] if arch is None else arch, 0, argument)
    code = program(machine)
    at, register = 0, 0
    while True:
        operation, yes, no, value = struct.unpack_from("=HBBI", code, at * 8)
        at += 1
        if operation == 0x20:
            (register,) = struct.unpack_from("=I", data, value)
        elif operation == 0x06:
            return int(value)
        else:
            holds = {0x15: register == value, 0x35: register >= value, 0x45: bool(register & value)}[operation]
            at += yes if holds else no


@pytest.mark.parametrize("machine", ARCH)
def test_denies_by_name(machine: str) -> None:
    assert supported(machine)
    assert len(denied(machine)) > 50
    for name, number in denied(machine).items():
        assert decide(machine, number) == ERRNO | errno.EPERM, name
        assert decide(machine, number, arch=ARCH[OTHER[machine]]) == KILL


@pytest.mark.parametrize("machine", ARCH)
def test_only_unix_sockets(machine: str) -> None:
    assert decide(machine, SOCKET[machine], 1) == ALLOW
    for family in (2, 10, 16, 17, 38, 40):
        assert decide(machine, SOCKET[machine], family) == ERRNO | errno.EACCES


@pytest.mark.parametrize("machine", ARCH)
def test_threads_and_forks_but_no_namespaces(machine: str) -> None:
    assert decide(machine, CLONE[machine], 17) == ALLOW
    assert decide(machine, CLONE[machine], 0x3D0F00) == ALLOW  # pthread_create
    for bit in (0x80, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert decide(machine, CLONE[machine], bit | 17) == ERRNO | errno.EPERM
    assert decide(machine, 435) == ERRNO | errno.ENOSYS


def test_x32_is_another_architecture() -> None:
    assert decide("x86_64", 0x40000000 | 39) == KILL


@pytest.mark.parametrize(("machine", "calls"), [("x86_64", (0, 1, 9, 39, 57, 61, 231)), ("aarch64", (63, 64, 222, 94))])
def test_the_rest_is_allowed(machine: str, calls: tuple[int, ...]) -> None:
    assert [decide(machine, number) for number in calls] == [ALLOW] * len(calls)


def test_other_architectures_are_not_supported() -> None:
    assert not supported("riscv64")
    with pytest.raises(KeyError):
        program("riscv64")

"""The filter, run by a small interpreter of its instructions: both architectures on any machine."""

from __future__ import annotations

import errno
import struct

import pytest

from tools.python.seccomp import OWN_PID, Surroundings, denied, pretended, program, supported
from tools.python.seccomp_tables import SPECIAL

ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
OTHER = {"x86_64": "aarch64", "aarch64": "x86_64"}
ALONE = Surroundings()
SOCKET, CLONE = {"x86_64": 41, "aarch64": 198}, {"x86_64": 56, "aarch64": 220}


def decide(machine: str, number: int, *arguments: int, arch: int | None = None, around: Surroundings = ALONE) -> int:
    padded = (*arguments, 0, 0, 0)[:3]
    data = struct.pack("=IIQQQQ", number, ARCH[machine] if arch is None else arch, 0, *padded)
    code = program(machine, around)
    at, register = 0, 0
    while True:
        operation, yes, no, value = struct.unpack_from("=HBBI", code, at * 8)
        at += 1
        if operation == 0x20:
            (register,) = struct.unpack_from("=I", data, value)
        elif operation == 0x54:
            register &= value
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


SHARED = Surroundings(namespaces=True)
USER = Surroundings(namespaces=True, user=True)
ALL = Surroundings(namespaces=True, user=True, signals=True)
REFUSED = ERRNO | errno.EPERM


@pytest.mark.parametrize("machine", ARCH)
@pytest.mark.parametrize("around", [SHARED, USER, ALL])
def test_what_is_shared_with_the_host_is_denied(machine: str, around: Surroundings) -> None:
    for name, number in denied(machine, around).items():
        assert decide(machine, number, around=around) == REFUSED, name
    for name, number in pretended(machine, around).items():
        assert decide(machine, number, around=around) == ERRNO, name
    assert ("fchown" in denied(machine, around)) == (around is not SHARED)
    assert bool(pretended(machine, around)) == (around is not SHARED)
    assert decide(machine, SOCKET[machine], 1, around=around) == REFUSED
    assert decide(machine, CLONE[machine], 17, around=around) == ALLOW
    assert decide(machine, CLONE[machine], 0x10000011, around=around) == REFUSED


def call(machine: str, name: str, *arguments: int, around: Surroundings = SHARED) -> int:
    return decide(machine, SPECIAL[name][0 if machine == "x86_64" else 1] or 0, *arguments, around=around)


@pytest.mark.parametrize("machine", ARCH)
def test_pairs_of_streams_and_ones_own_limits(machine: str) -> None:
    assert call(machine, "socketpair", 1, 1) == ALLOW
    assert call(machine, "socketpair", 1, 1 | 0o2000000) == ALLOW  # SOCK_CLOEXEC
    for family, kind in ((1, 2), (1, 5), (1, 3), (2, 1), (30, 1)):
        assert call(machine, "socketpair", family, kind) == REFUSED
    assert call(machine, "prlimit64", 0) == ALLOW
    assert call(machine, "prlimit64", 4711) == REFUSED


@pytest.mark.parametrize("machine", ARCH)
def test_times_are_never_set(machine: str) -> None:
    assert call(machine, "utimensat", 0, 0, 0) == REFUSED
    assert call(machine, "utimensat", 0, 0, 0x7FFF0000) == ERRNO


@pytest.mark.parametrize("machine", ARCH)
def test_signals_stay_inside_where_nothing_else_keeps_them(machine: str) -> None:
    for name, alone in (("kill", ALLOW), ("tgkill", ALLOW)):
        assert call(machine, name, 4711, around=USER) == alone
        assert call(machine, name, OWN_PID, around=ALL) == ALLOW
        for target in (1, 4711, 0xFFFFFFFF):
            assert call(machine, name, target, around=ALL) == REFUSED
    assert call(machine, "kill", 0, around=ALL) == ALLOW

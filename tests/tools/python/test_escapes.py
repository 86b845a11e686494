"""Attempts to get out. Each returns something true when it got what it wanted; none may."""

from __future__ import annotations

import os
import platform
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tools.python.local import LocalSandbox
from tools.python.seccomp import denied
from tools.python.view import build_view

REPOSITORY = Path(__file__).resolve().parents[3]
ATTEMPTS = {
    "read /etc/shadow": "return open('/etc/shadow').read()",
    "read /etc/passwd": "return open('/etc/passwd').read()",
    "list the home": "return [n for n in os.listdir(HOME) if not PREFIX.startswith(HOME + '/' + n)]",
    "list the repository": "return os.listdir(REPOSITORY)",
    "import the repository": "import tools, memory\nreturn True",
    "import from the environment": "import pydantic\nreturn True",
    "read a file of the host": "return open(CANARY).read()",
    "follow a symlink out": "os.symlink(CANARY, 'link')\nreturn open('link').read()",
    "hard link": "os.link(CANARY, 'hard')\nreturn True",
    "list the host's /tmp": "return [n for n in os.listdir('/tmp') if n in HOST_TMP]",
    "list /proc": "return os.listdir('/proc')",
    "environment of the host": "return open(f'/proc/{HOST_PID}/environ').read() or open('/proc/1/environ').read()",
    "list /sys": "return os.listdir('/sys')",
    "environment": "return [v for v in os.environ.values() if 'canary' in v]",
    "environment of the C library": "return ctypes.CDLL(None).getenv(b'LONGSTRIDE_CANARY')",
    "connect to loopback": "return socket.create_connection(('127.0.0.1', PORT), 2)",
    "connect over IPv6": "return socket.create_connection(('::1', PORT), 2)",
    "resolve a name": "return socket.getaddrinfo('localhost', 80) and socket.gethostbyname('example.org')",
    "connect to an abstract socket": "s = socket.socket(socket.AF_UNIX)\ns.connect('\\0' + ABSTRACT)\nreturn True",
    "connect to a socket file": "s = socket.socket(socket.AF_UNIX)\ns.connect(SOCKET_FILE)\nreturn True",
    "vsock": "return socket.socket(40, socket.SOCK_STREAM)",
    "netlink": "return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "raw packets": "return socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
    "write to the root": "return open('/escaped', 'w')",
    "write to the library": "return open(os.path.dirname(os.__file__) + '/escaped.py', 'w')",
    "write to numpy": "return open('/packages/numpy/escaped.py', 'w')",
    "write to /dev": "return open('/dev/escaped', 'w')",
    "write to the hidden folder": "return [open(p + '/x', 'w') for p in HIDDEN]",
    "devices": "return set(os.listdir('/dev')) - {'null', 'zero', 'full', 'urandom'}",
    "make a device": "os.mknod('disk', 0o60600, os.makedev(254, 0))\nreturn open('disk', 'rb').read(1)",
    "terminal": "import fcntl, termios\nfcntl.ioctl(0, termios.TIOCSTI, b'x')\nreturn True",
    "mount": "return libc.mount(b'none', b'/workspace', b'tmpfs', 0, b'') == 0",
    "remount writable": "return libc.mount(b'none', b'/', b'none', ctypes.c_ulong(32 | 4096), b'') == 0",
    "unmount": "return libc.umount2(b'/workspace', 2) == 0",
    "new user namespace": "return libc.unshare(0x10000000) == 0",
    "new user namespace by clone": (
        "pid = libc.syscall(CLONE, ctypes.c_ulong(0x10000000 | 17), 0, 0, 0, 0)\n"
        "if pid == 0: os._exit(0)\n"
        "return pid > 0"
    ),
    "clone3": "return libc.syscall(435, 0, 0) != -1 or ctypes.get_errno() != 38",
    "join a namespace": "return libc.setns(0, 0) == 0 or ctypes.get_errno() != 1",
    "become root": "os.setresuid(0, 0, 0)\nreturn os.mknod('disk', 0o60600, os.makedev(254, 0)) is None",
    "give a file away": "open('f', 'w').close()\nos.chown('f', 12345, 12345)\nreturn True",
    "chroot": "os.chroot('/workspace')\nreturn True",
    "trace the first process": "return libc.ptrace(16, 1, 0, 0) == 0",
    "trace oneself": "return libc.ptrace(0, 0, 0, 0) == 0",
    "read another's memory": (
        "return libc.syscall(NR['process_vm_readv'], 1, 0, 0, 0, 0, 0) != -1 or ctypes.get_errno() != 1"
    ),
    "signal the host": "os.kill(HOST_PID, 0)\nreturn True",
    "kill the first process": "os.kill(1, 9)\nos.kill(1, 2)\nreturn False",
    "signal all": "signal.signal(15, signal.SIG_IGN)\nos.kill(-1, 15)\nreturn False",
    "open by handle": "return libc.syscall(NR['open_by_handle_at'], 0, 0, 0) != -1 or ctypes.get_errno() != 1",
    "io_uring": "return libc.syscall(NR['io_uring_setup'], 8, ctypes.create_string_buffer(256)) != -1",
    "bpf": "return libc.syscall(NR['bpf'], 0, 0, 0) != -1 or ctypes.get_errno() != 1",
    "perf events": "return libc.syscall(NR['perf_event_open'], 0, 0, 0, 0, 0) != -1 or ctypes.get_errno() != 1",
    "userfaultfd": "return libc.syscall(NR['userfaultfd'], 0) != -1",
    "keyring": "return libc.syscall(NR['keyctl'], 0, -3, 0, 0, 0) != -1",
    "kernel log": "return libc.klogctl(10, None, 0) != -1",
    "host name": "socket.sethostname('escaped')\nreturn True",
    "shared memory that no limit counts": "return libc.shmget(0, 1 << 20, 0o1600) != -1",
    "memory files that no limit counts": "return os.memfd_create('x')",
    "raise the limit of processes": "resource.setrlimit(resource.RLIMIT_NPROC, (9999, 9999))\nreturn True",
    "raise the limit of memory": "resource.setrlimit(resource.RLIMIT_AS, (-1, -1))\nreturn True",
    "fill the disk": (
        "n = 0\n"
        "for name in 'ab':\n"
        "    with open(name, 'wb', 0) as f:\n"
        "        for _ in range(48): n += f.write(bytes(1 << 20))\n"
        "return n > 64 << 20"
    ),
    "one huge file": "os.truncate(open('sparse', 'wb').name, 1 << 40)\nreturn True",
    "a shell": "return subprocess.run(['/bin/sh', '-c', 'id'])",
    "programs": "return [n for n in os.listdir('/usr/bin') if 'python' not in n]",
    "descriptors of the host": (
        "import stat\nfound = []\n"
        "for fd in range(3, 256):\n"
        "    try: found.append(stat.S_ISSOCK(os.fstat(fd).st_mode))\n"
        "    except OSError: pass\n"
        "return not all(found) or len(found) > 1"
    ),
    "the x32 calls": (
        "pid = os.fork()\n"
        "if pid == 0:\n    libc.syscall(0x40000000 | 39)\n    os._exit(7)\n"
        "return os.waitpid(pid, 0)[1] == 7 << 8"
    ),
}
FRAME = """
import ctypes, os, resource, signal, socket, subprocess
libc = ctypes.CDLL(None, use_errno=True)
def attempt():
{body}
try:
    got = attempt()
except (OSError, ImportError, ValueError) as error:
    got = None
bool(got)
"""


@dataclass(frozen=True)
class Host:
    """What there is to reach."""

    facts: str


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    canary, socket_file = tmp_path / "canary", tmp_path / "socket"
    canary.write_text("canary")
    monkeypatch.setenv("LONGSTRIDE_CANARY", "canary")
    abstract = f"longstride-test-{os.getpid()}"
    with socket.socket() as tcp, socket.socket(socket.AF_UNIX) as unix, socket.socket(socket.AF_UNIX) as named:
        for listener, address in ((tcp, ("127.0.0.1", 0)), (unix, f"\0{abstract}"), (named, str(socket_file))):
            listener.bind(address)
            listener.listen(1)
        facts = {
            "HOME": str(Path.home()),
            "PREFIX": os.path.realpath(sys.base_prefix),
            "REPOSITORY": str(REPOSITORY),
            "CANARY": str(canary),
            "HOST_TMP": [entry.name for entry in Path("/tmp").iterdir()],
            "HOST_PID": os.getpid(),
            "PORT": tcp.getsockname()[1],
            "ABSTRACT": abstract,
            "SOCKET_FILE": str(socket_file),
            "HIDDEN": build_view().hidden,
            "NR": denied(platform.machine()),
            "CLONE": {"x86_64": 56, "aarch64": 220}[platform.machine()],
        }
        yield Host("\n".join(f"{name} = {value!r}" for name, value in facts.items()))


@pytest.mark.parametrize("name", ATTEMPTS)
async def test_no_way_out(sandbox: LocalSandbox, host: Host, name: str) -> None:
    code = host.facts + FRAME.format(body=textwrap.indent(ATTEMPTS[name], "    "))
    result = await sandbox.execute(code, 10)
    assert (result.value_repr, result.error) == ("False", None)


WOULD = (
    "read /etc/passwd",
    "list the repository",
    "read a file of the host",
    "follow a symlink out",
    "list the host's /tmp",
    "list /proc",
    "list /sys",
    "environment",
    "environment of the C library",
    "connect to loopback",
    "connect to an abstract socket",
    "connect to a socket file",
    "netlink",
    "signal the host",
    "memory files that no limit counts",
    "a shell",
    "programs",
)


def test_the_attempts_work_outside(host: Host, tmp_path: Path) -> None:
    """The same code on the bare host: if nothing stood in the way, these would be seen."""
    failed = []
    for name in WOULD:
        code = host.facts + FRAME.format(body=textwrap.indent(ATTEMPTS[name], "    ")) + "print(bool(got))"
        ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
        if not ran.stdout.endswith("True\n"):
            failed.append((name, ran.stdout, ran.stderr))
    assert not failed

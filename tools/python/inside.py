"""What runs inside the sandbox, given to a bare interpreter as text: standard library only, nothing of longstride.

In order: build the file view (where bubblewrap has not), give up every privilege, prove it, then serve cells. The
first process only waits: it dies when the host's end of the channel closes, and every other process dies with it.
"""

from __future__ import annotations

import ast
import contextlib
import ctypes
import json
import linecache
import os
import resource
import select
import signal
import socket
import struct
import sys
import traceback
import types
from pathlib import Path
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
MNT_DETACH = 2
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
SYS_MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE = 442, -100, 0x8000
READ_ONLY, NO_SUID, NO_DEV = 1, 2, 4
PR_CAPBSET_DROP, PR_SET_SECCOMP, PR_GET_SECCOMP, PR_SET_NO_NEW_PRIVS, PR_GET_NO_NEW_PRIVS = 24, 22, 21, 38, 39
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, SECCOMP_MODE_FILTER = 47, 4, 2
CAPABILITY_VERSION_3 = 0x20080522
REPORT_ROOM = 64 << 20
MAX_TEXT = 20_000
MAX_FILES = 50
OLD_ROOT = "/.old"
PARSE: int = ast.PyCF_ONLY_AST


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


def give_up(uid: int | None, limits: Any, program: bytes) -> None:
    """Limits, user id, capabilities, new privileges, system calls: in this order, for good."""
    os.nice(5)  # busy code must not slow the run it belongs to
    size = limits["workspace"]
    for kind, soft, hard in (
        (resource.RLIMIT_AS, limits["memory"], limits["memory"] + REPORT_ROOM),
        (resource.RLIMIT_CPU, limits["cpu_s"], limits["cpu_s"]),
        (resource.RLIMIT_FSIZE, size, size),
        (resource.RLIMIT_NOFILE, limits["files"], limits["files"]),
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_MEMLOCK, 0, 0),
        (resource.RLIMIT_MSGQUEUE, 0, 0),
    ):
        resource.setrlimit(kind, (soft, hard))
    LIBC.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    for capability in range(64):  # beyond the last one, or without the right to: the self-check decides
        LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    resource.setrlimit(resource.RLIMIT_NPROC, (limits["processes"], limits["processes"]))
    header = struct.pack("=Ii", CAPABILITY_VERSION_3, 0)
    check(LIBC.capset(header, bytes(24)), "capset")
    check(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    code = ctypes.create_string_buffer(program, len(program))
    filter_program = ctypes.create_string_buffer(struct.pack("@HP", len(program) // 8, ctypes.addressof(code)))
    check(LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter_program, 0, 0), "seccomp")


def supervise(channel: int) -> None:
    """Returns in a new process, the worker; here waits, reaps orphans, and ends when the worker or the host does."""
    worker = os.fork()
    if worker == 0:
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # which means ignored, in the first process of a namespace
    poller = select.poll()
    poller.register(channel, 0)  # only its end is of interest; the worker reads it
    poller.register(os.pidfd_open(worker), select.POLLIN)
    while True:
        if any(fd == channel for fd, _ in poller.poll(1000)):
            os._exit(0)
        pid, status = os.waitpid(-1, os.WNOHANG)
        while pid:
            if pid == worker:
                os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))
            pid, status = os.waitpid(-1, os.WNOHANG)


def self_check(wanted: Any, uid: int | None, workspace: str) -> list[str]:
    """What does not hold of the isolation, by trying it; empty when all is well."""
    failed = []
    header, data = struct.pack("=Ii", CAPABILITY_VERSION_3, 0), ctypes.create_string_buffer(24)
    LIBC.capget(header, data)
    if any(data.raw):
        failed.append("capabilities are left")
    if LIBC.prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1 or LIBC.prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 2:
        failed.append("no_new_privs or seccomp is off")
    if uid is not None and set(os.getresuid()) | set(os.getresgid()) | set(os.getgroups()) != {uid}:
        failed.append("the user id was kept")
    if os.getppid() != 1:
        failed.append("the process namespace is shared")
    failed += [f"{path} is visible" for path in wanted["hidden"] if os.path.lexists(path)]
    failed += [f"{name} is in the environment" for name in os.environ if name not in (*wanted["environment"], "PWD")]
    failed += [f"{folder} can be written" for folder in (Path("/"), Path(os.__file__).parent) if can_write(folder)]
    if not can_write(Path(workspace)):
        failed.append("the workspace cannot be written")
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


class Cells:
    """Runs cells in one namespace."""

    def __init__(self, workspace: str, memory: int) -> None:
        self.module = types.ModuleType("__main__")
        self.count = 0
        self.pid = os.getpid()
        self.workspace = workspace
        self.memory = memory
        self.hard = memory + REPORT_ROOM

    def run(self, code: str) -> dict[str, object]:
        self.count += 1
        before = self.files()
        value = error = None
        try:
            result = self.evaluate(code, f"<cell {self.count}>")
            if result is not None:
                self.module.__dict__["_"] = result
                value = clipped(repr(result))
        except BaseException as raised:  # noqa: BLE001 - the code is anyone's, and so is what it raises
            # what was out of memory gets a little more to say so
            resource.setrlimit(resource.RLIMIT_AS, (self.hard, self.hard))
            error = clipped(report(raised))
            del raised
            resource.setrlimit(resource.RLIMIT_AS, (self.memory, self.hard))
        if os.getpid() != self.pid:
            os._exit(0)  # a fork that the code let run on: there is one worker
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(BaseException):  # the code may have replaced it
                stream.flush()
        changed = [name for name, stamp in self.files().items() if before.get(name) != stamp]
        return {"value": value, "error": error, "files": sorted(changed)[:MAX_FILES]}

    def evaluate(self, code: str, name: str) -> object:
        """The value of the last expression, None without one."""
        linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
        tree: ast.Module = compile(code, name, "exec", PARSE, dont_inherit=True)
        last = tree.body[-1] if tree.body else None
        if isinstance(last, ast.Expr):
            tree.body.pop()
        scope = self.module.__dict__
        exec(compile(tree, name, "exec", dont_inherit=True), scope)
        if not isinstance(last, ast.Expr):
            return None
        return eval(compile(ast.Expression(last.value), name, "eval", dont_inherit=True), scope)

    def files(self) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        try:
            with os.scandir(self.workspace) as entries:
                for entry in entries:
                    if entry.is_file(follow_symlinks=False):
                        status = entry.stat(follow_symlinks=False)
                        found[entry.name] = (status.st_mtime_ns, status.st_size)
        except OSError:
            pass
        return found


def clipped(text: str) -> str:
    if len(text) <= MAX_TEXT:
        return text
    return f"{text[: MAX_TEXT // 2]}\n[… {len(text) - MAX_TEXT} characters left out]\n{text[-MAX_TEXT // 2 :]}"


def report(error: BaseException) -> str:
    """A traceback of the user's own frames, and of the one that raised."""
    trace = traceback.TracebackException.from_exception(error, limit=-50)
    pending: list[traceback.TracebackException | None] = [trace]
    while pending:
        one = pending.pop()
        if one is None:
            continue
        frames = [frame for frame in one.stack if frame.filename != "<string>"]
        cells = [frame for frame in frames[:-1] if frame.filename.startswith("<cell ")]
        one.stack = traceback.StackSummary.from_list([*cells, *frames[-1:]])
        pending += [one.__cause__, one.__context__]
    header = "Traceback (most recent call last):\n"
    text = "".join(trace.format())
    return (text if trace.stack else text.removeprefix(header)).rstrip()


def serve(channel: socket.socket, cells: Cells) -> None:
    sys.modules["__main__"] = cells.module
    for line in channel.makefile("r", encoding="utf-8", newline="\n"):
        reply = cells.run(json.loads(line)["code"])
        channel.sendall(json.dumps(reply).encode() + b"\n")


def main() -> None:
    config = json.loads(sys.argv[1])
    limits, workspace = config["limits"], config["workspace"]
    channel = socket.socket(fileno=config["channel"])
    channel.setblocking(True)
    channel.set_inheritable(False)
    if config["view"] is not None:
        enter_view(config["view"], config["devices"], workspace, limits["workspace"])
    give_up(config["uid"], limits, bytes.fromhex(config["filter"]))
    supervise(channel.fileno())
    failed = self_check(config["check"], config["uid"], workspace)
    channel.sendall(json.dumps({"failed": failed}).encode() + b"\n")
    if failed:
        return
    sys.argv = [""]
    sys.path.append(config["packages"])
    serve(channel, Cells(workspace, limits["memory"]))


if __name__ == "__main__":
    main()

"""The parent of a server's process: when the run ends, in whatever way, nothing that the server started is left.

A script by itself, run as ``python -I -S guard.py LIFELINE COMMAND …``. It adopts what the server's processes leave
behind (Linux), and kills everything below it when the server ends or the other end of the pipe LIFELINE is closed.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

_SET_CHILD_SUBREAPER, _SET_PDEATHSIG = 36, 1
_KILL_S = 5.0


def main() -> None:
    lifeline = int(sys.argv[1])
    os.set_inheritable(lifeline, False)
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for name in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(name, signal.SIG_IGN)  # the run decides when the server ends
    _prctl(_SET_CHILD_SUBREAPER, 1)
    server = os.fork()
    if server == 0:
        _serve(sys.argv[2:])
    void = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(void, descriptor)  # else the pipes would never end
    status = None
    while status is None:
        ready, _, _ = select.select([lifeline, wake], [], [])
        if wake in ready:
            os.read(wake, 4096)
        status = _reaped(server)
        if lifeline in ready:
            break
    _end_all(server)
    code = os.waitstatus_to_exitcode(status or 0)
    sys.exit(code if code >= 0 else 128 - code)


def _serve(command: list[str]) -> None:
    signal.set_wakeup_fd(-1)
    for name in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(name, signal.SIG_DFL)
    os.setsid()
    _prctl(_SET_PDEATHSIG, signal.SIGKILL)
    try:
        os.execv(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    os._exit(127)


def _reaped(server: int) -> int | None:
    """Collect every process that has ended; the status of the server when it is among them."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == server:
            found = status


def _end_all(server: int) -> None:
    """Kill what is below, again and again: what a dead process leaves behind becomes a child of this one."""
    deadline = time.monotonic() + _KILL_S
    while time.monotonic() < deadline:
        for pid in _children(server):
            try:  # noqa: SIM105 - contextlib would be loaded for this alone
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass  # it has just ended
        _reaped(server)
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        time.sleep(0.005)


def _children(server: int) -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as listed:  # noqa: PTH123 - pathlib is slow to load
            return [int(pid) for pid in listed.read().split()]
    except OSError:
        return [-server]  # no such list on this system: the server's own group has to do


def _prctl(option: int, value: int) -> None:
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    main()

"""What runs inside the sandbox, given to a bare interpreter as text: standard library only, nothing of longstride.

In order: build the file view (where bubblewrap has not), give up every privilege, prove it, then serve cells. The
first process only waits. In a process namespace every other process dies with it; elsewhere it adopts what the code
leaves behind, and ends them all before it ends itself. It goes when the worker, or the host's end of the channel does.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

from tools.python.inside_cells import Cells
from tools.python.inside_rights import give_up, self_check
from tools.python.inside_view import LIBC, enter_view
from tools.python.tidy import remove
from tools.python.tree import OVERFULL, descendants

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def supervise(channel: int, workspace: str, entries: int) -> None:
    """Returns in a new process, the worker; here waits, reaps orphans, and ends when the worker or the host does, or
    when there are more than so many ``entries`` in the workspace, which no mount option of bubblewrap limits."""
    worker = os.fork()
    if worker == 0:
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # which means ignored, in the first process of a namespace
    os._exit(wait_for(worker, channel, lambda: entries_of(workspace) > entries))


def adopt(channel: int, uid: int | None, place: str) -> None:
    """The same without a process namespace: this process keeps the host's rights, which the worker then gives up, and
    leaves nothing in ``place``."""
    if sys.platform == "linux":
        LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    worker = os.fork()
    if worker == 0:
        os.setsid()
        return
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    code = wait_for(worker, channel, lambda: False)
    while end_all(worker, uid):
        time.sleep(0.001)
    remove(place)
    os._exit(code)


def entries_of(workspace: str) -> int:
    status = os.statvfs(workspace)
    return status.f_files - status.f_ffree


def wait_for(worker: int, channel: int, overfull: Callable[[], bool]) -> int:
    """Exit code of the worker, 0 when the host goes first, `OVERFULL`."""
    poller = select.poll()
    poller.register(channel, 0)  # only its end is of interest; the worker reads it
    if sys.platform == "linux":
        poller.register(os.pidfd_open(worker), select.POLLIN)
    while True:
        if any(fd == channel for fd, _ in poller.poll(100)):
            return 0
        if overfull():
            return OVERFULL
        pid, status = os.waitpid(-1, os.WNOHANG)
        while pid:
            if pid == worker:
                return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
            pid, status = os.waitpid(-1, os.WNOHANG)


def end_all(worker: int, uid: int | None) -> bool:
    """Kill everything below this process, and everything of ``uid``; whether anything may be left."""
    for pid in descendants(os.getpid()) or [worker]:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    if uid is not None:
        helper = os.fork()
        if helper == 0:
            with contextlib.suppress(OSError):
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
                os.kill(-1, signal.SIGKILL)  # all of this user's, at once: forks cannot run away from it
            os._exit(0)
        done = os.pidfd_open(helper)  # unless it is waited for, it is itself what "may be left"
        select.select([done], [], [], 0.05)  # not for ever: one of its user may have stopped it
        os.close(done)
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def serve(channel: socket.socket, cells: Cells) -> None:
    sys.modules["__main__"] = cells.module
    for line in channel.makefile("r", encoding="utf-8", newline="\n"):
        asked = json.loads(line)
        reply = json.dumps({"call": asked["call"], **cells.run(asked["code"])}).encode() + b"\n"
        cells.allow(0)
        channel.sendall(reply)


def main() -> None:
    config: Any = json.loads(sys.argv[1])
    channel = socket.socket(fileno=config["channel"])
    channel.setblocking(True)
    channel.set_inheritable(False)
    if config["level"] == 3:
        if config["view"] is not None:
            enter_view(config["view"], config["devices"], config["workspace"], config["limits"]["workspace"])
        give_up(config)
        supervise(channel.fileno(), config["workspace"], config["limits"]["entries"])
    else:
        parent = os.getpid()
        adopt(channel.fileno(), config["uid"], config["place"])
        os.chdir(config["workspace"])
        give_up(config)
        if sys.platform == "linux":
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # after the user id: changing that clears it
            if os.getppid() != parent:
                return
    failed = self_check(config)
    channel.sendall(json.dumps({"failed": failed}).encode() + b"\n")
    if failed:
        return
    sys.argv = [""]
    sys.path.append(config["packages"])
    serve(channel, Cells(config["workspace"], config["limits"]["memory"]))


if __name__ == "__main__":
    main()

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
from typing import Any

from tools.python.inside_cells import Cells
from tools.python.inside_rights import give_up, self_check
from tools.python.inside_view import LIBC, enter_view
from tools.python.tree import descendants

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def supervise(channel: int) -> None:
    """Returns in a new process, the worker; here waits, reaps orphans, and ends when the worker or the host does."""
    worker = os.fork()
    if worker == 0:
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # which means ignored, in the first process of a namespace
    os._exit(wait_for(worker, channel))


def adopt(channel: int, uid: int | None) -> None:
    """The same without a process namespace: this process keeps the host's rights, which the worker then gives up."""
    if sys.platform == "linux":
        LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    worker = os.fork()
    if worker == 0:
        os.setsid()
        return
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    code = wait_for(worker, channel)
    while end_all(worker, uid):
        time.sleep(0.001)
    os._exit(code)


def wait_for(worker: int, channel: int) -> int:
    """Exit code of the worker, 0 when the host goes first."""
    poller = select.poll()
    poller.register(channel, 0)  # only its end is of interest; the worker reads it
    patience = 20
    if sys.platform == "linux":
        poller.register(os.pidfd_open(worker), select.POLLIN)
        patience = 1000
    while True:
        if any(fd == channel for fd, _ in poller.poll(patience)):
            return 0
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
        supervise(channel.fileno())
    else:
        parent = os.getpid()
        adopt(channel.fileno(), config["uid"])
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

"""Who may write: one process per session, known by pid, start time of that pid, and boot.

A live owner is never displaced. One that is gone (other boot, no such pid, or the pid belongs to a later process; on a
server: its connection is gone) is taken over. Every writing transaction checks the token, so an owner that was
displaced stops instead of mixing in.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from memory.errors import StoreBusy
from memory.store.sql import Connection

_HELD: set[str] = set()
"""Tokens that stores of this process hold: one that could not be taken off the record must not shut out its own
process until that ends."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that holds a session. ``started`` and ``boot`` are empty where the system does not tell."""

    token: str
    label: str
    pid: int
    started: str
    boot: str
    host: str
    since: float

    def alive(self) -> bool:
        """Whether that very process still runs, as far as this machine can tell, and has not let go of it."""
        if self.boot != boot_id():
            return False
        if self.pid == os.getpid() and self.started == (process_start(self.pid) or ""):
            return self.token in _HELD
        if self.started and (now := process_start(self.pid)) is not None:
            return now == self.started
        return _pid_exists(self.pid)


Lives: TypeAlias = Callable[[Owner], bool]
"""Whether an owner on record is still there."""


def this_process(label: str) -> Owner:
    """A new owner record for the calling process."""
    pid = os.getpid()
    token = secrets.token_hex(16)
    _HELD.add(token)
    return Owner(
        token=token,
        label=label,
        pid=pid,
        started=process_start(pid) or "",
        boot=boot_id(),
        host=socket.gethostname(),
        since=time.time(),
    )


def let_go(token: str) -> None:
    """This process holds no session by ``token`` any more, even where that cannot be written down."""
    _HELD.discard(token)


def boot_id() -> str:
    """Changes when the machine restarts; empty where there is no such thing."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def process_start(pid: int) -> str | None:
    """Start time of a process in clock ticks since boot, "" when there is none, None when it cannot be known."""
    if not Path("/proc/self/stat").exists():
        return None
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    # The command name, in parentheses, may hold spaces and parentheses itself.
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in ("Z", "X") else fields[19]


def _pid_exists(pid: int) -> bool:
    if sys.platform == "win32":  # there os.kill would end the process, or interrupt it
        import ctypes

        handle = ctypes.windll.kernel32.OpenProcess(0x1000, False, pid)
        return bool(handle and ctypes.windll.kernel32.CloseHandle(handle))
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def current(connection: Connection) -> Owner | None:
    """The owner on record, alive or not."""
    row = connection.execute("SELECT token, label, pid, started, boot, host, since FROM owner").fetchone()
    return None if row is None else Owner(*row)


def take(connection: Connection, mine: Owner, lives: Lives = Owner.alive) -> Owner | None:
    """Put ``mine`` on record; returns the dead owner it replaces, if any. Raises StoreBusy when a live one holds it."""
    held = current(connection)
    if held is not None and held.token != mine.token and lives(held):
        raise busy(held, lives)
    connection.execute("DELETE FROM owner")
    connection.execute(
        "INSERT INTO owner VALUES (1, ?, ?, ?, ?, ?, ?, ?)",
        (mine.token, mine.label, mine.pid, mine.started, mine.boot, mine.host, mine.since),
    )
    return held


def give_up(connection: Connection, token: str) -> None:
    """Take the owner with this token off the record."""
    connection.execute("DELETE FROM owner WHERE token = ?", (token,))


def fence(connection: Connection, token: str | None, lives: Lives = Owner.alive) -> None:
    """Raises StoreBusy unless the caller may write: it is the owner, or there is none."""
    row = connection.execute("SELECT token FROM owner").fetchone()
    if row is None:
        if token is None:
            return
        raise StoreBusy("this process no longer owns the session", hint="resume the session")
    held = current(connection) if row[0] != token else None
    if held is not None:
        raise busy(held, lives)


def busy(held: Owner, lives: Lives = Owner.alive) -> StoreBusy:
    """What a caller that is not ``held`` is told."""
    if not lives(held):
        return StoreBusy(
            f"the session was left by process {held.pid}, which is gone, and is not claimed", hint="resume the session"
        )
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(held.since))
    return StoreBusy(
        f"the session belongs to process {held.pid} on {held.host} ({held.label or 'no label'}, since {since})",
        hint=f"end process {held.pid}, or wait for it, then resume",
    )

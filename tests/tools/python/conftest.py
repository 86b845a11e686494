"""Sandboxes of every mechanism that this host has; what it has not is skipped by name."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from tools.python.base import Limits
from tools.python.local import LocalSandbox
from tools.python.mechanisms import Mechanism, available

Make = Callable[..., LocalSandbox]
LEVELS: list[str] = []
"""What the escape corpus found, by level: shown when the tests are done."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in LEVELS:
        terminalreporter.write_line(line)


@pytest.fixture(params=["bubblewrap", pytest.param("namespaces", marks=pytest.mark.nightly), "Landlock"])
def mechanism(request: pytest.FixtureRequest) -> Mechanism:
    for one in available():
        if one.name == request.param:
            return one
    pytest.skip(f"NO ISOLATION by {request.param} on this host: the sandbox goes untested")


@pytest.fixture
async def make(mechanism: Mechanism) -> AsyncIterator[Make]:
    made: list[LocalSandbox] = []

    def one(limits: Limits | None = None) -> LocalSandbox:
        made.append(LocalSandbox(mechanism, limits=limits))
        return made[-1]

    yield one
    for sandbox in made:
        await sandbox.aclose()


@pytest.fixture
def sandbox(make: Make) -> LocalSandbox:
    return make()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach, which pytest's own are not."""
    folder = Path(tempfile.mkdtemp(prefix="longstride-test-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)

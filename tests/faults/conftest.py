"""A disk in memory, and the process that forks the children."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import memory_disk
from tests.faults.zygote import Zygote


@pytest.fixture(scope="module")
def disk() -> Iterator[Path]:
    """In memory where there is such a disk: a kill loses nothing that was written, so an fsync would only cost time."""
    with tempfile.TemporaryDirectory(dir=memory_disk()) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def zygote(disk: Path) -> Iterator[Zygote]:
    (disk / "scratch").mkdir()
    with Zygote(disk / "scratch") as running:
        yield running

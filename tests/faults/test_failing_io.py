"""The operating system's own calls fail under SQLite: a write or an fsync gives an error, or the process dies in it."""

from __future__ import annotations

import errno
import random
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from memory.records import JsonValue
from tests.faults.script import transcript
from tests.faults.survivor import Survivor
from tests.faults.zygote import Zygote

SOURCE = Path(__file__).parent / "failing_io.c"
SYNC_FAILS, WRITE_FAILS, WRITE_IS_TORN, SYNC_KILLS = 1, 2, 3, 4


@dataclass(frozen=True)
class Kind:
    """What fails, with which errno, and how a run may end by it."""

    what: int
    error: int
    allowed: frozenset[str]


FAILED = frozenset({"completed", "storage_failed", "StoreFault"})
KINDS = {
    "fsync fails": Kind(SYNC_FAILS, errno.EIO, FAILED),
    "a write fails": Kind(WRITE_FAILS, errno.EIO, FAILED),
    "no room for a write": Kind(WRITE_FAILS, errno.ENOSPC, FAILED | {"storage_full", "StoreFull"}),
    "killed in a write": Kind(WRITE_IS_TORN, 0, frozenset({"killed", "completed"})),
    "killed before an fsync": Kind(SYNC_KILLS, 0, frozenset({"killed", "completed"})),
}


@pytest.fixture(scope="module")
def disk() -> Iterator[Path]:
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def zygote(disk: Path) -> Iterator[Zygote]:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("NO C COMPILER: failing writes and syncs were not tested")
    library = disk / "failing_io.so"
    (disk / "scratch").mkdir()
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"], check=True)
    with Zygote(disk / "scratch", preload=library) as running:
        yield running


@pytest.fixture(scope="module")
def whole(zygote: Zygote, disk: Path) -> list[JsonValue]:
    (disk / "whole").mkdir()
    survivor = Survivor(disk / "whole")
    assert not survivor.session(zygote).killed
    return transcript(survivor.steps())


def calls(zygote: Zygote, disk: Path, what: int) -> int:
    """How many calls of a kind a whole session makes."""
    folder = disk / f"counted{what}"
    folder.mkdir()
    ended = zygote.run("io", folder=str(folder), arm=[what, 1_000_000, 0])
    assert ended.code == 0, ended.error
    return 1_000_000 - int(ended.result["left"])


def fail(zygote: Zygote, disk: Path, name: str, n: int, whole: list[JsonValue]) -> str:
    """One session with one failing call; returns how its first run ended."""
    kind, folder = KINDS[name], disk / f"{name}-{n}"
    folder.mkdir()
    survivor = Survivor(folder)
    ended = zygote.run("io", folder=str(folder), arm=[kind.what, n, kind.error])
    assert ended.killed or ended.code == 0, ended.error
    end = "killed" if ended.killed else str(ended.result["status"])
    assert end in kind.allowed, (n, end)
    survivor.look()
    assert not survivor.session(zygote).killed
    survivor.finished(whole)
    shutil.rmtree(folder)
    return end


@pytest.mark.parametrize("name", KINDS)
def test_a_call_now_and_then(zygote: Zygote, disk: Path, whole: list[JsonValue], name: str) -> None:
    rng = random.Random(name)
    (disk / name).mkdir()
    count = calls(zygote, disk / name, KINDS[name].what)
    ends = {fail(zygote, disk / name, name, n, whole) for n in rng.sample(range(1, count + 1), 2)}
    assert ends


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", KINDS)
def test_every_ninth_call(zygote: Zygote, disk: Path, whole: list[JsonValue], name: str) -> None:
    """Some 60 seconds, all kinds together; three times that on a busy machine."""
    here = disk / f"every {name}"
    here.mkdir()
    count = calls(zygote, here, KINDS[name].what)
    ends = {fail(zygote, here, name, n, whole) for n in range(1, count + 1, 9)}
    assert ends - {"completed"}

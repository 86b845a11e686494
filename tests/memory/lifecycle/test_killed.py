"""kill -9 at every named point of a compaction: the store is whole, and the next one ends where it would have."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.memory.lifecycle import scenes
from tests.memory.lifecycle.scenes import EVICT

ROOT = Path(__file__).parents[3]
MOST = 40


def compacted(path: Path, point: int) -> int:
    """Exit status of a compaction that is killed at its ``point``-th point."""
    command = [sys.executable, "-m", "tests.memory.lifecycle.killed", str(path), str(point)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_killed_at_every_point(tmp_path: Path) -> None:
    filled, whole = tmp_path / "filled.sqlite", tmp_path / "whole.sqlite"
    asyncio.run(scenes.fill(filled))
    before, _ = asyncio.run(scenes.texts_and_hashes(Path(shutil.copy(filled, tmp_path / "before.sqlite"))))
    asyncio.run(scenes.run(Path(shutil.copy(filled, whole)), EVICT))
    expected = asyncio.run(scenes.texts_and_hashes(whole))
    ended = []
    for point in range(1, MOST):
        path = Path(shutil.copy(filled, tmp_path / f"{point}.sqlite"))
        ended.append(compacted(path, point))
        between, _ = asyncio.run(scenes.texts_and_hashes(path))
        assert all(now in pair for now, *pair in zip(between, before, expected[0], strict=True)), point
        asyncio.run(scenes.run(path, EVICT))
        assert asyncio.run(scenes.texts_and_hashes(path)) == expected, point
        if ended[-1] == 0:
            break
    assert ended[-1] == 0 and len(ended) > 12
    assert set(ended[:-1]) == {-signal.SIGKILL}

"""Copies that a reader made go with it, also when it was killed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from memory.store.copies import FRESH_S, PREFIX, Copies

pytest.importorskip("fcntl", reason="no locks of this kind here")


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_what_a_killed_reader_left_goes_and_what_one_reads_stays(tmp_path: Path) -> None:
    (tmp_path / "s.db").write_bytes(b"secret")
    (tmp_path / "s.db-wal").write_bytes(b"log")
    reads = (
        "import os, sys; from pathlib import Path; from memory.store.copies import Copies\n"
        f"copies = Copies(); copies.of(Path({str(tmp_path / 's.db')!r}), ('-wal', '-journal'))\n"
        "print(copies.folder, flush=True); os.kill(os.getpid(), 9)"
    )
    killed = subprocess.run(
        [sys.executable, "-c", reads], env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, check=False
    )
    left = Path(killed.stdout.decode().strip())
    assert sorted(path.name for path in left.iterdir()) == ["s.db", "s.db-wal"], killed.stderr
    held, theirs = Copies(), tmp_path / "longstride-else"
    theirs.mkdir()
    old = time.time() - 2 * FRESH_S
    for folder in (held.folder, theirs):
        os.utime(folder, (old, old))
    again = Copies()  # the one that was killed may have been made by someone who does not hold it yet
    assert left.exists() and left.name.startswith(PREFIX)
    os.utime(left, (old, old))
    Copies().close()
    assert not left.exists() and held.folder.exists() and theirs.exists()
    held.close()
    again.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["longstride-else", "s.db", "s.db-wal"]

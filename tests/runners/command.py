"""The command line for tests: in this process or in one of its own, over a small corpus of our own texts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from runners.cli import app

ROOT = Path(__file__).parent.parent.parent
PAGES = {
    "salt-road.md": "# The Salt Road (film)\n\nThe Salt Road is a 1961 Norwegian film directed by Ingrid Solvang.\n",
    "solvang.md": "# Ingrid Solvang\n\nIngrid Solvang was a Norwegian film director. She was born in Bodø.\n",
    "harbour.html": "<html><head><title>Varden harbour</title></head><body><h1>Varden harbour</h1>"
    "<p>The harbour of Varden was rebuilt in 1831 and cost 2000 crowns. It is open all winter.</p></body></html>",
    "bridges.txt": "Bridges of Osk\n\nThe old bridge of Osk was sold in 1790.\n",
}


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A folder of pages."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    for name, text in PAGES.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended. ``report``: its ``--json`` file."""

    code: int
    out: str
    err: str
    report: Any = None

    @property
    def error(self) -> str:
        """The one line of an error."""
        (line,) = self.err.splitlines()
        return line


class Command:
    """Runs commands in this process, under a home of their own."""

    def __init__(self, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
        self.home = folder / "home"
        self._capsys = capsys
        self._json = folder / "report.json"

    def __call__(self, *arguments: str, report: bool = True) -> Ended:
        """``report``: with ``--json``."""
        self._json.unlink(missing_ok=True)
        code = app.main([*arguments, *(["--json", str(self._json)] if report else [])])
        captured = self._capsys.readouterr()
        written = json.loads(self._json.read_text("utf-8")) if self._json.exists() else None
        return Ended(code, captured.out, captured.err, written)

    def start(self, *arguments: str, variables: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """A command in a process of its own, in its own group, with all its output piped."""
        environment = {**os.environ, "LONGSTRIDE_HOME": str(self.home), "PYTHONPATH": str(ROOT), **(variables or {})}
        return subprocess.Popen(
            [sys.executable, "-m", "longstride", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )


def interrupt(process: subprocess.Popen[str]) -> Ended:
    """Ctrl-C: the signal goes to the whole group, as from a terminal."""
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    return Ended(process.returncode, out, err)


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command line, with its sessions and caches below the test's own folder."""
    made = Command(capsys, tmp_path)
    monkeypatch.setenv("LONGSTRIDE_HOME", str(made.home))
    monkeypatch.chdir(tmp_path)
    return made

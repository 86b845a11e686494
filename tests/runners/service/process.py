"""`longstride serve` as a process of its own, and how large it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.runners.command import ROOT


@contextmanager
def serving(home: Path, *options: str, **variables: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The address of a ``longstride serve``, and its process."""
    told = home / "served.json"
    environment = {"PATH": os.environ["PATH"], "LONGSTRIDE_HOME": str(home), "PYTHONPATH": str(ROOT), **variables}
    command = [sys.executable, "-m", "longstride", "serve", "--port", "0", "--json", str(told), *options]
    with (home / "stderr.txt").open("ab") as errors:
        process = subprocess.Popen(command, env=environment, cwd=home, stdout=errors, stderr=errors)
    try:
        while not told.exists() or not told.read_text():
            assert process.poll() is None, (home / "stderr.txt").read_text()
            time.sleep(0.05)  # nothing else tells
        yield json.loads(told.read_text())["url"], process
    finally:
        process.kill()
        process.wait(30)


def resident(pid: int) -> int:
    """Bytes of a process that are in memory (Linux)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmRSS")).split()[1])


def descriptors(pid: int) -> int:
    """Files and sockets that a process has open (Linux)."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def processor_s(pid: int) -> float:
    """Processor time of a process so far (Linux), seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

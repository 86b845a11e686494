"""Children by the hundred: one process that has imported everything forks a child for each job, and may kill it.

``python -m tests.faults.zygote`` reads a job (one line of JSON) and answers with how it ended (one line of JSON). It
has one thread, so that forking it is sound; its children are ordinary processes with threads of their own.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
Job = Callable[[Mapping[str, Any]], Coroutine[Any, Any, object]]


@dataclass(frozen=True)
class Ended:
    """How a job ended. ``killed``: by SIGKILL, from outside or by itself."""

    killed: bool
    code: int
    result: Any
    error: str
    seconds: float


class Zygote:
    """The client: owns the process; use it as a context manager."""

    def __init__(self, scratch: Path, *, preload: Path | None = None) -> None:
        """``scratch``: a folder for what children say. ``preload``: a library that they run with."""
        threads = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.zygote", str(scratch)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, **threads, **({"LD_PRELOAD": str(preload)} if preload else {})},
        )

    def __enter__(self) -> Zygote:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()

    def run(self, job: str, *, kill_after: float | None = None, **given: object) -> Ended:
        """Run one job to its end, or kill it after so many seconds."""
        return self.run_all([{"job": job, **given}], kill_after=kill_after)[0]

    def run_all(self, jobs: list[dict[str, object]], *, kill_after: float | None = None) -> list[Ended]:
        """Jobs side by side."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"jobs": jobs, "kill_after": kill_after}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the zygote died"
        return [Ended(**ended) for ended in json.loads(line)]


def main() -> None:
    from tests.faults.jobs import JOBS, warm

    warm()
    scratch = Path(sys.argv[1])
    for line in sys.stdin:
        asked = json.loads(line)
        started = time.monotonic()
        files = [scratch / f"job{number}" for number in range(len(asked["jobs"]))]
        children = [_fork(JOBS[job["job"]], job, file) for job, file in zip(asked["jobs"], files, strict=True)]
        if asked["kill_after"] is not None:
            for child in children:
                _kill_after(child, asked["kill_after"] - (time.monotonic() - started))
        ended = [_ended(child, file, started) for child, file in zip(children, files, strict=True)]
        sys.stdout.write(json.dumps(ended) + "\n")
        sys.stdout.flush()


def _fork(job: Job, given: Mapping[str, Any], file: Path) -> int:
    file.unlink(missing_ok=True)
    child = os.fork()
    if child:
        return child
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    code = 1
    try:
        result = asyncio.run(job(given))  # type: ignore[arg-type]
        file.write_text(json.dumps({"result": result, "error": ""}))
        code = 0
    except BaseException:
        file.write_text(json.dumps({"result": None, "error": traceback.format_exc()}))
        raise
    finally:
        os._exit(code)


def _kill_after(child: int, seconds: float) -> None:
    watched = os.pidfd_open(child)
    try:
        if not select.select([watched], [], [], max(0.0, seconds))[0]:
            os.kill(child, signal.SIGKILL)
    finally:
        os.close(watched)


def _ended(child: int, file: Path, started: float) -> dict[str, object]:
    _, status = os.waitpid(child, 0)
    said = json.loads(file.read_text()) if file.exists() and file.stat().st_size else {"result": None, "error": ""}
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    return {"killed": killed, "code": status, "seconds": time.monotonic() - started, **said}


if __name__ == "__main__":
    main()

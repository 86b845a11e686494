"""Runs a benchmark again and again and kills it with -9 at random moments: a nursery whose children start warm.

Started as ``python -m tests.runners.bench.killing SPEC``, SPEC a JSON: arguments of ``longstride``, kills, seed, how
many new results a child may see at most, how many seconds it may live on after that, the results file. Prints, as JSON,
how often it killed and how many trials were under way then. After each kill it checks that the file holds whole lines,
no finished trial twice, and lost none.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import signal
import sys
from pathlib import Path


def main(spec: dict[str, object]) -> None:
    _warm()
    arguments = [str(item) for item in spec["arguments"]]  # type: ignore[attr-defined]
    rng, results = random.Random(str(spec["seed"])), Path(str(spec["results"]))
    most, linger = int(str(spec["most"])), float(str(spec["linger"]))
    kills = missed = interrupted = 0
    before: dict[str, str] = {}
    while kills < int(str(spec["kills"])) and missed < 3:
        child = _start(arguments)
        killed = _kill(child, results, rng.randint(0, most), rng.uniform(0, linger))
        kills, missed = kills + killed, missed + (not killed)
        before = _check(results, before)
        interrupted += max(0, _begun(results.parent / "sessions") - len(before))
    _, status = os.waitpid(_start(arguments), 0)
    after = _check(results, before)
    sys.stdout.write(
        json.dumps(
            {
                "kills": kills,
                "interrupted": interrupted,
                "code": os.waitstatus_to_exitcode(status),
                "finished": len(after),
            }
        )
    )


def _warm() -> None:
    """Load what a run loads, so that a child begins at once."""
    import openai
    import wordllama

    import runners.bench.harness
    import runners.bench.progress
    import runners.wiring

    assert all((openai, wordllama, runners.bench.harness, runners.bench.progress, runners.wiring))


def _start(arguments: list[str]) -> int:
    child = os.fork()
    if not child:
        os.setpgid(0, 0)
        os._exit(_child(arguments))
    with contextlib.suppress(OSError):  # whoever of the two is first
        os.setpgid(child, child)
    return child


def _child(arguments: list[str]) -> int:
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    from runners.cli.app import main as longstride

    return longstride(arguments)


def _kill(child: int, results: Path, new: int, linger: float) -> bool:
    """Kill a child, and everything that it started, some time after its ``new``-th result; False when it was done."""
    watch = os.pidfd_open(child)
    start, done = _lines(results), False
    while not done and _lines(results) < start + new:
        done = bool(select.select([watch], [], [], 0.01)[0])
    done = done or bool(select.select([watch], [], [], linger)[0])
    os.close(watch)
    if not done:
        os.killpg(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return bool(os.WIFSIGNALED(status))


def _lines(results: Path) -> int:
    return results.read_bytes().count(b"\n") if results.exists() else 0


def _begun(sessions: Path) -> int:
    return sum(1 for _ in sessions.glob("*/*/session.sqlite"))


def _check(results: Path, before: dict[str, str]) -> dict[str, str]:
    """Finished trials by key, as their lines."""
    found: dict[str, str] = {}
    text = results.read_text("ascii") if results.exists() else ""
    for line in text.splitlines(keepends=True):
        if not line.endswith("\n"):
            continue  # half a line: whoever opens the file next cuts it off
        row = json.loads(line)
        if row["kind"] == "result" and row["status"] == "completed":
            key = f"{row['policy']}/{row['task']}#{row['rollout']}"
            assert key not in found, f"{key} finished twice"
            found[key] = line
    lost = [key for key, line in before.items() if found.get(key) != line]
    assert not lost, f"lost, or changed: {lost}"
    return found


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

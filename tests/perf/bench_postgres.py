"""Many sessions at once: the time of a commit on one PostgreSQL, against as many SQLite files on the same disk.

``python -m tests.perf.bench_postgres``: 8 processes with 64 sessions between them, each step begun, committed, and
given summaries and a key, as the loop does it; rounds on both stores in turn. Every session writes its own canary into
every text, and reads everything back: no step may be lost, and no text of another session seen.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from memory.records import SUMMARY_LEVELS, Usage
from memory.store.address import Address, is_address, parse_address
from memory.store.postgres_database import opened
from memory.store.sqlstore import SqlStore
from memory.stored import Intent, KeyRows, UsageRow
from tests.memory.store.build import chunk, view
from tests.memory.store.places import open_at
from tests.support.postgres import bundled, installed, running

ROOT = Path(__file__).parents[2]
DIM = 256


@dataclass(frozen=True)
class Round:
    """One round of one store. Milliseconds of a commit; ``lost`` steps, ``mixed`` texts."""

    p50: float
    p95: float
    p99: float
    steps_per_s: float
    lost: int
    mixed: int


@dataclass
class Outcome:
    """What a process measured."""

    commits: list[float] = field(default_factory=list)
    lost: int = 0
    mixed: int = 0


async def session(store: SqlStore, canary: str, steps: int, outcome: Outcome) -> None:
    """One session: its steps, then everything read back."""
    await store.claim(canary)
    first = await store.last_step() + 1
    for number in range(first, first + steps):
        made = chunk(number, f"{canary} {number} " + "The comets were counted. " * 120)
        await store.begin_step(Intent(made.step, 0.0))
        began = time.perf_counter()
        await store.commit_step(made, [UsageRow(number, "step", "m", Usage(input_total=1))])
        outcome.commits.append((time.perf_counter() - began) * 1000)
        await store.add_views([replace(view(number, level), text=f"{canary} {number}") for level in SUMMARY_LEVELS])
        key = np.full((1, DIM), number, np.float32)
        await store.add_keys(KeyRows("e", np.array([number]), key, np.array([number])))
    chunks = await store.chunks(range(1, await store.last_step() + 1))
    outcome.lost += first + steps - 1 - len(chunks)
    texts = [made.step.observations[0].text for made in chunks]
    outcome.mixed += sum(not text.startswith(f"{canary} {n} ") for n, text in enumerate(texts, 1))
    await store.publish_views(first + steps)
    shown = await store.views(range(1, len(chunks) + 1))
    outcome.mixed += sum(one.text != f"{canary} {one.chunk}" for one in shown)
    outcome.lost += 2 * len(chunks) - len(shown)
    keys = await store.keys("e")
    outcome.lost += len(chunks) - len(keys.numbers)
    outcome.mixed += int((keys.matrix[:, 0] != keys.numbers).sum())


async def process(where: str, numbers: Sequence[int], steps: int) -> Outcome:
    """The sessions of one process, side by side, once the others are ready."""
    places: list[Path | Address] = [
        parse_address(where).of(f"s{n}") if is_address(where) else Path(where) / f"s{n}.db" for n in numbers
    ]
    stores = [await open_at(place, create=True) for place in places]
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.readline)
    outcome = Outcome()
    await asyncio.gather(*(session(s, f"canary-{n}", steps, outcome) for s, n in zip(stores, numbers, strict=True)))
    for store in stores:
        await store.aclose()
    return outcome


def measure(where: str, processes: int, sessions: int, steps: int) -> Round:
    """One round: every session takes so many steps more."""
    children = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.perf.bench_postgres", "--work", where, str(steps), *map(str, numbers)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for numbers in (range(first, sessions, processes) for first in range(processes))
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n", "a process did not come up"
    began = time.perf_counter()
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    found = [json.loads(child.communicate()[0]) for child in children]
    seconds = time.perf_counter() - began
    commits = [ms for one in found for ms in one["commits"]]
    cuts = statistics.quantiles(commits, n=100)
    lost, mixed = (sum(one[name] for one in found) for name in ("lost", "mixed"))
    return Round(cuts[49], cuts[94], cuts[98], len(commits) / seconds, lost, mixed)


def compare(folder: Path, database: Address, processes: int, sessions: int, steps: int, rounds: int) -> list[Round]:
    """Rounds in turn: SQLite, PostgreSQL, SQLite, ..."""
    places = (str(folder), database.url)
    return [measure(places[n % 2], processes, sessions, steps) for n in range(2 * rounds)]


def size_of(database: Address) -> int:
    """Bytes of our tables in a database, with their indexes."""
    with opened(database) as link:
        (size,) = link.execute(
            "SELECT CAST(SUM(pg_total_relation_size(oid)) AS bigint) FROM pg_class"
            " WHERE relnamespace = to_regnamespace('longstride') AND relkind = 'r'"
        ).fetchone()
    return int(size)


def main() -> None:
    if sys.argv[1:2] == ["--work"]:
        where, steps, *numbers = sys.argv[2:]
        outcome = asyncio.run(process(where, [int(n) for n in numbers], int(steps)))
        sys.stdout.write(json.dumps(vars(outcome)))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--sessions", type=int, default=64)
    parser.add_argument("--steps", type=int, default=20, help="a session and round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=None, help="the disk that both are on")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ls-bench-", dir=given.folder) as made:
        folder = Path(made)
        folder.chmod(0o755)
        with running(installed() or bundled(folder), folder) as server:
            files = folder / "files"
            files.mkdir()
            database = server.database()
            rounds = compare(files, database, given.processes, given.sessions, given.steps, given.rounds)
            stored = sum(path.stat().st_size for path in files.iterdir()), size_of(database)
    for place, one in enumerate(rounds):
        name = "PostgreSQL" if place % 2 else "SQLite"
        sys.stdout.write(
            f"{name:10} commit p50 {one.p50:7.2f} p95 {one.p95:7.2f} p99 {one.p99:7.2f} ms,"
            f" {one.steps_per_s:6.0f} steps/s, {one.lost} lost, {one.mixed} mixed\n"
        )
    steps = given.sessions * given.steps * given.rounds
    sys.stdout.write("KB a step: SQLite {:.1f}, PostgreSQL {:.1f}\n".format(*(size / steps / 1000 for size in stored)))
    ratio = statistics.median(b.p95 / a.p95 for a, b in zip(rounds[::2], rounds[1::2], strict=True))
    sys.stdout.write(f"p95 of a commit: {ratio:.2f} x SQLite's (median of {len(rounds) // 2} rounds)\n")


if __name__ == "__main__":
    main()

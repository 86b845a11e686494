"""Opening a session of many steps: from a store that was closed in order to the first context of the next step.

``cold`` is with the store and its key file dropped from the page cache first (Linux). CPU seconds are of the process;
wall time on a machine with other work on it says little. The store is made once and kept under ``--folder``.

    python -m tests.perf.bench_opening [--steps 100000] [--dim 1024] [--rounds 3] [--folder DIR] [--json FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from memory.encoders.hashing import HashingEncoder
from memory.index.keyfile import map_keys
from memory.load import KEY_TOKEN
from memory.store.sqlite import SqliteStore
from memory.summaries.config import SummaryConfig
from runners.config import load_config
from runners.request import ConfigRequest
from tests.memory.sessions import open_memory
from tests.perf.stores import fill

BUDGET = 32_000


@dataclass(frozen=True)
class Opening:
    """Seconds. ``open_s`` until the session is loaded; ``first_s`` until its first context, both from the start."""

    open_s: float
    first_s: float
    open_cpu_s: float
    first_cpu_s: float


async def opening(path: Path, encoder: HashingEncoder, policy: str = "pace") -> Opening:
    """Open, build one context, close in order."""
    config = load_config(ConfigRequest(policy=policy)).policy
    options = config.options.model_dump(by_alias=True)
    summaries = SummaryConfig(kind="off", publish="lockstep")
    wall, cpu = time.perf_counter(), time.process_time()
    async with open_memory(path, policy=config.name, options=options, encoder=encoder, summaries=summaries) as memory:
        opened = time.perf_counter() - wall, time.process_time() - cpu
        context = await memory.assemble(BUDGET)
        assert context.step == memory.steps + 1
        return Opening(opened[0], time.perf_counter() - wall, opened[1], time.process_time() - cpu)


async def keys_s(path: Path, encoder: HashingEncoder) -> tuple[float, float]:
    """Seconds to have all keys, and until the first scan of them is done: the file is read as it is scanned."""
    async with await SqliteStore.open(path, create=False) as store:
        token = await store.meta(KEY_TOKEN) or ""
        query = np.ones(encoder.dim, dtype=np.float32)
        start = time.perf_counter()
        mapped = map_keys(store.beside("keys"), encoder.id, encoder.dim, token)
        ready = time.perf_counter() - start
        assert mapped is not None, "there is no key file"
        mapped.matrix[: mapped.rows] @ query
        return ready, time.perf_counter() - start


def drop(*paths: Path) -> None:
    """Let the page cache forget these files, where the system can be told to."""
    for path in paths:
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


async def measure(folder: Path, steps: int, dim: int, rounds: int) -> dict[str, object]:
    encoder, path = HashingEncoder(dim), folder / f"{steps}-{dim}.db"
    if not path.exists():
        await fill(path, steps, encoder.id, dim)
    first = await opening(path, encoder)
    warm, cold, keys = [], [], []
    for _ in range(rounds):
        warm.append(await opening(path, encoder))
        if hasattr(os, "posix_fadvise"):
            drop(path, path.with_name(f"{path.name}-keys"))
            cold.append(await opening(path, encoder))
            drop(path.with_name(f"{path.name}-keys"))
            keys.append(await keys_s(path, encoder))
    return {
        "steps": steps,
        "dim": dim,
        "without_derivatives": asdict(first),
        "warm": _median(warm),
        "cold": _median(cold),
        "keys_mapped_s": statistics.median(k[0] for k in keys) if keys else None,
        "keys_scanned_cold_s": statistics.median(k[1] for k in keys) if keys else None,
    }


def _median(openings: list[Opening]) -> dict[str, float] | None:
    if not openings:
        return None
    rows = [asdict(one) for one in openings]
    return {name: statistics.median(row[name] for row in rows) for name in rows[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", default="")
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(options.folder or scratch)
        row = asyncio.run(measure(folder, options.steps, options.dim, options.rounds))
    sys.stdout.write(json.dumps(row, indent=2) + "\n")
    if options.json:
        Path(options.json).write_text(json.dumps(row, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()

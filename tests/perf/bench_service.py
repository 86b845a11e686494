"""The service under load: ``python -m tests.perf.bench_service [--json FILE] [--seconds 20] [--encoder embedded]``.

Goals on two cores, with candidates that were seen before: 50 requests a second of 500 candidates, p99 under 300 ms, and
``/healthz`` p99 under 100 ms meanwhile; a selection among 1,000 within 20 ms end to end. Latencies are from the moment
a request is due, so that a server that falls behind is not spared; the load generator takes a core of its own. On a
busy machine only the processor time of the service says something.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx
import numpy as np

from runners.report import write_json
from runners.service.client import SelectClient
from runners.service.selecting import Ask, Candidate
from tests.runners.service.process import processor_s, resident, serving

JSON = {"content-type": "application/json"}
WORDS = [f"word{n}" for n in range(3_000)]


@dataclass(frozen=True, slots=True)
class Figures:
    """Milliseconds, except where named."""

    load_average: float
    rate: float
    select_p50: float
    select_p99: float
    health_p99: float
    refused: int
    cpu_per_select: float
    """Processor time of the service, ``/healthz`` included."""
    thousand_min: float
    thousand_median: float
    client_thousand_median: float
    rss_growth_mib: float


def candidates(count: int, seed: int = 0) -> tuple[Candidate, ...]:
    """Texts of 60 words."""
    rng = random.Random(seed)
    return tuple(Candidate(f"m{n}", " ".join(rng.choices(WORDS, k=60))) for n in range(count))


def body(pool: tuple[Candidate, ...], query: str, budget: int = 6_000) -> bytes:
    """A request as the client would send it."""
    from runners.service.bodies import CandidateIn, SelectIn

    rows = [CandidateIn(id=one.id, text=one.text) for one in pool]
    return SelectIn(query=query, candidates=rows, budget=budget).model_dump_json().encode()


async def under_load(url: str, rate: float, seconds: float) -> tuple[list[float], list[float], int]:
    """Seconds of each selection, of each ``/healthz``, and how many were refused."""
    pools = [candidates(500, seed) for seed in range(4)]
    rng = random.Random(1)
    bodies = [body(pool, " ".join(rng.choices(WORDS, k=5))) for pool in pools for _ in range(8)]
    taken: list[float] = []
    health: list[float] = []
    refused = 0
    limits = httpx.Limits(max_connections=200, max_keepalive_connections=200)
    async with httpx.AsyncClient(base_url=url, limits=limits, timeout=30) as http:
        for one in bodies:
            (await http.post("/select", content=one, headers=JSON)).raise_for_status()  # they are seen before

        async def select(due: float, one: bytes) -> None:
            nonlocal refused
            answer = await http.post("/select", content=one, headers=JSON)
            taken.append(time.perf_counter() - due)
            refused += answer.status_code != 200

        async def ping() -> None:
            while True:
                due = time.perf_counter()
                (await http.get("/healthz")).raise_for_status()
                health.append(time.perf_counter() - due)
                await asyncio.sleep(0.05)

        pinging = asyncio.create_task(ping())
        begun = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for number in range(int(rate * seconds)):
                due = begun + number / rate
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                group.create_task(select(due, bodies[number % len(bodies)]))
        pinging.cancel()
    return taken, health, refused


def thousand(url: str, rounds: int = 25) -> tuple[list[float], list[float]]:
    """Seconds of a selection among 1,000: as a plain request, and by the client with its checks."""
    pool = candidates(1_000, 9)
    plain, proved = [], []
    with httpx.Client(base_url=url, timeout=30) as http, SelectClient(url, deadline_s=30) as client:
        for number in range(rounds + 1):
            query = f"{WORDS[number]} {WORDS[number + 7]}"
            one = body(pool, query)
            begun = time.perf_counter()
            http.post("/select", content=one, headers=JSON).raise_for_status()
            plain.append(time.perf_counter() - begun)
            begun = time.perf_counter()
            assert not client.select(Ask(query, pool, 6_000)).fallback
            proved.append(time.perf_counter() - begun)
    return plain[1:], proved[1:]


def measure(url: str, pid: int, rate: float, seconds: float) -> Figures:
    asyncio.run(under_load(url, rate, 1.0))
    before, used = resident(pid), processor_s(pid)
    taken, health, refused = asyncio.run(under_load(url, rate, seconds))
    growth, used = resident(pid) - before, processor_s(pid) - used
    plain, proved = thousand(url)
    ms = 1_000.0
    return Figures(
        os.getloadavg()[0],
        len(taken) / seconds,
        ms * float(np.percentile(taken, 50)),
        ms * float(np.percentile(taken, 99)),
        ms * float(np.percentile(health, 99)),
        refused,
        ms * used / len(taken),
        ms * min(plain),
        ms * float(np.median(plain)),
        ms * float(np.median(proved)),
        growth / 2**20,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", default="")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rate", type=float, default=50.0)
    parser.add_argument("--encoder", default="embedded")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        arguments = ("-c", f"encoder.kind={options.encoder}")
        with serving(Path(home), *arguments, OPENBLAS_NUM_THREADS="1", NUMBA_NUM_THREADS="1") as (url, process):
            figures = measure(url, process.pid, options.rate, options.seconds)
    for name, value in asdict(figures).items():
        sys.stdout.write(f"{name:24} {value:.3f}\n")
    if options.json:
        write_json(asdict(figures), options.json)


if __name__ == "__main__":
    main()

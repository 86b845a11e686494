"""Many requests: the service does not grow, and what one costs is bounded in processor time, which a busy machine does
not change. Latencies under load: ``tests/perf/bench_service.py``."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import httpx
import pytest

from tests.runners.service.process import processor_s, resident, serving
from tests.runners.service.serving import MISSING

pytest.importorskip("uvicorn", reason=MISSING)
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is read")
GROWTH = 24 * 2**20
"""What allocators keep; a leak of 4 KiB a request would be 40 MB."""


@pytest.mark.timeout(2400)
@pytest.mark.parametrize(
    ("warm", "count"), [(100, 100), pytest.param(2_000, 10_000, marks=pytest.mark.nightly)], ids=["few", "many"]
)
def test_it_does_not_grow(tmp_path: Path, warm: int, count: int) -> None:
    rng = random.Random(3)
    words = [f"word{n}" for n in range(500)]
    texts = [" ".join(rng.choices(words, k=180)) for _ in range(300)]
    options = ("-c", "encoder.kind=hashing", "--cache-mib", "1")
    with serving(tmp_path, *options) as (url, process), httpx.Client(base_url=url, timeout=60) as http:

        def ask(number: int) -> None:
            chosen = rng.sample(texts, 20)
            chosen[0] = f"new {number}"
            rows = [{"id": str(place), "text": text} for place, text in enumerate(chosen)]
            answer = http.post("/select", json={"query": rng.choice(words), "candidates": rows, "budget": 2_000})
            assert answer.status_code == 200
            if number % 10 == 0:
                http.post("/select", content=b"{", headers={"content-type": "application/json"})
                http.get("/metrics").raise_for_status()

        for number in range(warm):
            ask(number)
        before = resident(process.pid)
        for number in range(count):
            ask(warm + number)
        assert resident(process.pid) - before < GROWTH


@pytest.mark.nightly
def test_what_a_warm_selection_of_500_costs(tmp_path: Path) -> None:
    """50 a second must leave a core of two free: 20 ms of processor time at most."""
    from tests.perf.bench_service import JSON, body, candidates

    pytest.importorskip("numba", reason="what the extra `serve` brings is measured")
    with serving(tmp_path, OPENBLAS_NUM_THREADS="1") as (url, process), httpx.Client(base_url=url, timeout=60) as http:
        pool = candidates(500)
        for query in ("word1 word2", "word3"):
            http.post("/select", content=body(pool, query), headers=JSON).raise_for_status()
        used = processor_s(process.pid)
        for number in range(100):
            http.post("/select", content=body(pool, f"word{number}"), headers=JSON).raise_for_status()
        assert (processor_s(process.pid) - used) / 100 < 0.020


def test_an_answer_is_sent_at_once(tmp_path: Path) -> None:
    """Not after the client's delayed acknowledgement of the answer's head, which takes 40 ms."""
    with serving(tmp_path) as (url, _), httpx.Client(base_url=url, timeout=60) as http:
        taken = [http.get("/healthz").elapsed.total_seconds() for _ in range(20)]
        assert min(taken[1:]) < 0.03

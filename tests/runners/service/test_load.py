"""Many requests: the service does not grow, and what one costs is bounded in processor time, which a busy machine does
not change. Latencies under load: ``tests/perf/bench_service.py``."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from http.client import HTTPConnection
from pathlib import Path

import httpx
import pytest

from tests.runners.service.process import descriptors, processor_s, resident, serving
from tests.runners.service.serving import MISSING

pytest.importorskip("uvicorn", reason=MISSING)
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is read")
GROWTH = 24 * 2**20
"""What allocators keep; a leak of 4 KiB a request would be 40 MB."""


@pytest.mark.timeout(2400)
@pytest.mark.parametrize(
    ("warm", "count"),
    [
        (100, 100),
        pytest.param(5_000, 10_000, marks=pytest.mark.nightly),
        pytest.param(5_000, 100_000, marks=pytest.mark.nightly),
    ],
    ids=["few", "many", "very many"],
)
def test_it_does_not_grow(tmp_path: Path, warm: int, count: int) -> None:
    """Small selections, each with a text that is new, and now and then what is wrong. ``warm`` fills what is bounded:
    keys, pools, what is remembered of selections. The encoder remembers 65,536 words (24 MB), so new texts are made of
    old words. A hundred thousand took 6 minutes on a busy machine."""
    rng = random.Random(3)
    words = [f"word{n}" for n in range(500)]
    texts = [" ".join(rng.choices(words, k=30)) for _ in range(300)]
    bodies = [_body(rng.sample(texts, 20), rng.choice(words)) for _ in range(200)]
    options = ("-c", "encoder.kind=hashing", "--cache-mib", "1", "--log-level", "error")
    with serving(tmp_path, *options) as (url, process):
        wire = HTTPConnection(url.removeprefix("http://"), timeout=60)  # a request takes it a third of httpx's time

        def ask(method: str, path: str, body: bytes = b"") -> int:
            wire.request(method, path, body, {"content-type": "application/json"} if body else {})
            answer = wire.getresponse()
            answer.read()
            return answer.status

        def some(first: int, last: int) -> None:
            for number in range(first, last):
                new = " ".join(words[number // 500**place % 500] for place in range(3))
                body = bodies[number % len(bodies)].replace(b"NEW", new.encode())
                assert ask("POST", "/select", body) == 200
                if number % 10 == 0:
                    assert ask("POST", "/select", b"{") == 400 and ask("GET", "/metrics") == 200

        some(0, warm)
        before, files = resident(process.pid), descriptors(process.pid)
        some(warm, warm + count)
        assert resident(process.pid) - before < GROWTH and descriptors(process.pid) <= files
        wire.close()


def _body(texts: Sequence[str], query: str) -> bytes:
    rows = [{"id": str(place), "text": text} for place, text in enumerate((*texts[1:], "NEW"))]
    return json.dumps({"query": query, "candidates": rows, "budget": 300}).encode()


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

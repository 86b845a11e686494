"""Searching a million chunks: recall against comparing every key, milliseconds, what opening reads.

``texts``: keys of texts of three sentences, by the embedded encoder (1,280 dimensions), as normalised sums of the keys
of the sentences, which is nearly what it would make of them; the sentences are those of ``LONGSTRIDE_DATA``, else
generated ones, the queries real questions, else sentences. ``isotropic``: random directions, the hardest case: nothing
is near anything. ``--whole`` makes a store of the texts and asks `memory.search.Search`, words and passages included.

    python -m tests.perf.bench_ann [--count 200000] [--kind texts|isotropic] [--dim 256] [--queries 50] [--whole]
                                   [--folder DIR] [--json FILE]

A million texts: 4 minutes and 5 GB on a quiet core, 15 minutes and 20 GB with ``--whole``.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import itertools
import json
import os
import re
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memory import search as searching
from memory.encoders.embedded import embedded_encoder
from memory.index.keyfile import write_keys
from memory.index.keys import KeyMatrix, unit_rows
from memory.index.sketch import Sketches, compared
from memory.index.sketchfile import read_sketches, write_sketches
from memory.load import KEY_TOKEN
from memory.search import NEAREST, Search
from memory.store.sqlite import SqliteStore
from tests.memory.sessions import page
from tests.perf.stores import fill_turns

Float32Array = NDArray[np.float32]
TOP = 10
SENTENCES = 40_000
_BLOCK = 16_384


def sentences(limit: int) -> list[str]:
    """Distinct ones, in order."""
    found: dict[str, None] = {}
    for text in texts():
        for sentence in re.split(r"(?<=[.!?])\s+|\n+", text):
            if 30 < len(sentence) < 400:
                found.setdefault(sentence)
        if len(found) >= limit:
            break
    return list(found)[:limit]


def texts() -> Iterator[str]:
    data = os.environ.get("LONGSTRIDE_DATA")
    if not data:
        yield from (page(seed) for seed in itertools.count())
        return
    with gzip.open(Path(data) / "multihop" / "unified" / "pages.jsonl.gz", "rt", encoding="utf-8") as lines:
        yield from (json.loads(line)["text"] for line in lines)


def questions(count: int) -> list[str]:
    data = os.environ.get("LONGSTRIDE_DATA")
    if not data:
        return sentences(SENTENCES)[:: SENTENCES // count][:count]
    with gzip.open(Path(data) / "multihop" / "unified" / "questions.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line)["question"] for line in itertools.islice(lines, count)]


def members(count: int, known: int) -> NDArray[np.int64]:
    """(count, 3) the sentences of each text: two that follow one another, and any third."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, known - 1, count)
    return np.stack((first, first + 1, rng.integers(0, known, count)), axis=1)


def text_keys(path: Path, count: int) -> Float32Array:
    encoder, known = embedded_encoder(), sentences(SENTENCES)
    keys = np.memmap(path, dtype=np.float32, mode="w+", shape=(count, encoder.dim))
    single = np.concatenate([encoder.encode_documents(known[at : at + 1000]) for at in range(0, len(known), 1000)])
    parts = members(count, len(known))
    for at in range(0, count, _BLOCK):
        keys[at : at + _BLOCK] = unit_rows(single[parts[at : at + _BLOCK]].sum(axis=1))
    return keys


def random_keys(count: int, dim: int, seed: int) -> Float32Array:
    rng = np.random.default_rng(seed)
    blocks = [rng.standard_normal((min(_BLOCK, count - at), dim), dtype=np.float32) for at in range(0, count, _BLOCK)]
    return np.concatenate([unit_rows(block) for block in blocks])


def exact(keys: Float32Array, queries: Float32Array) -> NDArray[np.int64]:
    """(queries, TOP) rows of the highest cosines."""
    cosines = np.concatenate([keys[at : at + _BLOCK] @ queries.T for at in range(0, len(keys), _BLOCK)])
    return np.argpartition(-cosines, TOP, axis=0)[:TOP].T


def by_sketch(sketches: Sketches, keys: KeyMatrix, query: Float32Array) -> NDArray[np.int64]:
    rows, cosines = compared(sketches, keys, query, NEAREST)
    return rows[np.argpartition(-cosines, TOP)[:TOP]]


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """(wall, processor) milliseconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return 1e3 * (time.perf_counter() - wall), 1e3 * (time.process_time() - cpu)


def figures(times: list[tuple[float, float]]) -> dict[str, float]:
    wall, cpu = zip(*times, strict=True)
    return {
        "wall_min_ms": round(min(wall), 1),
        "wall_median_ms": round(statistics.median(wall), 1),
        "cpu_median_ms": round(statistics.median(cpu), 1),
    }


def of_keys(folder: Path, kind: str, count: int, dim: int, asked: int) -> dict[str, object]:
    """Sketches alone, over keys."""
    if kind == "texts":
        path, encoder = folder / f"{count}.f32", embedded_encoder()
        held = np.memmap(path, dtype=np.float32, mode="r").reshape(-1, encoder.dim) if path.exists() else None
        keys = text_keys(path, count) if held is None else held
        queries = np.stack([encoder.encode_query(question) for question in questions(asked)])
    else:
        keys, queries = random_keys(count, dim, 0), random_keys(asked, dim, 1)
    has = np.ones(count, dtype=np.bool_)
    start = time.process_time()
    sketches = Sketches.of(keys, has)
    for at in range(0, count, _BLOCK):
        sketches.put(np.arange(at, min(at + _BLOCK, count)), keys[at : at + _BLOCK])
    made = time.process_time() - start
    file = folder / f"{count}-{kind}.sketch"
    wrote, _ = timed(lambda: write_sketches(file, "e", sketches))
    read, _ = timed(lambda: read_sketches(file, "e", keys, has))
    matrix = KeyMatrix(keys.shape[1])
    matrix.adopt(keys, np.arange(1, count + 1))
    truth = exact(keys, queries)
    found = [by_sketch(sketches, matrix, query) for query in queries]
    recall = [len(np.intersect1d(one, other)) / TOP for one, other in zip(found, truth, strict=True)]
    scan = np.arange(1, count + 1)
    return {
        "recall_at_10": round(statistics.mean(recall), 4),
        "sketched": figures([timed(lambda q=query: by_sketch(sketches, matrix, q)) for query in queries]),
        "every_key": figures([timed(lambda q=query: matrix.cosines(q, scan)) for query in queries[:5]]),
        "made_cpu_s": round(made, 1),
        "file_bytes": file.stat().st_size,
        "file_written_ms": round(wrote),
        "file_read_ms": round(read),
    }


async def whole(folder: Path, count: int, asked: int) -> dict[str, object]:
    """`Search.find` over a store, against itself with every chunk scored."""
    encoder, path = embedded_encoder(), folder / f"{count}.sqlite"
    if not path.exists():
        keys = np.memmap(folder / f"{count}.f32", dtype=np.float32, mode="r").reshape(-1, encoder.dim)
        known = sentences(SENTENCES)
        texts = [" ".join(known[at] for at in row) for row in members(count, len(known)).tolist()]
        await fill_turns(path, encoder.id, texts, keys)
        async with await SqliteStore.open(path, create=False) as store:
            await store.claim()
            token = write_keys(store.beside("keys"), encoder.id, keys, np.ones(count, dtype=np.bool_), 0)
            await store.set_meta({KEY_TOKEN: token})
            first = Search(store, encoder, own=True)
            await first.find("anything")
            if first._making:
                await first._making
            await first.aclose()
    async with await SqliteStore.open(path, create=False, read_only=True) as store:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_inblock, _resident()
        search = Search(store, encoder)
        start = time.perf_counter()
        await search._best("when was it founded", TOP)
        opened = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_SELF).ru_inblock, _resident()
        queries, rows, times, usual = questions(asked), [], [], []
        for query in queries:
            wall, cpu = time.perf_counter(), time.process_time()
            found = await search.find(query, TOP)
            times.append((1e3 * (time.perf_counter() - wall), 1e3 * (time.process_time() - cpu)))
            rows.append([one.chunk for one in found])
            wall, cpu = time.perf_counter(), time.process_time()
            await search.find(query)
            usual.append((1e3 * (time.perf_counter() - wall), 1e3 * (time.process_time() - cpu)))
        scored = [timed(lambda q=query: search._ranked(q, TOP, True)) for query in queries]
        assert search._making is None, "the sketches were not found beside the store"
        alike, all_times = [], []
        for query, mine in zip(queries[: max(5, asked // 3)], rows, strict=False):
            every: list[tuple[int, float]] = []
            all_times.append(timed(lambda q=query, e=every: e.extend(search._ranked(q, TOP, False))))
            alike.append(len({row + 1 for row, _ in every} & set(mine)) / TOP)
    return {
        "first_search_s": round(opened, 2),
        "first_search_read_mib": round((after[0] - before[0]) / 2048),
        "first_search_memory_mib": round((after[1] - before[1]) / 2**20),
        "find": figures(times),
        "find_five": figures(usual),
        "scores_only": figures(scored),
        "every_chunk_scored": figures(all_times),
        "same_of_10": round(statistics.mean(alike), 4),
    }


def _resident() -> int:
    """Bytes of this process's own, mapped files left out; 0 where the system does not say."""
    try:
        pages = Path("/proc/self/statm").read_text().split()
    except OSError:
        return 0
    return (int(pages[1]) - int(pages[2])) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--kind", choices=("texts", "isotropic"), default="texts")
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--folder", default="")
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    searching.SKETCHED_FROM = min(searching.SKETCHED_FROM, options.count - 1)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(options.folder or scratch)
        folder.mkdir(parents=True, exist_ok=True)
        row: dict[str, object] = {"count": options.count, "kind": options.kind, "load": os.getloadavg()[0]}
        row["keys"] = of_keys(folder, options.kind, options.count, options.dim, options.queries)
        if options.whole:
            row["search"] = asyncio.run(whole(folder, options.count, options.queries))
    sys.stdout.write(json.dumps(row, indent=2) + "\n")
    if options.json:
        Path(options.json).write_text(json.dumps(row, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Selection against its peers, in one run: ``python -m tests.perf.bench_selection [--json FILE] [--large N]``.

Facility location over 1,000 and 20,000 items at 32K tokens and at 45 % of the pool, and Mosaic's levels, by this
package with and without numba; against apricot-select, LangChain's maximal marginal relevance and greedy in plain
numpy. What can be kept between steps (cosines, neighbours) is built before and not counted, for the peers as well.
Rounds are interleaved; a peer that takes seconds runs once. What is not installed is reported as not measured.

Goals: 1,000 items <= 2 ms; 20,000 items <= 0.35 s at >= .9995 of exact greedy and 14 times as fast as apricot's select
at 32K, <= 20 ms at >= .9999 at 45 %.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from memory.plan import FloatArray, IntArray
from memory.selection.facility import select
from memory.selection.graph import SimilarityGraph
from memory.selection.levels import select_levels
from memory.selection.similarity import Cosines, Float32Array, Keys, Neighbours
from memory.selection.solve import EngineName
from runners.report import write_json
from tests.memory.selection.instances import clustered

CLOCK = time.process_time
"""Seconds of the processor, on all threads: who else is busy on the machine matters less."""

SHORT = 32_000
SHARE = 0.45
DIM = 384
EXACT = "exact dense lazy greedy"

PICKS = 30
"""Most items that MMR is asked for: it costs the square of it."""

Call = Callable[[], tuple[IntArray, float | None]]
"""Makes a choice; gives it, and the seconds to count if not those of the whole call."""


@dataclass
class Row:
    """One contender on one pool. ``share``: its F by all cosines, of that of exact lazy greedy."""

    pool: str
    who: str
    rounds: int
    seconds: list[float] = field(default_factory=list)
    share: float | None = None
    median_s: float = 0.0
    min_s: float = 0.0
    times_ours: float | None = None
    """Median over the median of the first row of the pool."""


@dataclass(frozen=True)
class Pool:
    """A pool with what is kept between steps."""

    name: str
    keys: Float32Array
    query: Float32Array
    relevance: FloatArray
    costs: IntArray
    budget: int
    cosines: Cosines
    graph: Cosines | Neighbours

    def objective(self, chosen: IntArray) -> float:
        best = np.zeros(len(self.keys), dtype=np.float32)
        for item in chosen.tolist():
            np.maximum(best, self.cosines.matrix[item], out=best)
        return float(self.relevance @ best)


def installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def pools(count: int, shared: float) -> list[Pool]:
    """The pool at both budgets. Cosines and neighbours are computed here, once."""
    keys, relevance, costs = clustered(1, count, dim=DIM, shared=shared)
    graph = SimilarityGraph(DIM)
    graph.extend(Keys(keys))
    cosines = Cosines(keys @ keys.T)
    kind = "text-like" if shared else "isotropic"
    return [
        Pool(f"{count:,} {kind} {label}", keys, keys[0], relevance, costs, budget, cosines, graph.view())
        for label, budget in (("32K", SHORT), ("45 %", int(SHARE * costs.sum())))
    ]


def ours(pool: Pool, using: EngineName) -> Call:
    def call() -> tuple[IntArray, float | None]:
        found = select(pool.relevance, pool.graph, pool.costs, pool.budget, using=using)
        return found.chosen, None

    return call


def exact(pool: Pool) -> Call:
    def call() -> tuple[IntArray, float | None]:
        return select(pool.relevance, pool.cosines, pool.costs, pool.budget).chosen, None

    return call


def mosaic(pool: Pool, using: EngineName) -> Call:
    """The same items at four levels; what counts is the time."""
    prices = np.stack([np.full(len(pool.costs), 5), pool.costs // 20 + 5, pool.costs // 5 + 5, pool.costs + 5], axis=1)
    fidelity = np.tile([0.05, 0.4, 0.7, 1.0], (len(pool.costs), 1))
    budget = 5 * len(pool.costs) + pool.budget

    def call() -> tuple[IntArray, float | None]:
        select_levels(pool.relevance, fidelity, prices, pool.graph, budget, using=using)
        return np.zeros(0, dtype=np.int64), None

    return call


def apricot(pool: Pool, *, sparse: bool) -> Call:
    """apricot's lazy greedy by gain per cost; seconds inside ``select`` only, without its compiling at every fit."""
    facility = importlib.import_module("apricot").FacilityLocationSelection
    optimizers = importlib.import_module("apricot.optimizers")
    lazy, inside = optimizers.LazyGreedy.select, [0.0]

    def timed(*arguments: object, **named: object) -> None:
        began = CLOCK()
        lazy(*arguments, **named)
        inside[0] = CLOCK() - began

    count = len(pool.keys)
    weights: Any = np.maximum(pool.cosines.matrix, 0) * pool.relevance.astype(np.float32)[None, :]
    if sparse and isinstance(pool.graph, Neighbours):
        few = pool.graph.indices.reshape(count, -1)[:, :32]
        columns = np.concatenate([few, np.arange(count, dtype=np.int32)[:, None]], axis=1).ravel()
        rows = np.repeat(np.arange(count), len(columns) // count)
        values = weights[rows, columns].astype(np.float64)
        weights = importlib.import_module("scipy.sparse").csr_matrix((values, (rows, columns)))
    prices = pool.costs * (count / pool.budget)

    def call() -> tuple[IntArray, float | None]:
        optimizers.LazyGreedy.select = timed
        try:
            selector = facility(count, metric="precomputed", optimizer="lazy").fit(weights, sample_cost=prices)
        finally:
            optimizers.LazyGreedy.select = lazy
        return np.sort(np.asarray(selector.ranking, dtype=np.int64)), inside[0]

    return call


def langchain(pool: Pool) -> Call:
    """LangChain's MMR knows no budget: it is asked for as many as the budget would hold of the mean cost."""
    rule = importlib.import_module("langchain_core.vectorstores.utils").maximal_marginal_relevance
    rows = list(pool.keys)
    picks = min(PICKS, int(pool.budget / pool.costs.mean()))

    def call() -> tuple[IntArray, float | None]:
        return np.sort(np.array(rule(pool.query, rows, 0.5, picks), dtype=np.int64)), None

    return call


def naive(pool: Pool) -> Call:
    """Greedy by gain per token, every gain computed anew for every pick."""

    def call() -> tuple[IntArray, float | None]:
        matrix, relevance = np.maximum(pool.cosines.matrix, 0), pool.relevance.astype(np.float32)
        best = np.zeros(len(relevance), dtype=np.float32)
        room, chosen, left = pool.budget, [], np.ones(len(relevance), dtype=bool)
        while (left := left & (pool.costs <= room)).any():
            gains = np.maximum(matrix - best, 0) @ relevance
            item = int(np.where(left, gains / pool.costs, -1.0).argmax())
            chosen.append(item)
            best = np.maximum(best, matrix[item])
            room -= int(pool.costs[item])
            left[item] = False
        return np.array(sorted(chosen), dtype=np.int64), None

    return call


def contenders(pool: Pool, rounds: int) -> tuple[list[tuple[Row, Call]], list[str]]:
    """Who runs on the pool and how often, and who is not installed. The first row is ours."""
    large = len(pool.keys) > 5_000
    fast = installed("numba")
    best: EngineName = "numba" if fast else "numpy"
    plan: list[tuple[str, int, Call]] = [(f"longstride ({best})", rounds, ours(pool, best))]
    missing = [] if fast else ["longstride (numba)"]
    if fast:
        plan.append(("longstride (numpy)", 3, ours(pool, "numpy")))
    plan.append((f"longstride levels ({best})", rounds, mosaic(pool, best)))
    if fast and large:
        plan.append((EXACT, 3, exact(pool)))
    whole = pool.budget > SHORT
    if installed("apricot") and installed("sklearn"):
        if not (large and whole):
            plan.append(("apricot select, dense", 1 if large else 3, apricot(pool, sparse=False)))
        if large:
            plan.append(("apricot select, sparse", 1, apricot(pool, sparse=True)))
    else:
        missing.append("apricot")
    if installed("langchain_core"):
        plan.append((f"LangChain MMR, k <= {PICKS}", 1 if large else 3, langchain(pool)))
    else:
        missing.append("LangChain MMR")
    if not large and not whole:
        plan.append(("greedy in plain numpy", 1, naive(pool)))
    return [(Row(pool.name, who, times), call) for who, times, call in plan], missing


def measure(pool: Pool, rounds: int) -> list[Row]:
    entries, missing = contenders(pool, rounds)
    choices: dict[str, IntArray] = {}
    entries[0][1]()  # loads or compiles the kernels
    for round_ in range(rounds):
        for row, call in entries:
            if round_ < row.rounds:
                began = CLOCK()
                choices[row.who], inside = call()
                row.seconds.append(CLOCK() - began if inside is None else inside)
    reference = pool.objective(choices.get(EXACT, choices[entries[0][0].who]))
    known = EXACT in choices or not isinstance(pool.graph, Neighbours)
    sys.stdout.write(f"\n{pool.name}: {pool.budget:,} of {int(pool.costs.sum()):,} tokens\n")
    for row, _ in entries:
        row.median_s, row.min_s = statistics.median(row.seconds), min(row.seconds)
        row.times_ours = row.median_s / entries[0][0].median_s
        if known and len(choices[row.who]):
            row.share = pool.objective(choices[row.who]) / reference
        share = "" if row.share is None else f"{row.share:.5f} of exact"
        sys.stdout.write(
            f"  {row.who:28} median {row.median_s * 1e3:10.2f} ms, min {row.min_s * 1e3:10.2f} ms,"
            f" {row.times_ours:9.2f} x  {share}\n"
        )
    for who in missing:
        sys.stdout.write(f"  {who:28} not measured: not installed (pip install 'longstride[bench]')\n")
    return [row for row, _ in entries]


def appends(count: int) -> Row:
    """Seconds of one append to a graph of ``count`` keys."""
    keys, _, _ = clustered(1, count + 30, dim=DIM, shared=0.9)
    graph = SimilarityGraph(DIM)
    graph.extend(Keys(keys[:count]))
    row = Row(f"{count:,} text-like", "graph append", 30)
    for key in keys[count:]:
        began = CLOCK()
        graph.append(key)
        row.seconds.append(CLOCK() - began)
    row.median_s, row.min_s = statistics.median(row.seconds), min(row.seconds)
    sys.stdout.write(f"\n{row.who} at {count:,}: median {row.median_s * 1e3:.2f} ms, min {row.min_s * 1e3:.2f} ms\n")
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", default="")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--large", type=int, default=20_000, help="items of the large pool; 0 leaves it out")
    options = parser.parse_args()
    rows: list[Row] = []
    for count in (1_000, options.large):
        for shared in (0.9, 0.0) if count else ():
            for pool in pools(count, shared):
                rows += measure(pool, options.rounds)
    if options.large:
        rows.append(appends(options.large))
    if options.json:
        write_json({"rows": [asdict(row) for row in rows]}, options.json)


if __name__ == "__main__":
    main()

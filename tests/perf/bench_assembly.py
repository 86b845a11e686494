"""Assembly of one context from M stored chunks, without model, store and embedding: score, plan, fit, spend, render.

A session grows by one chunk a step, so the mean holds the batches of the ledger layout. Beside it the limit: one scan
of all keys, ``K @ q``. Ratios are taken in one interleaved run.

    python -m tests.perf.bench_assembly [--sizes 2000,100000] [--dim 1024] [--rounds 15] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memory.config import MemoryConfig
from memory.decide import Decision, decide, shown_codes
from memory.formats import PlainFormat
from memory.index.chunks import ChunkIndex
from memory.index.keys import KeyMatrix
from memory.plan import FOLDED, PlanInput
from memory.policies.registry import make_policy
from memory.ports import ContextPolicy
from memory.records import Level
from memory.render import Recent, RenderInput, fixed_tokens, level_tokens, render, render_hash
from memory.state import SessionState
from memory.stored import ChunkFacts
from memory.tokens import ScriptCounter
from tests.memory.sessions import page, visit_step

QUESTION = "When were the royal comets of Varden counted?"
NONCE = "0badcafe"
VARIANTS = (("pace", "interleaved"), ("pace", "ledger"), ("mosaic", "ledger"))


class Texts(dict[int, str]):
    """A body for any chunk, as long as its level says."""

    def __missing__(self, number: int) -> str:
        return BODY


BODY = page(3, 12)


@dataclass(frozen=True)
class Case:
    """A session of M chunks under one policy and layout; ``step`` builds the next context."""

    state: SessionState
    policy: ContextPolicy
    config: MemoryConfig
    query: NDArray[np.float32]
    budget: int
    recent: Recent

    def step(self, number: int) -> int:
        """The context of step ``number``; returns its tokens."""
        count, form, counter = number - 1 - len(self.recent.steps), PlainFormat(), ScriptCounter()
        ledger = self.config.layout == "ledger"
        fixed = fixed_tokens(QUESTION, NONCE, True, form, counter, ledger=ledger)
        cosines = self.state.keys.cosines(self.query, np.arange(1, count + 1))
        pool = self.state.index.pool(count, cosines)
        if "keys" in self.policy.needs:
            object.__setattr__(pool, "keys", self.state.keys.rows(count))
        if "fidelity" in self.policy.needs:
            object.__setattr__(pool, "fidelity", self.state.index.fidelity(count))
        shown = self.state.codes if self.state.previous_tokens else None
        given = PlanInput(number, self.budget, fixed, self.recent.tokens(None), 0, pool, shown=shown)
        decision = decide(self.policy, self.config, given, self.recent)
        assert isinstance(decision, Decision)
        codes = shown_codes(self.state.index.shown_as(np.maximum(decision.fitted.levels, 0)), decision.fitted)
        rendering = RenderInput(
            QUESTION,
            NONCE,
            np.where(codes == FOLDED, np.int8(0), codes).astype(np.int8),
            codes == FOLDED,
            self.state.index,
            Texts(),
            self.recent.steps,
            decision.fitted.recent_cap,
            decision.fitted.ledger_base,
            self.state.since_with(codes, number),
        )
        messages = render(rendering, form, counter)
        level_tokens(rendering, pool)
        render_hash(messages)
        self.state.changes(codes)
        self.state.remember(codes, number, decision.fitted.tokens)
        return decision.fitted.tokens


def make_case(policy: str, layout: str, count: int, dim: int, budget: int) -> Case:
    """A session of ``count`` chunks."""
    rng = np.random.default_rng(7)
    index, keys = ChunkIndex(), KeyMatrix(dim)
    for number in range(1, count + 1):
        index.append(
            ChunkFacts(number, "act", ("visit",), f"visit page {number}, 2894 chars", 900, 18, "", "", f"page {number}")
        )
    index.set_views(
        (n, level, tokens, None)
        for n in range(1, count + 1)
        for level, tokens in ((Level.BRIEF, 50), (Level.DETAILED, 210))
    )
    matrix = rng.standard_normal((count, dim), dtype=np.float32) + 0.5
    keys.add(np.arange(1, count + 1), matrix)
    config = MemoryConfig.model_validate({"layout": layout})
    recent = Recent((visit_step(count + 1, page(1)), visit_step(count + 2, page(2))), PlainFormat(), ScriptCounter())
    query = (rng.standard_normal(dim) + 0.5).astype(np.float32)
    state = SessionState(index, keys, NONCE)
    return Case(state, make_policy(policy), config, query, budget, recent)


def clock(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1000


def measure(policy: str, layout: str, count: int, dim: int, budget: int, rounds: int) -> dict[str, object]:
    case = make_case(policy, layout, count + rounds + 4, dim, budget)
    matrix = np.ascontiguousarray(case.state.keys.rows(count))
    for number in range(3):
        case.step(count + 3 + number)
        matrix @ case.query
    ours, scan = [], []
    for number in range(rounds):
        scan.append(clock(lambda: matrix @ case.query))
        ours.append(clock(lambda number=number: case.step(count + 6 + number)))
    return {
        "policy": policy,
        "layout": layout,
        "chunks": count,
        "dim": dim,
        "budget": budget,
        "assembly_ms": {"min": min(ours), "median": statistics.median(ours), "mean": statistics.fmean(ours)},
        "scan_ms": {"min": min(scan), "median": statistics.median(scan), "max": max(scan)},
        "over_scan_ms": statistics.fmean(ours) - 1.5 * statistics.median(scan),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sizes", default="2000,100000")
    parser.add_argument("--dim", type=int, default=1024)
    parser.add_argument("--budget", type=int, default=32_000)
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    rows = []
    for count in map(int, options.sizes.split(",")):
        for policy, layout in VARIANTS:
            try:
                row = measure(policy, layout, count, options.dim, options.budget, options.rounds)
            except ValueError as fault:
                sys.stdout.write(f"{policy} {layout}: not measured: {fault}\n")
                continue
            rows.append(row)
            assembly, scan = row["assembly_ms"], row["scan_ms"]
            sys.stdout.write(f"M {count:>7,} {policy:7} {layout:11} assembly ms {assembly}  scan ms {scan}\n")
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Large session stores, made in one transaction: what a session of many steps leaves behind."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memory.chunking import make_chunk
from memory.frame import block
from memory.records import SUMMARY_LEVELS, Chunk, Level, Step
from memory.store import codec, writes
from memory.store.sqlite import SqliteStore
from memory.stored import KeyRows, PlanRecord, Question
from memory.tokens import ScriptCounter
from tests.memory.store.build import chunk, view

_BATCH = 4_096


async def fill(path: Path, steps: int, encoder_id: str, dim: int, *, policy: str = "pace") -> None:
    """A session of ``steps`` steps under the interleaved layout, with views, keys and plans; closed in order."""
    rng, counter = np.random.default_rng(0), ScriptCounter()

    def write(connection: sqlite3.Connection) -> None:
        writes.set_meta(connection, {"nonce": "0badcafe"})
        writes.add_question(connection, Question(1, "When were the royal comets counted?", 1, 0.0))
        for number in range(1, steps + 1):
            made = chunk(number, f"The comets of {number} were counted. " * 8)
            writes.commit_step(connection, make_chunk(made.step, counter), ())
        shown = [view(n, level, step=n + 2) for n in range(1, steps + 1) for level in SUMMARY_LEVELS]
        counts = [counter.count(block(one.chunk, one.level, one.text)) for one in shown]
        writes.add_views(connection, [replace(one, tokens=count) for one, count in zip(shown, counts, strict=True)])
        for first in range(1, steps + 1, _BATCH):
            numbers = np.arange(first, min(first + _BATCH, steps + 1))
            keys = rng.standard_normal((len(numbers), dim), dtype=np.float32) + np.float32(0.5)
            keys /= np.linalg.norm(keys, axis=1, keepdims=True)
            writes.add_keys(connection, KeyRows(encoder_id, numbers, keys, numbers + 2))
        query = rng.standard_normal(dim).astype(np.float32).tobytes()
        for step in range(1, steps + 1):
            writes._insert(connection, "plans", codec.plan_in(_plan(step, policy, encoder_id, query)))

    async with await SqliteStore.open(path, create=True) as store:
        await store._write(write)


def _plan(step: int, policy: str, encoder_id: str, query: bytes) -> PlanRecord:
    old = max(0, step - 3)
    changed = tuple((n, int(level)) for n, level in ((old - 40, Level.PLACEHOLDER), (old, Level.FULL)) if n > 0)
    return PlanRecord(
        step=step,
        policy=policy,
        budget=32_000,
        tokens=30_000,
        unfitted_tokens=40_000,
        fixed_tokens=400,
        recent_tokens=900,
        recent_from=old + 1,
        recent_cap=None,
        previous_tokens=30_000,
        pressure=0.9,
        thresholds=(0.4, 0.8, 1.5),
        changed=changed,
        planned_counts=(old, 0, 0, 0),
        shown_counts=(old, 0, 0, 0),
        shown_tokens=(1_000, 0, 0, 0),
        cosine_mean=0.1,
        cosine_spread=0.05,
        query_key=query,
        encoder_id=encoder_id,
        render_hash="0" * 64,
        question=1,
    )


async def fill_turns(path: Path, encoder_id: str, texts: Sequence[str], keys: NDArray[np.float32]) -> None:
    """A store of turns with their keys (len(texts), dim), and nothing else: no views, no plans. 10,000 a second."""
    async with await SqliteStore.open(path, create=True) as store:
        for first in range(0, len(texts), _BATCH):
            part = texts[first : first + _BATCH]
            numbers = np.arange(first + 1, first + 1 + len(part))
            rows = KeyRows(encoder_id, numbers, np.asarray(keys[first : first + len(part)]), numbers)
            await store._write(partial(_add_turns, first=first, texts=part, keys=rows))


def _add_turns(connection: sqlite3.Connection, *, first: int, texts: Sequence[str], keys: KeyRows) -> None:
    for number, text in enumerate(texts, start=first + 1):
        step = Step(number, "turn", thought=text)
        writes.commit_step(connection, Chunk(step, f"turn: {text[:80]}", 40, 12, f"{number:064x}"), ())
    writes.add_keys(connection, keys)

"""Records that only the store keeps: what surrounds the chunks of a session."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memory.records import JsonValue, Observation, Step, Usage

Purpose: TypeAlias = Literal["step", "summary", "judge", "extract", "lost"]
"""``lost``: replies that broke on the way, paid for and never used."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question or further instruction, in force from ``from_step`` on."""

    task: int
    text: str
    from_step: int
    created: float


@dataclass(frozen=True, slots=True)
class Intent:
    """A step that is about to run its tools: thought and calls known, observations not yet."""

    step: Step
    created: float


@dataclass(frozen=True, slots=True)
class ChunkFacts:
    """A chunk without its text: what planning, range lines and reports need."""

    number: int
    kind: str
    tools: tuple[str, ...]
    placeholder: str
    tokens_full: int
    tokens_placeholder: int
    content_hash: str
    source_url: str
    source_title: str


@dataclass(frozen=True, slots=True)
class KeyRows:
    """Keys of one encoder. ``numbers`` (n,), ``matrix`` (n, dim) float32, ``published`` (n,) first use."""

    encoder_id: str
    numbers: NDArray[np.int64]
    matrix: NDArray[np.float32]
    published: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Nearest:
    """Chunks whose keys are near to a query, best first: ``numbers`` (n,), ``cosines`` (n,)."""

    numbers: NDArray[np.int64]
    cosines: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """What is kept of a plan: what changed since the step before, never the whole plan or the rendered request.

    ``changed``: (chunk, code) pairs, code = Level value shown, or -1 for folded into a range line; cumulated from
    step 1 they give every context its levels, and ``render_hash`` proves the rendering.
    """

    step: int
    policy: str
    budget: int
    tokens: int
    unfitted_tokens: int
    fixed_tokens: int
    recent_tokens: int
    recent_from: int
    """First chunk of the recent window."""
    recent_cap: int | None
    previous_tokens: int
    pressure: float
    thresholds: tuple[float, float, float] | None
    changed: tuple[tuple[int, int], ...]
    planned_counts: tuple[int, int, int, int]
    """Old chunks per `Level` as the policy planned them, before `fit`."""
    shown_counts: tuple[int, int, int, int]
    shown_tokens: tuple[int, int, int, int]
    cosine_mean: float
    cosine_spread: float
    query_key: bytes
    """float32 bytes of the query vector; empty when recency decided."""
    encoder_id: str
    render_hash: str
    question: int
    """Ordinal of the question in force."""
    ledger_base: int = 0
    """0: interleaved; else the ledger's base (`memory.layout`)."""
    blocks: tuple[int, ...] = ()
    """Numbers of the blocks shown."""
    prefix_tokens: int | None = None
    """Longest common prefix with the request before, tokens; None for the first after opening."""


@dataclass(frozen=True, slots=True)
class Tombstone:
    """What remains of evicted observations: why and when they went, and what stands in their place."""

    chunk: int
    rule: str
    evicted: float
    """Unix time, seconds."""
    chars: int
    """Characters of the observations that are gone."""
    content_hash: str
    """SHA-256 (hex) of the FULL text before."""
    left: tuple[Observation, ...]
    """The observations as they are now; empty when read back: they are with the step."""
    tokens_full: int
    """Of the FULL block as it is now."""
    left_hash: str
    """SHA-256 (hex) of the FULL text as it is now."""


@dataclass(frozen=True, slots=True)
class StoreSizes:
    """Where the bytes of a store are. All in bytes, but ``steps``, ``packed_steps`` and ``evicted_steps``."""

    steps: int
    packed_steps: int
    evicted_steps: int
    observations: int
    """Of the steps that are in no pack."""
    packs: int
    packed_text: int
    """What is in the packs, before it was compressed."""
    steps_text: int
    """Thoughts, actions, answers."""
    summaries: int
    keys: int
    plans: int
    other: int
    """Facts, usage, events, settings, and what SQLite takes around all of it."""
    free: int
    """Pages that nothing uses: the next steps take them, or a compaction gives them back."""
    file: int


@dataclass(frozen=True, slots=True)
class Change:
    """What opening a session needs of a `PlanRecord`: ``codes`` (n,) that ``chunks`` (n,) came to at ``step``."""

    step: int
    recent_from: int
    tokens: int
    chunks: NDArray[np.int64]
    codes: NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class UsageRow:
    """Tokens and money of one call."""

    step: int
    purpose: Purpose
    model: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to the session: started, resumed, config changed, ended with a status."""

    kind: str
    created: float
    body: dict[str, JsonValue] = field(default_factory=dict)

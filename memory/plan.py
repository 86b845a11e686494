"""What a context policy is given and what it gives back: arrays over the M old chunks, oldest first.

Arrays, not objects per chunk: a plan over 100,000 chunks must cost microseconds a chunk, not an allocation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from memory.records import Level, Message

IntArray: TypeAlias = NDArray[np.int64]
FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]
LevelArray: TypeAlias = NDArray[np.int8]
KeyArray: TypeAlias = NDArray[np.float32]

FOLDED = -1
"""Code of a chunk that is shown only inside a range line; other codes are `Level` values."""
HIDDEN = -2
"""Code of a chunk that is not shown at all: dropped by a selector, or covered by a block. Glimpse still has it."""
MAX_BLOCKS_A_STEP = 4
"""Texts that a policy may ask for before it plans a step; a policy that asks for more makes no progress."""


@dataclass(frozen=True, slots=True)
class Pool:
    """The M old chunks (everything before the recent window), oldest first.

    ``ids`` (M,) step numbers. ``tokens`` (M, 4) cost of the rendered block per `Level`, non-decreasing along a row: a
    level that is missing, or not shorter than the next finer one, carries that one's cost (it *aliases* it).
    ``available`` (M, 4) whether the level exists by itself. ``cosines`` (M,) similarity to the query, 0 without key.

    What only some policies ask for (`ContextPolicy.needs`) is None otherwise: ``lexical`` (M,) BM25 of the FULL texts
    for the state text; ``keys`` (M, dim) L2-normalised rows, zero where a chunk has none; ``fidelity`` (M, 4) how much
    of a chunk each level preserves, in [0, 1], non-decreasing along a row.
    """

    ids: IntArray
    tokens: IntArray
    available: BoolArray
    cosines: FloatArray
    lexical: FloatArray | None = None
    keys: KeyArray | None = None
    fidelity: FloatArray | None = None
    lines: IntArray | None = None
    """(M,) tokens of each chunk's own line, where it is not ``tokens[:, PLACEHOLDER]``: a summary can be shorter."""
    kinds: tuple[str, ...] | None = None
    """(M,) `StepKind` of each chunk."""
    densities: FloatArray | None = None
    """(8, M) `memory.narrow.densities`, with or without measured ``fidelity``; None: computed where they are needed."""

    def __len__(self) -> int:
        return len(self.ids)

    def tokens_at(self, levels: LevelArray) -> IntArray:
        """(M,) cost of each chunk at its level; 0 for what is HIDDEN."""
        shown: IntArray = self.tokens[np.arange(len(levels)), np.maximum(levels, 0)]
        hidden = levels == HIDDEN
        if hidden.any():
            shown[hidden] = 0
        return shown


@dataclass(frozen=True, slots=True)
class Block:
    """A text that stands for the chunks ``first``-``last``: a running summary, a fold, a finished subgoal.

    Numbered per session; immutable; a later block may cover an earlier one's chunks again. ``kind``: who reads it
    (``summary``, ``fold``, ``branch``, ``subgoal``). ``tokens`` count the rendered block.
    """

    number: int
    first: int
    last: int
    kind: str
    text: str
    tokens: int
    producer: str = ""
    published_step: int = 0


@dataclass(frozen=True, slots=True)
class NeedsSummary:
    """A policy cannot plan before this text exists: a summary of chunks ``first``-``last``, merged with block
    ``merge`` when given. The memory has it made, stores it as a `Block` and asks the policy again."""

    first: int
    last: int
    kind: str = "summary"
    merge: Block | None = None
    tokens: int = 1000
    """Upper bound of the text."""
    delegated: bool = False
    """The host owns compaction: this asks it to compact, rather than asking for a text."""


@dataclass(frozen=True, slots=True)
class PlanInput:
    """Everything a policy may look at. All token counts are of rendered text by the session's counter."""

    step: int
    """t: the number of the step about to be taken, from 1."""
    budget: int
    """Input budget for the whole request."""
    fixed_tokens: int
    """System, question, tools, frame, template overhead."""
    recent_tokens: int
    """The last N steps, unclipped, with the glimpses they expand."""
    previous_tokens: int
    """|C_{t-1}|; at the first step |C_0| = system + question."""
    pool: Pool
    blocks: tuple[Block, ...] = ()
    """Every block published so far, by number."""
    shown: LevelArray | None = None
    """(m,) codes of the context before (m <= M; chunks that became old since have none): Level, FOLDED or HIDDEN."""
    since: IntArray | None = None
    """(m,) step at which each chunk came to its code in ``shown``."""
    recent: tuple[tuple[str, ...], ...] = ()
    """Tools called in each step of the recent window, oldest first."""
    ledger_base: int = 0
    """0: interleaved layout; else the ledger's base (`memory.layout`)."""
    task_from: int = 1
    """First step of the question in force: older chunks are of earlier tasks."""
    still: bool = False
    """No chunk can come to be shown: of the plan only its blocks, what must be kept and the values are looked at."""


@dataclass(frozen=True, slots=True)
class ContextPlan:
    """A policy's decision before the hard budget.

    ``levels`` (M,) int8 of `Level`, or HIDDEN. ``values`` (M,) >= 0: what a chunk is worth for the next action (PACE:
    its relative weight); `fit` and `spend` trade by it. ``thresholds`` alpha, beta, gamma where the policy has them.
    """

    levels: LevelArray
    values: FloatArray
    pressure: float = 0.0
    thresholds: tuple[float, float, float] | None = None
    ceiling: Level = Level.FULL
    """Finest level that `spend` may raise a chunk to; HIDDEN chunks are never raised."""
    blocks: tuple[Block, ...] = ()
    """Shown in place of the chunks they cover, which are HIDDEN."""
    folds: bool = False
    """The plan counts on runs of placeholders being folded: so its cost is taken, and `fit` begins there."""
    upper_bound: float | None = None
    """Of the policy's own objective, where it optimises one."""
    objective: float | None = None
    kept: BoolArray | None = None
    """(M,) chunks that no cut may demote; None: any may be."""
    reasons: Mapping[int, str] = field(default_factory=dict)
    """Why single chunks (by id) are where they are, for people."""


@dataclass(frozen=True, slots=True)
class FittedPlan:
    """A plan after `fit` and `spend`: what is rendered. ``folded`` (M,): the chunk is only in a range line.

    ``recent_cap``: tokens that each text of the recent window may have (None: unclipped). ``tokens`` bounds the
    rendered request from above. ``cuts`` counts how many of the sequence of cuts were taken; ``unfitted_tokens`` is
    the plan's cost before any.
    """

    levels: LevelArray
    folded: BoolArray
    recent_cap: int | None
    tokens: int
    unfitted_tokens: int
    cuts: int = 0
    spent: int = 0
    """Tokens that the spend pass added."""
    blocks: tuple[Block, ...] = ()
    """The plan's blocks that are still shown."""
    ledger_base: int = 0
    """Ledger layout: lines of its unfolded part (see `memory.layout`)."""


@dataclass(frozen=True, slots=True)
class Context:
    """A rendered request, ready for a dialect: legal, ordered, within its budget by the counter."""

    step: int
    messages: tuple[Message, ...]
    tokens: int
    """Counted on the rendered messages and tools."""
    budget: int
    plan: ContextPlan
    fitted: FittedPlan
    ids: IntArray
    render_hash: str
    """SHA-256 (hex) of the rendered messages; recomputing the step must give it again."""
    tokens_by_level: tuple[int, int, int, int]
    """Old chunks shown per `Level`, in tokens; range lines count as PLACEHOLDER."""
    counts_by_level: tuple[int, int, int, int]
    recent_tokens: int
    fixed_tokens: int
    cosine_mean: float = 0.0
    cosine_spread: float = 0.0
    """Standard deviation of the M cosines: the constants of PACE mean little without it."""
    prefix_tokens: int | None = None
    """Tokens of the longest common prefix with the request before: what a provider's cache could hold."""

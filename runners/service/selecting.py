"""Selection for other people's agents, in process: which candidates to keep under a budget, and why (PACMS, section 3).

The HTTP service is this class behind a socket, so both give the same result.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

import numpy as np

from memory.errors import EncoderFault
from memory.plan import FloatArray, IntArray
from memory.policies.alike import products, rounded
from memory.policies.selector import SHORTLIST
from memory.ports import Encoder, TokenCounter
from memory.selection.checks import checked_budget, kept
from memory.selection.facility import select
from memory.selection.mmr import mmr
from memory.selection.ranked import last_k_fill, rag, top_k_fill
from memory.selection.similarity import Float32Array
from memory.tokens import ScriptCounter
from runners.service.vectors import CacheFigures, WarmKeys, WarmPools, digest_of

Strategy: TypeAlias = Literal["pacms", "top-k", "last-k", "rag", "mmr"]
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
Recency: TypeAlias = Literal["", "encoder", "irrelevant"]
"""Why recency decided: the encoder failed, or no candidate points the way of the query. Empty: it did not."""
MIB = 1024 * 1024
_NEARLY_ALL = 0.9
"""A budget that holds this share of the pool leaves a selector nothing to decide."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One thing that may stand in a context. ``tokens`` None: counted here."""

    id: str
    text: str
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """What to choose from, oldest first, and under which budget (tokens).

    ``must_keep``: ids that are always chosen. ``k``: of ``rag``; ``mult``: of ``mmr``. ``drop_duplicates``: of chosen
    texts that are the same to the letter only the newest stays (must-keep always does).
    """

    query: str
    candidates: tuple[Candidate, ...]
    budget: int
    strategy: Strategy = "pacms"
    must_keep: tuple[str, ...] = ()
    k: int = 10
    mult: float = 0.5
    drop_duplicates: bool = True


@dataclass(frozen=True, slots=True)
class Selected:
    """``ids`` in the order of the candidates; ``tokens`` is what they cost. ``warm``: candidates whose keys were known.
    ``objective`` F and ``upper_bound`` (no set within the budget has a higher F) of ``pacms``."""

    ids: tuple[str, ...]
    tokens: int
    recency: Recency = ""
    warm: int = 0
    objective: float | None = None
    upper_bound: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Working:
    """All that a selection looked at: for explanations. Rows are candidates. ``cosines`` None: not needed."""

    ask: Ask
    costs: IntArray
    keep: IntArray
    scores: FloatArray
    cosines: Float32Array | None
    rows: IntArray
    """(m,) rows that competed, ascending: ``cosines`` is (m, m) over them."""
    chosen: IntArray
    duplicates: tuple[int, ...] = field(default=())


class Selector:
    """Strategies that share one encoder, one token counter and one cache of keys. Thread-safe; blocking.

    ``cache_bytes`` bounds the keys of candidates, ``pool_bytes`` the cosines of recent pools.
    """

    def __init__(
        self,
        encoder: Encoder,
        counter: TokenCounter | None = None,
        *,
        cache_bytes: int = 256 * MIB,
        pool_bytes: int = 64 * MIB,
    ) -> None:
        self._encoder = encoder
        self._keys = WarmKeys(encoder, counter or ScriptCounter(), cache_bytes)
        self._pools = WarmPools(pool_bytes)

    def select(self, ask: Ask) -> Selected:
        """Raises ValueError for requests that cannot be meant, MustKeepTooLarge. A failing encoder raises nothing:
        recency decides."""
        return self.work(ask)[0]

    def work(self, ask: Ask) -> tuple[Selected, Working]:
        """As `select`, with what was looked at."""
        limit = checked_budget(ask.budget)
        places = check_ids(ask)
        texts = [candidate.text for candidate in ask.candidates]
        digests = [digest_of(text) for text in texts]
        costs = self._costs(ask, digests)
        keep = kept(sorted(places[name] for name in ask.must_keep), costs, limit)
        scores = np.zeros(len(texts))
        recency: Recency = ""
        whole, warm = None, 0
        if ask.strategy != "last-k" and texts:
            try:
                whole, warm = self._keys.keys(texts, digests)
                query = rounded(self._encoder.encode_query(ask.query)[np.newaxis, :])
                scores = products(query, whole)[0].astype(np.float64)
                recency = "" if (scores > 0).any() else "irrelevant"
            except EncoderFault as fault:
                _log.warning("recency decides: %s", fault)
                recency = "encoder"
        working, objective, bound = self._choose(ask, costs, keep, scores, None if recency else whole, digests)
        chosen = working.chosen
        result = Selected(
            tuple(ask.candidates[row].id for row in chosen),
            int(costs[chosen].sum()),
            recency,
            warm,
            objective,
            bound,
            _notes(ask, costs),
        )
        return result, working

    def prewarm(self, texts: Sequence[str]) -> int:
        """Make the keys of these texts ahead of time; returns how many were new. Raises EncoderFault."""
        return len(texts) - self._keys.keys(texts, [digest_of(text) for text in texts])[1]

    def reset(self) -> None:
        """Forget all keys and pools."""
        self._keys.reset()
        self._pools.reset()

    def figures(self) -> CacheFigures:
        """How the cache of keys fares."""
        return self._keys.figures()

    def _costs(self, ask: Ask, digests: Sequence[bytes]) -> IntArray:
        given = [candidate.tokens for candidate in ask.candidates]
        if None in given:
            counted = self._keys.tokens([candidate.text for candidate in ask.candidates], digests)
            given = [own if own is not None else count for own, count in zip(given, counted, strict=True)]
        return np.array(given, dtype=np.int64)

    def _choose(
        self,
        ask: Ask,
        costs: IntArray,
        keep: IntArray,
        scores: FloatArray,
        whole: Float32Array | None,
        digests: Sequence[bytes],
    ) -> tuple[Working, float | None, float | None]:
        """``whole`` None: recency decides, or age is the strategy."""
        rows = np.arange(len(costs))
        cosines: Float32Array | None = None
        objective = bound = None
        if whole is None:
            chosen = last_k_fill(costs, ask.budget, keep)
        elif ask.strategy == "top-k":
            chosen = top_k_fill(scores, costs, ask.budget, keep)
        elif ask.strategy == "rag":
            chosen = rag(scores, costs, ask.budget, ask.k, keep)
        else:
            rows = _competing(scores, keep)
            cosines = self._pools.cosines([digests[row] for row in rows.tolist()], whole[rows])
            within = np.searchsorted(rows, keep).tolist()
            if ask.strategy == "mmr":
                found = mmr(scores[rows], cosines, costs[rows], ask.budget, within, mult=ask.mult)
            else:
                solved = select(np.maximum(scores[rows], 0.0), cosines, costs[rows], ask.budget, within)
                found, objective, bound = solved.chosen, solved.objective, solved.upper_bound
            chosen = rows[found]
        chosen = np.sort(chosen)
        duplicates = _duplicates(chosen, keep, digests) if ask.drop_duplicates else ()
        chosen = chosen[~np.isin(chosen, duplicates)] if duplicates else chosen
        return Working(ask, costs, keep, scores, cosines, rows, chosen, duplicates), objective, bound


def check_ids(ask: Ask) -> dict[str, int]:
    """The row of each id. Raises ValueError for an id that is there twice, one that must be kept and is not there, and
    negative tokens."""
    places = {candidate.id: row for row, candidate in enumerate(ask.candidates)}
    if len(places) != len(ask.candidates):
        raise ValueError("an id is given to two candidates")
    unknown = [name for name in ask.must_keep if name not in places]
    if unknown:
        raise ValueError(f"must_keep names {unknown[0][:64]!r}, which is no candidate")
    if any(candidate.tokens is not None and candidate.tokens < 0 for candidate in ask.candidates):
        raise ValueError("tokens cannot be negative")
    return places


def _competing(scores: FloatArray, keep: IntArray) -> IntArray:
    if len(scores) <= SHORTLIST:
        return np.arange(len(scores))
    best = np.lexsort((-np.arange(len(scores)), -scores))[:SHORTLIST]
    return np.union1d(best, keep)


def _duplicates(chosen: IntArray, keep: IntArray, digests: Sequence[bytes]) -> tuple[int, ...]:
    """Chosen rows whose text stands in another chosen row: must-keep stays, then the newest."""
    kept_rows = set(keep.tolist())
    seen = {digests[row] for row in kept_rows}
    again = []
    for row in reversed(chosen.tolist()):
        if row in kept_rows:
            continue
        if digests[row] in seen:
            again.append(row)
        seen.add(digests[row])
    return tuple(sorted(again))


def _notes(ask: Ask, costs: IntArray) -> tuple[str, ...]:
    total = int(costs.sum())
    if total and ask.budget >= _NEARLY_ALL * total:
        share = min(100, round(100 * ask.budget / total))
        return (f"the budget holds {share} % of the pool's {total} tokens: there is next to nothing to select",)
    return ()

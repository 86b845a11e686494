"""Walking a recording under one variant: at every step the decision that a session would have made."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from memory.decide import Decision, decide, shown_codes
from memory.errors import BudgetTooSmall, ContextExhausted, SummaryFailed
from memory.plan import (
    HIDDEN,
    MAX_BLOCKS_A_STEP,
    Block,
    FloatArray,
    IntArray,
    LevelArray,
    NeedsSummary,
    PlanInput,
    Pool,
)
from memory.policies.registry import make_policy
from memory.ports import ContextPolicy
from memory.render import Recent
from memory.state import since_with
from runners.replay.blocks import make_block
from runners.replay.prepare import Prepared
from runners.replay.variants import Variant


@dataclass(frozen=True, slots=True)
class Shown:
    """A context that would have been built. ``decision`` None: it could not be (budget too small, or exhausted).

    ``codes`` (M,) as in `memory.plan`. ``budget`` is that of the whole request.
    """

    step: int
    given: PlanInput
    decision: Decision | None
    codes: LevelArray

    @property
    def tokens(self) -> int:
        """Bound of the request, 0 where there is none."""
        return self.decision.fitted.tokens if self.decision else 0

    @property
    def history_tokens(self) -> int:
        """What the old chunks take of it."""
        return max(0, self.tokens - self.given.fixed_tokens - self.given.recent_tokens) if self.decision else 0


@dataclass(slots=True)
class Walk:
    """One recording under one variant. ``blocks`` grow as the policy asks for them."""

    run: Prepared
    variant: Variant
    policy: ContextPolicy = field(init=False)
    blocks: list[Block] = field(default_factory=list)
    previous: int | None = None
    codes: LevelArray = field(default_factory=lambda: np.zeros(0, dtype=np.int8))
    since: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Step at which each chunk came to its code, (M,)."""
    ended: bool = False
    seconds: float = 0.0
    """Spent on deciding (scores of all steps are made before), in this process."""
    _ingested: int = 0

    def __post_init__(self) -> None:
        self.policy = make_policy(self.variant.policy, self.variant.options)
        if "fidelity" in self.policy.needs:
            self.run.measure_fidelity()

    def steps(self) -> Iterator[Shown]:
        """The context before every step, in order."""
        for step in range(1, len(self.run) + 1):
            yield self.step(step)

    def step(self, step: int) -> Shown:
        """The context before ``step``; steps are taken one after another, and each is remembered as the latest."""
        self._ingest(step)
        self.run.cosines(step)
        window = self.run.window(step)
        window.tokens(None)
        started = time.perf_counter()
        given = self.given(step)
        decision = None if self.ended else self._decided(given, window)
        shown = self._shown(step, given, decision)
        self.seconds += time.perf_counter() - started
        if decision is not None:
            self.since = since_with(self.codes, self.since, shown.codes, step)
            self.previous, self.codes = decision.fitted.tokens, shown.codes
        return shown

    def ask(self, step: int, question: str, cosines: FloatArray) -> Shown:
        """The context that ``question`` alone would get before ``step``; nothing of it is remembered."""
        self._ingest(step)
        kept, ended = list(self.blocks), self.ended
        given = self.given(step, question, cosines)
        decision = None if self.ended else self._decided(given, self.run.window(step))
        self.blocks, self.ended = kept, ended
        return self._shown(step, given, decision)

    def given(self, step: int, question: str | None = None, cosines: FloatArray | None = None) -> PlanInput:
        """What the policy is given before ``step``; ``question`` stands for the one in force."""
        run, config = self.run, self.variant.memory
        old = run.old(step)
        recent = run.window(step).tokens(None)
        text = run.question(step) if question is None else question
        fixed = run.fixed_tokens(text, old > 0, config.layout == "ledger")
        budget = self.variant.budget + (fixed + recent if self.variant.scope == "history" else 0)
        return PlanInput(
            step=step,
            budget=budget,
            fixed_tokens=fixed,
            recent_tokens=recent,
            previous_tokens=fixed if self.previous is None else self.previous,
            pool=self._pool(step, old, question, cosines),
            blocks=tuple(self.blocks),
            shown=None if self.previous is None else self.codes,
            since=None if self.previous is None else self.since,
            recent=tuple(facts.tools for facts in run.index.facts[old : step - 1]),
            # a question that is put from outside has no steps of its own yet
            task_from=run.task_from(step) if question is None else step,
        )

    def _ingest(self, step: int) -> None:
        for facts in self.run.index.facts[self._ingested : step - 1]:
            self.policy.ingest(facts)
        self._ingested = max(self._ingested, step - 1)

    def _pool(self, step: int, old: int, question: str | None, cosines: FloatArray | None) -> Pool:
        run, needs = self.run, self.policy.needs
        pool = run.index.pool(old, run.cosines(step) if cosines is None else cosines)
        if "lexical" in needs:
            pool = replace(pool, lexical=run.lexical(step, question))
        if "keys" in needs:
            pool = replace(pool, keys=run.keys[:old])
        if "fidelity" in needs:
            pool = replace(pool, fidelity=run.index.fidelity(old))
        if "kinds" in needs:
            pool = replace(pool, kinds=run.kinds(old))
        return pool

    def _decided(self, given: PlanInput, recent: Recent) -> Decision | None:
        for _ in range(MAX_BLOCKS_A_STEP + 1):
            try:
                decision = decide(self.policy, self.variant.memory, given, recent)
            except ContextExhausted:
                self.ended = True
                return None
            except BudgetTooSmall:
                return None
            if isinstance(decision, Decision):
                return decision
            self._make(decision, given.step)
            given = replace(given, blocks=tuple(self.blocks))
        raise SummaryFailed(f"policy {self.policy.name} asked for more than {MAX_BLOCKS_A_STEP} texts at one step")

    def _make(self, need: NeedsSummary, step: int) -> None:
        self.blocks.append(make_block(need, len(self.blocks) + 1, step, self.run))

    def _shown(self, step: int, given: PlanInput, decision: Decision | None) -> Shown:
        if decision is None:
            return Shown(step, given, None, np.full(len(given.pool), HIDDEN, dtype=np.int8))
        fitted = decision.fitted
        codes = shown_codes(self.run.index.shown_as(np.maximum(fitted.levels, 0)), fitted)
        return Shown(step, given, decision, codes)

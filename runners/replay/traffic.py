"""What contexts cost: tokens, the share that a prompt cache could hold, money, and how long a session would last."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from agent.pricing import ModelPrice
from memory.assemble import levels_of
from memory.plan import FOLDED, IntArray, LevelArray
from memory.prefix import common_prefix_tokens
from memory.records import Level, Message, Step, Usage
from memory.render import RenderInput, render
from memory.state import since_with
from memory.tokens import request_tokens
from runners.replay.engine import Shown
from runners.replay.prepare import Prepared


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the contexts of one run under one variant. ``rendered`` and what follows: None when not measured."""

    contexts: int = 0
    unbuilt: int = 0
    """Steps for which no context could be built: budget too small, or exhausted before."""
    over: int = 0
    """Contexts above their budget: none, if the hard budget holds."""
    tokens: int = 0
    history_tokens: int = 0
    longevity: int | None = None
    """First step whose unfitted plan exceeds the budget; None: none does."""
    rendered: int | None = None
    """Tokens counted on the rendered requests."""
    cached: int | None = None
    """Of these, what repeats the request before from its start."""
    cost: float | None = None
    """US dollars, with what the model wrote at each step as output."""
    spread: float = 0.0
    """Sum over contexts of the standard deviation of the old chunks' cosines."""
    seconds: float | None = None
    """Spent on deciding; None when not asked for, since it is never the same twice."""
    scored: int = 0
    """Contexts that the spread is summed over."""
    curve: tuple[tuple[int, int], ...] = ()
    """(step, tokens) at up to some hundred steps."""


class Traffic:
    """Collects `Totals`. ``prices`` and ``rendering``: the parts that need rendered text."""

    def __init__(self, run: Prepared, *, rendering: bool, price: ModelPrice | None = None) -> None:
        self._run = run
        self._rendering = rendering
        self._price = price
        self._totals = Totals(rendered=0 if rendering else None, cached=0 if rendering else None)
        self._curve: list[tuple[int, int]] = []
        self._renderer = Renderer(run)
        if rendering and price is not None:
            self._totals = replace(self._totals, cost=0.0)

    def see(self, shown: Shown) -> None:
        """Take one context into account."""
        totals = self._totals
        if shown.decision is None:
            longevity = totals.longevity or shown.step
            self._totals = replace(totals, unbuilt=totals.unbuilt + 1, longevity=longevity)
            return
        exceeds = shown.decision.fitted.unfitted_tokens > shown.given.budget
        wide = len(shown.given.pool) > 1
        self._curve.append((shown.step, shown.tokens))
        self._totals = replace(
            totals,
            contexts=totals.contexts + 1,
            over=totals.over + (shown.tokens > shown.given.budget),
            tokens=totals.tokens + shown.tokens,
            history_tokens=totals.history_tokens + shown.history_tokens,
            longevity=totals.longevity or (shown.step if exceeds else None),
            spread=totals.spread + (float(shown.given.pool.cosines.std()) if wide else 0.0),
            scored=totals.scored + wide,
        )
        if self._rendering:
            self._price_of(shown)

    def totals(self) -> Totals:
        """The sums so far, with a thinned curve."""
        stride = max(1, len(self._curve) // 400)
        return replace(self._totals, curve=tuple(self._curve[::stride]))

    def _price_of(self, shown: Shown) -> None:
        output = output_tokens(self._run.recording.steps[shown.step - 1], self._run)
        tokens, cached = self._renderer.render(shown)
        totals = self._totals
        cost = None
        if self._price is not None and totals.cost is not None:
            usage = Usage(input_total=tokens, cache_read=cached, output=output)
            cost = totals.cost + (self._price.cost(usage) or 0.0)
        self._totals = replace(
            totals, rendered=(totals.rendered or 0) + tokens, cached=(totals.cached or 0) + cached, cost=cost
        )


class Renderer:
    """Renders the contexts of one walk and compares each with the one before."""

    def __init__(self, run: Prepared) -> None:
        self._run = run
        self._before: tuple[Message, ...] | None = None
        self._codes = np.zeros(0, dtype=np.int8)
        self._since: IntArray = np.zeros(0, dtype=np.int64)

    def messages(self, shown: Shown) -> tuple[Message, ...]:
        """The request as a session would send it."""
        run, codes = self._run, shown.codes
        assert shown.decision is not None
        fitted = shown.decision.fitted
        self._take(codes, shown.step)
        rows = np.flatnonzero(codes > int(Level.PLACEHOLDER)).tolist()
        given = RenderInput(
            question=run.question(shown.step),
            nonce=run.nonce,
            levels=levels_of(codes),
            folded=codes == FOLDED,
            facts=run.index,
            texts={row + 1: run.view_text(row, Level(int(codes[row]))) for row in rows},
            recent=run.recent_steps(shown.step),
            recent_cap=fitted.recent_cap,
            ledger_base=fitted.ledger_base,
            since=self._since,
            blocks=fitted.blocks,
        )
        return render(given, run.form, run.tools.counter)

    def render(self, shown: Shown) -> tuple[int, int]:
        """(tokens of the request, tokens of the longest prefix it shares with the one before; 0 for the first)."""
        counter, tools = self._run.tools.counter, self._run.form.tools_text()
        messages = self.messages(shown)
        cached = common_prefix_tokens(self._before, messages, tools, counter) or 0
        self._before = messages
        return request_tokens(messages, tools, counter), cached

    def _take(self, codes: LevelArray, step: int) -> None:
        self._since = since_with(self._codes, self._since, codes, step)
        self._codes = codes


def output_tokens(step: Step, run: Prepared) -> int:
    """What the model wrote at a step: thought, actions, answer."""
    count = run.tools.counter.count
    calls = sum(count(call.name) + count(str(dict(call.arguments))) for call in step.calls)
    return count(step.thought) + count(step.answer) + calls

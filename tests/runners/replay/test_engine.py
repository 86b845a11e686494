"""A replay decides what a session would have: the same levels, tokens and bytes, step by step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from memory.config import MemoryConfig
from memory.encoders.hashing import HashingEncoder
from memory.formats import PlainFormat
from memory.plan import Context
from memory.prefix import common_prefix_tokens
from memory.records import Level, Step
from memory.render import render_hash
from memory.summaries.config import SummaryConfig
from memory.tokens import ScriptCounter
from runners.replay.engine import Walk
from runners.replay.prepare import Prepared, Toolkit, prepare
from runners.replay.recording import Recording, single_question
from runners.replay.traffic import Renderer, Traffic
from runners.replay.variants import Variant
from tests.memory.sessions import open_memory, page, visit_step
from tests.runners.replay.hand import FILLER, act, prepared, variant

STEPS = 12
QUESTION = "When were the northern harbours of Varden surveyed?"


def steps() -> list[Step]:
    return [visit_step(number, page(number, 6 + 9 * (number % 4))) for number in range(1, STEPS + 1)]


async def session(path: Path, policy: str, config: MemoryConfig, budget: int) -> tuple[list[Context], str]:
    """The contexts of a real session over the same steps, and its nonce."""
    async with open_memory(path, policy=policy, config=config, encoder=HashingEncoder(64)) as memory:
        await memory.ask(QUESTION)
        contexts = []
        for step in steps():
            contexts.append(await memory.assemble(budget))
            await memory.ingest(step)
        return contexts, memory._state.nonce


def replayed(nonce: str) -> Prepared:
    recording = Recording("same", "hand", tuple(steps()), single_question(QUESTION))
    tools = Toolkit(HashingEncoder(64), ScriptCounter(), SummaryConfig())
    return replace(prepare(recording, tools, 2), nonce=nonce, form=PlainFormat())


@pytest.mark.parametrize("layout", ["interleaved", "ledger"])
@pytest.mark.parametrize("policy", ["pace", "react", "mosaic", "summary-append"])
async def test_a_replay_is_what_the_session_was(tmp_path: Path, policy: str, layout: str) -> None:
    config = MemoryConfig.model_validate({"layout": layout})
    budget = 3_000
    contexts, nonce = await session(tmp_path / "s.sqlite", policy, config, budget)
    run = replayed(nonce)
    renderer, before = Renderer(run), None
    walk = Walk(run, Variant(policy, policy, {}, budget, config, scope="request"))
    for context, shown in zip(contexts, walk.steps(), strict=True):
        assert shown.decision is not None
        np.testing.assert_array_equal(shown.decision.fitted.levels, context.fitted.levels)
        assert shown.tokens == context.fitted.tokens
        messages = renderer.messages(shown)
        assert render_hash(messages) == context.render_hash
        assert common_prefix_tokens(before, messages, "", ScriptCounter()) == context.prefix_tokens
        before = messages
    assert any((context.fitted.levels < Level.FULL).any() for context in contexts)


def test_history_budgets_come_on_top_of_the_rest() -> None:
    run = prepared([act(number, f"{FILLER} N{number}") for number in range(1, 10)])
    for shown in Walk(run, variant("react", 300)).steps():
        assert shown.given.budget == 300 + shown.given.fixed_tokens + shown.given.recent_tokens
        assert shown.history_tokens <= 300
        assert shown.decision is not None
        assert shown.decision.fitted.recent_cap is None


def test_asking_leaves_no_trace() -> None:
    run = prepared([act(number, f"{FILLER} N{number}") for number in range(1, 10)])
    asked, plain = Walk(run, variant("pace", 300)), Walk(run, variant("pace", 300))
    for step in range(1, 10):
        asked.ask(step, "What is N2?", np.zeros(run.old(step)))
        np.testing.assert_array_equal(asked.step(step).codes, plain.step(step).codes)


def test_longevity_is_the_first_plan_over_the_budget() -> None:
    run = prepared([act(number, FILLER) for number in range(1, 10)])
    size = run.chunks[0].tokens_full
    # old chunks: one before step 4, two before step 5, three before step 6
    budget = 2 * size + 10
    for overflow in ("fit", "stop"):
        traffic = Traffic(run, rendering=False)
        for shown in Walk(run, variant("react", budget, overflow=overflow)).steps():
            traffic.see(shown)
        totals = traffic.totals()
        assert totals.longevity == 6
        assert totals.unbuilt == (4 if overflow == "stop" else 0)
        assert totals.over == 0


def test_a_budget_too_small_builds_nothing_and_goes_on() -> None:
    run = prepared([act(number, FILLER) for number in range(1, 6)])
    traffic = Traffic(run, rendering=True)
    for shown in Walk(run, variant("react", 5, scope="request")).steps():
        assert shown.decision is None
        traffic.see(shown)
    assert traffic.totals().unbuilt == 5


def test_cached_tokens_are_those_of_the_common_prefix() -> None:
    """React appends within the budget: what was sent before is the beginning of what is sent now, but for the frame's
    last line, the messages of the recent window, and a few characters where they begin."""
    run = prepared([act(number, f"{FILLER} N{number}") for number in range(1, 9)])
    renderer = Renderer(run)
    shares = []
    for shown in Walk(run, variant("react", 100_000)).steps():
        tokens, cached = renderer.render(shown)
        shares.append(cached / tokens)
        if shown.step > 5:
            old = sum(run.chunks[row].tokens_full for row in range(run.old(shown.step) - 1))
            assert old - run.old(shown.step) <= cached - shown.given.fixed_tokens + 60
            assert cached < tokens
    assert shares[0] == 0
    assert shares[-1] > 0.5

"""The policies that summarise runs of steps: what is shown when, merged, resumed, and for how long."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from memory.config import MemoryConfig
from memory.errors import ContextExhausted, SummaryFailed
from memory.manager import Memory
from memory.plan import HIDDEN, NeedsSummary
from memory.policies.registry import make_policy
from memory.records import Level
from memory.summaries.config import SummaryConfig
from tests.memory.policies.scenes import QUESTION, Scene, hidden, play, spans
from tests.memory.pools import given, pool
from tests.memory.sessions import open_memory, page, visit_step

RESTART = Scene("summary-restart", {"tokens": 400}, summaries="off")
ROLLING = Scene("summary-rolling", {"tokens": 400, "every": 5}, budget=20_000, summaries="off")
APPEND = Scene("summary-append", budget=20_000, steps=24)


async def test_append_shows_each_step_as_its_summary_and_the_last_one_raw(tmp_path: Path) -> None:
    played = await play(tmp_path / "s", APPEND)
    last = played.contexts[-1]
    assert (last.plan.levels[:-1] == Level.DETAILED).all()
    # in lockstep the summary of step t is there at t + 2, so the newest old step has one as well
    assert last.plan.levels[-1] == Level.DETAILED
    assert page(23) in str(last.messages[-1].content) and page(22) not in str(last.messages)
    history = [context.messages[1:-2] for context in played.contexts]
    assert "### c1 detailed" in history[-1][-1].content
    sizes = [context.tokens for context in played.contexts[5:]]
    assert sizes == sorted(sizes)


def test_append_falls_back_where_a_summary_is_missing() -> None:
    chunks = pool([0.1] * 4, full=1_000)
    chunks.available[1:3, Level.DETAILED] = False
    policy = make_policy("summary-append")
    roomy = policy.plan(given(chunks))
    tight = policy.plan(given(chunks, budget=500 + 800 + 2 * 200 + 40 + 1_000))
    assert not isinstance(roomy, NeedsSummary) and not isinstance(tight, NeedsSummary)
    assert roomy.levels.tolist() == [2, 3, 3, 2]
    assert tight.levels.tolist() == [2, 0, 3, 2]


async def test_restart_summarises_everything_near_the_budget_and_merges(tmp_path: Path) -> None:
    played = await play(tmp_path / "s", RESTART)
    blocks = played.blocks
    assert len(blocks) >= 3
    assert all(block.first == 1 and block.kind == "summary" for block in blocks)
    assert [b.last for b in blocks] == sorted({b.last for b in blocks})
    assert all(block.tokens <= 400 for block in blocks)
    for context in played.contexts:
        shown = context.fitted.blocks
        made = [block for block in blocks if block.published_step <= context.step]
        assert shown == tuple(made[-1:])
        assert hidden(context) == (list(range(1, shown[0].last + 1)) if shown else [])
        if made and made[-1].published_step == context.step:
            assert context.fitted.cuts == 0 and context.tokens < 0.9 * 4_000
            assert shown[0].last == len(context.ids)
    assert "### c1-c" in played.contexts[-1].messages[1].content


async def test_rolling_takes_in_new_steps_every_k(tmp_path: Path) -> None:
    played = await play(tmp_path / "s", ROLLING)
    assert spans(played.blocks) == [(1, last) for last in range(5, 39, 5)]
    assert [block.published_step for block in played.blocks] == [last + 2 for last in range(5, 39, 5)]
    assert played.contexts[-1].tokens < 7_000
    assert [len(hidden(context)) for context in played.contexts[:9]] == [0, 0, 0, 0, 0, 0, 5, 5, 5]


async def test_rolling_is_sooner_where_the_budget_is_near(tmp_path: Path) -> None:
    played = await play(
        tmp_path / "s", Scene("summary-rolling", {"tokens": 400, "every": 30}, steps=12, summaries="off")
    )
    assert played.blocks and min(block.last for block in played.blocks) < 10


@pytest.mark.parametrize("scene", [APPEND, RESTART, ROLLING])
async def test_a_resumed_session_equals_one_that_never_stopped(tmp_path: Path, scene: Scene) -> None:
    whole = await play(tmp_path / "a", scene)
    stopped = await play(tmp_path / "b", scene, {2, 9, 10, 23})
    assert whole.hashes == stopped.hashes and whole.blocks == stopped.blocks


async def steps_until_exhausted(memory: Memory, budget: int, most: int) -> int:
    await memory.ask(QUESTION)
    for number in range(1, most + 1):
        try:
            await memory.assemble(budget)
        except ContextExhausted as fault:
            return fault.step
        await memory.ingest(visit_step(number, page(number)))
    return most


async def test_longevity_append_outlives_react_and_the_running_summaries_outlive_both(tmp_path: Path) -> None:
    reached = {}
    for policy in ("react", "summary-append", "summary-restart", "summary-rolling"):
        stop = MemoryConfig(overflow="stop", spend=False, recent=1)
        settings = SummaryConfig(publish="lockstep", kind="extractive" if policy == "summary-append" else "off")
        async with open_memory(tmp_path / policy, policy=policy, config=stop, summaries=settings) as memory:
            reached[policy] = await steps_until_exhausted(memory, 5_000, 40)
    assert reached["react"] < reached["summary-append"] < 40
    assert reached["summary-restart"] == reached["summary-rolling"] == 40


def test_a_plan_asks_for_what_the_summary_does_not_cover() -> None:
    policy = make_policy("summary-restart", {"share": 0.5, "tokens": 900})
    need = policy.plan(given(pool([0.1] * 60)))
    assert need == NeedsSummary(1, 60, "summary", None, 900)
    assert isinstance(policy.plan(given(pool([0.1] * 30))), type(policy.plan(given(pool([])))))
    asked = policy.compact(given(pool([0.1] * 3), budget=2_000))
    assert asked == NeedsSummary(1, 3, "summary", None, 500)
    assert policy.compact(given(pool([]))) is None


async def test_without_a_maker_the_fault_says_so(tmp_path: Path) -> None:
    async with open_memory(tmp_path / "s", policy="summary-rolling", options={"every": 1}) as memory:
        object.__setattr__(memory._parts, "blocks", None)
        await memory.ask(QUESTION)
        for number in range(1, 4):
            await memory.ingest(visit_step(number, page(number)))
        with pytest.raises(SummaryFailed, match="nothing here makes them"):
            await memory.assemble(4_000)


async def test_a_context_too_small_for_its_summary_shows_lines_instead(tmp_path: Path) -> None:
    played = await play(tmp_path / "s", Scene("summary-rolling", {"tokens": 2_000, "every": 3}, budget=600, steps=20))
    assert all((context.fitted.levels != HIDDEN).all() for context in played.contexts if not context.fitted.blocks)
    assert np.all([context.tokens <= 600 for context in played.contexts])


@pytest.mark.parametrize("options", [{"share": 0}, {"share": 1.5}, {"tokens": 5}, {"every": 0}, {"evry": 3}])
def test_bad_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        make_policy("summary-rolling", options)


async def test_the_ledger_layout_shows_summaries_in_its_focus_section(tmp_path: Path) -> None:
    config = MemoryConfig(layout="ledger", recent=1)
    played = await play(tmp_path / "s", Scene("summary-rolling", {"tokens": 400, "every": 5}, config, 8_000))
    focus = played.contexts[-1].messages[2].content
    assert focus.startswith("### focus") and "### c1-c35 summary\n" in focus and "### c36 full" in focus
    assert "### c34 full" not in focus

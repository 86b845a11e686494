"""Folding policies: blocks in force, the scripted rule, forced summaries, subgoals found in the steps."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from memory.config import MemoryConfig
from memory.errors import ContextExhausted
from memory.plan import HIDDEN, Block, ContextPlan, NeedsSummary
from memory.policies.blocks import in_force
from memory.policies.folds import uncovered_run
from memory.policies.registry import make_policy
from memory.ports import ContextPolicy
from memory.records import Step
from memory.scoring.subgoals import BoundaryRule, boundaries
from memory.stored import ChunkFacts
from tests.memory.policies.scenes import QUESTION, Scene, hidden, play, spans
from tests.memory.pools import given, pool
from tests.memory.sessions import open_memory, page, visit_step


def block(number: int, first: int, last: int, kind: str = "fold", tokens: int = 100, step: int = 0) -> Block:
    return Block(number, first, last, kind, f"text {number}", tokens, "t", step)


@pytest.mark.parametrize(
    ("made", "count", "kept"),
    [
        ([], 9, []),
        ([(1, 3), (4, 6)], 9, [(1, 3), (4, 6)]),
        ([(1, 3), (4, 6), (4, 8)], 9, [(1, 3), (4, 8)]),
        ([(1, 3), (4, 6), (1, 8)], 9, [(1, 8)]),
        ([(4, 6), (1, 3)], 9, [(1, 3), (4, 6)]),
        ([(1, 5), (4, 8)], 9, [(4, 8)]),
        ([(4, 8), (1, 5)], 9, [(1, 5)]),
        ([(1, 3), (10, 12)], 9, [(1, 3)]),
        ([(1, 3), (9, 12)], 9, [(1, 3), (9, 12)]),
    ],
)
def test_blocks_in_force_are_disjoint_and_the_later_one_wins(
    made: list[tuple[int, int]], count: int, kept: list[tuple[int, int]]
) -> None:
    blocks = [block(number, *span) for number, span in enumerate(made, 1)]
    assert spans(in_force(blocks, {"fold"}, count)) == kept
    assert in_force(blocks, {"summary"}, count) == ()


@pytest.mark.parametrize(
    ("folds", "run"),
    [
        ([], (1, 9)),
        ([(1, 3)], (4, 9)),
        ([(1, 3), (6, 9)], (4, 5)),
        ([(1, 3), (4, 9)], None),
        ([(2, 3), (4, 12)], (1, 1)),
    ],
)
def test_the_newest_run_that_nothing_covers(folds: list[tuple[int, int]], run: tuple[int, int] | None) -> None:
    assert uncovered_run(9, tuple(block(n, *span) for n, span in enumerate(folds, 1))) == run
    assert uncovered_run(0, ()) is None


def facts(policy: ContextPolicy, kinds: list[str], tools: list[str] | None = None) -> None:
    for number, kind in enumerate(kinds, 1):
        used = (tools[number - 1],) if tools else ()
        policy.ingest(ChunkFacts(number, kind, used, "", 10, 10, "", "", ""))


def needed(policy: ContextPolicy, count: int, *blocks: Block, budget: int = 100_000, step: int = 99) -> NeedsSummary:
    asked = policy.plan(replace(given(pool([0.1] * count), budget=budget, step=step), blocks=blocks))
    assert isinstance(asked, NeedsSummary)
    return asked


def test_the_rule_folds_every_few_steps_and_each_finished_question() -> None:
    policy = make_policy("fold-range", {"auto_fold": True, "every": 5, "tokens": 500})
    facts(policy, ["act"] * 6 + ["answer"] + ["act"] * 8)
    assert isinstance(policy.plan(given(pool([0.1] * 4))), ContextPlan)
    assert needed(policy, 5) == NeedsSummary(1, 5, "fold", None, 500)
    assert isinstance(policy.plan(replace(given(pool([0.1] * 6)), blocks=(block(1, 1, 5),))), ContextPlan)
    # the question is answered: all of its steps at once
    assert needed(policy, 7, block(1, 1, 5)) == NeedsSummary(1, 7, "fold", None, 500)
    assert needed(policy, 12, block(1, 1, 5), block(2, 1, 7)) == NeedsSummary(8, 12, "fold", None, 500)
    # what came from another policy is caught up with at once
    assert needed(policy, 15) == NeedsSummary(1, 7, "fold", None, 500)
    # never more texts a step than the memory makes
    asked = tuple(block(number, number, number, step=99) for number in range(1, 5))
    assert isinstance(policy.plan(replace(given(pool([0.1] * 15), step=99), blocks=asked)), ContextPlan)


def test_without_the_rule_nothing_is_asked_for() -> None:
    policy = make_policy("fold-range")
    plan = policy.plan(replace(given(pool([0.1] * 500)), blocks=(block(1, 1, 5), block(2, 3, 3, "branch"))))
    assert isinstance(plan, ContextPlan)
    assert (plan.levels[:5] == HIDDEN).all() and (plan.levels[5:] == 3).all() and spans(plan.blocks) == [(1, 5)]


def test_a_forced_summary_covers_the_open_branch_first() -> None:
    policy = make_policy("fold-branch", {"share": 0.5, "tokens": 800})
    facts(policy, ["act"] * 9, ["search"] * 4 + ["branch"] + ["search"] * 4)
    tight = {"budget": 10_000}
    assert needed(policy, 9, **tight) == NeedsSummary(6, 9, "summary", None, 800)
    first = block(1, 6, 9, "summary")
    assert needed(policy, 9, first, **tight) == NeedsSummary(1, 5, "summary", None, 800)
    both = (first, block(2, 1, 5, "summary", 5_000))
    assert needed(policy, 9, *both, **tight) == NeedsSummary(1, 9, "summary", None, 800)
    # one text that covers all, and still too much: left to the hard budget
    over = policy.plan(replace(given(pool([0.1] * 9), budget=2_000), blocks=(block(3, 1, 9, "summary", 5_000),)))
    assert isinstance(over, ContextPlan)


async def test_scripted_folds_in_a_session(tmp_path: Path) -> None:
    scene = Scene("fold-range", {"auto_fold": True, "every": 5, "tokens": 300}, budget=20_000, summaries="off")
    whole = await play(tmp_path / "a", scene)
    assert spans(whole.blocks) == [(first, first + 4) for first in range(1, 36, 5)]
    assert hidden(whole.contexts[-1]) == list(range(1, 36))
    assert all(block.tokens <= 300 and block.producer == "extractive" for block in whole.blocks)
    assert "### c6-c10 fold\nc" in whole.contexts[-1].messages[1].content
    stopped = await play(tmp_path / "b", scene, {4, 8, 9, 30})
    assert stopped.hashes == whole.hashes and stopped.blocks == whole.blocks


async def test_a_branching_session_is_forced_to_summarise_and_goes_on(tmp_path: Path) -> None:
    scene = Scene(
        "fold-branch", {"tokens": 400}, MemoryConfig(recent=1, spend=False, overflow="stop"), 5_000, 60, "off"
    )
    whole = await play(tmp_path / "a", scene)
    assert len(whole.contexts) == 60 and whole.blocks
    assert {block.kind for block in whole.blocks} == {"summary"}
    assert (await play(tmp_path / "b", scene, {3, 17, 40})).hashes == whole.hashes


async def test_longevity_folding_outlives_react_and_cumulative_summaries(tmp_path: Path) -> None:
    reached = {}
    options: dict[str, dict[str, object]] = {"fold-range": {"auto_fold": True, "every": 4, "tokens": 300}}
    for policy in ("react", "summary-append", "fold-range"):
        stop = MemoryConfig(overflow="stop", spend=False, recent=1)
        async with open_memory(tmp_path / policy, policy=policy, options=options.get(policy), config=stop) as memory:
            await memory.ask(QUESTION)
            with pytest.raises(ContextExhausted) as caught:
                for number in range(1, 400):
                    await memory.assemble(6_000)
                    await memory.ingest(visit_step(number, page(number)))
            reached[policy] = caught.value.step
    assert reached["react"] * 2 < reached["summary-append"] < reached["fold-range"] < 400


def axis(*topics: int, dim: int = 8) -> np.ndarray:
    """Keys: one direction per topic, with a little of the others."""
    keys = np.full((len(topics), dim), 0.1, dtype=np.float32)
    for row, topic in enumerate(topics):
        if topic < 0:
            keys[row] = 0
        else:
            keys[row, topic] = 1.0
    norms = np.linalg.norm(keys, axis=1, keepdims=True)
    return keys / np.where(norms > 0, norms, 1)


@pytest.mark.parametrize(
    ("topics", "found"),
    [
        ([], []),
        ([0], []),
        ([0] * 8, []),
        ([0, 0, 0, 0, 1, 1, 1, 1], [4]),
        ([0, 0, 0, 0, 1, 0, 0, 0], []),  # one page of something else is no new subgoal
        ([0, 0, 1, 1, 1, 1], []),  # too short to be over: the running segment takes it in
        ([0, 0, 0, 0, 1], []),  # the newest step alone is not believed
        ([0, 0, 0, -1, 1, 1, 1, 2, 2, 2], [4, 7]),
        ([-1] * 6, []),
    ],
)
def test_a_shift_of_topic_that_two_steps_confirm(topics: list[int], found: list[int]) -> None:
    assert boundaries(axis(*topics)) == found


def test_an_answer_ends_a_subgoal_and_a_full_one_is_over() -> None:
    keys = axis(*[0] * 9)
    assert boundaries(keys, ["act", "answer"] + ["act"] * 7) == [2]
    assert boundaries(keys, rule=BoundaryRule(most=4)) == [4, 8]


def test_a_change_of_tools_makes_a_smaller_shift_count() -> None:
    keys = axis(0, 0, 0, 0, 1, 1, 1)
    keys[4:] = 0.45 * keys[0] + 0.9 * keys[4:]
    keys /= np.linalg.norm(keys, axis=1, keepdims=True)
    rule = BoundaryRule(drop=0.5, drop_at_change=0.8)
    tools = [("visit",)] * 4 + [("search",)] + [("visit",)] * 2
    assert boundaries(keys, tools=[("visit",)] * 7, rule=rule) == []
    assert boundaries(keys, tools=tools, rule=rule) == [4]


def test_a_boundary_once_found_stays() -> None:
    rng = np.random.default_rng(3)
    keys = rng.normal(size=(60, 6)).astype(np.float32) + np.repeat(4 * rng.normal(size=(12, 6)), 5, axis=0)
    keys = (keys / np.linalg.norm(keys, axis=1, keepdims=True)).astype(np.float32)
    last: list[int] = []
    for count in range(1, 61):
        found = boundaries(keys[:count])
        assert found[: len(last)] == last
        last = found
    assert len(last) >= 5


def sub_step(number: int) -> Step:
    """Eight steps on one topic, then eight on another."""
    rng = random.Random(number)
    topic = "abcdefgh"[(number - 1) // 8 % 8]
    words = [f"{5 * topic}{n}" for n in range(12)]
    return visit_step(number, ". ".join(" ".join(rng.choices(words, k=9)) for _ in range(12)))


async def test_finished_subgoals_are_folded_and_the_running_one_is_whole(tmp_path: Path) -> None:
    scene = Scene("boundary", {"tokens": 300, "share": 0.05}, budget=20_000, steps=44, step=sub_step, summaries="off")
    whole = await play(tmp_path / "a", scene)
    singles = [span for span in spans(whole.blocks) if span[1] - span[0] < 16]
    assert singles[:2] == [(1, 8), (9, 16)]
    merged = [span for span in spans(whole.blocks) if span[1] - span[0] >= 15]
    assert merged and all(first == 1 for first, _ in merged)
    last = whole.contexts[-1]
    shown = last.fitted.blocks
    assert hidden(last) == list(range(1, shown[-1].last + 1)) and shown[-1].last == 40
    assert (last.fitted.levels[40:] == 3).all()
    assert (await play(tmp_path / "b", scene, {11, 19, 33})).hashes == whole.hashes

"""Recall, ranking and visibility of one context."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from runners.memory_eval.contexts import context_text
from runners.memory_eval.measures import Found, found, ndcg, ranking
from runners.replay.dialogues import Asking, read_all
from runners.replay.engine import Shown, Walk
from runners.replay.prepare import Prepared, encode_queries, prepare
from tests.runners.memory_eval.sets import long_mem
from tests.runners.replay.hand import tools, variant


@pytest.mark.parametrize(
    ("ranked", "relevant", "value"),
    [
        ([7, 1, 2], {7}, 1.0),
        # as upstream computes it, the second place is worth as much as the first
        ([1, 7, 2], {7}, 1.0),
        ([1, 2, 7], {7}, 1 / math.log2(3)),
        ([1, 2, 3, 7], {7}, 0.5),
        ([7, 1, 2, 8], {7, 8}, 1.5 / 2),
        ([7], {7, 8}, 0.5),
        ([1, 2, 3, 4, 5, 6, 9, 10, 11, 12, 7], {7}, 0.0),
        ([], {7}, 0.0),
        ([1], set(), 0.0),
        # more relevant turns than places: ten of them are the best there is
        (list(range(1, 13)), set(range(1, 13)), 1.0),
    ],
)
def test_ndcg(ranked: list[int], relevant: set[int], value: float) -> None:
    assert ndcg(ranked, relevant) == pytest.approx(value)


def asked_over(path: Path, policy: str, budget: int) -> tuple[Prepared, Shown, Asking]:
    """The first question of a file under a policy."""
    (given,) = list(read_all(path))[:1]
    run = prepare(given.recording, tools(), 2)
    (asked,) = given.asked
    step = len(run) + 1
    (vector,) = encode_queries(run.tools, [run.state(step, asked.question)])
    walk = Walk(run, variant(policy, budget))
    return run, walk.ask(step, asked.question, run.scan(vector, run.old(step))), asked


@pytest.mark.parametrize(
    ("policy", "budget", "seen"), [("react", 50_000, 1.0), ("top-k", 60, 1.0), ("last-k", 60, 0.0)]
)
def test_what_a_context_shows(tmp_path: Path, policy: str, budget: int, seen: float) -> None:
    run, shown, asked = asked_over(long_mem(tmp_path), policy, budget)
    measured = found(run, shown, asked)
    assert measured.recall_any == measured.recall_all == measured.recall_share == measured.answer_visible == seen
    assert (asked.evidence[0] in ranking(shown)) == bool(seen)
    text = context_text(run, shown, asked.question)
    assert ("Biscuit" in text) == bool(seen)
    # the recent window is in every context
    assert run.texts[-1] in text and run.texts[-2] in text


def test_what_nobody_chose_comes_last(tmp_path: Path) -> None:
    run, shown, asked = asked_over(long_mem(tmp_path), "top-k", 60)
    ranked = ranking(shown)
    assert ranked[0] == asked.evidence[0]
    assert ranked[-2:] == [len(run), len(run) - 1]


def test_part_of_the_evidence(tmp_path: Path) -> None:
    run, shown, asked = asked_over(long_mem(tmp_path), "top-k", 60)
    elsewhere = next(number for number in range(1, len(run)) if number not in ranking(shown))
    both = Asking("q", "t", asked.question, asked.answer, (*asked.evidence, elsewhere))
    measured = found(run, shown, both)
    assert (measured.recall_any, measured.recall_all, measured.recall_share) == (1.0, 0.0, 0.5)
    assert measured.ndcg == pytest.approx(0.5)


def test_an_unanswerable_question_has_no_place_to_find(tmp_path: Path) -> None:
    run, shown, asked = asked_over(long_mem(tmp_path), "react", 50_000)
    trap = Asking("q_abs", "t", asked.question, asked.answer, asked.evidence, answerable=False)
    assert found(run, shown, trap) == Found()
    assert found(run, shown, Asking("q", "t", "?", "x", ())) == Found()


def test_a_context_that_could_not_be_built_shows_nothing(tmp_path: Path) -> None:
    run, shown, asked = asked_over(long_mem(tmp_path), "react", 50_000)
    nothing = Shown(shown.step, shown.given, None, shown.codes)
    assert found(run, nothing, asked).recall_any == 0.0
    assert context_text(run, nothing, asked.question) == ""

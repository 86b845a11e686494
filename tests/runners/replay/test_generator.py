"""Generated sessions: the fast path plans what the plain one would, and stays within its budget for ever."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from memory.policies.registry import make_policy
from memory.records import Level
from runners.errors import UsageFault
from runners.replay.engine import Walk
from runners.replay.generator import Endless, Generated, generate
from runners.replay.longevity import EVERY, STRIDE, steps, walked
from runners.replay.prose import own_page, pages
from runners.replay.traffic import Traffic
from tests.runners.replay.hand import tools, variant

SMALL = Generated(steps=400, seed=5, step_tokens=300, templates=20)


@pytest.fixture(scope="module")
def session() -> Endless:
    return generate(SMALL, tools())


def test_steps_are_real_text_of_about_the_size_asked_for(session: Endless) -> None:
    sizes = [session.index.facts[row].tokens_full for row in range(20)]
    assert 300 <= np.mean(sizes) <= 420
    assert "The " in session.view_text(0, Level.FULL)
    assert len({session.texts[row] for row in range(20)}) == 20


def test_the_same_seed_gives_the_same_session(session: Endless) -> None:
    again = generate(SMALL, tools())
    np.testing.assert_array_equal(again.order, session.order)
    np.testing.assert_array_equal(again.cosines(50), session.cosines(50))
    assert again.texts == session.texts


def test_counts_bound_the_rendered_steps(session: Endless) -> None:
    for step in (3, 100, 400):
        fast = session.window(step).tokens(None)
        plain = sum(session._costed(row).tokens(None) for row in session.order[session.old(step) : step - 1].tolist())
        assert fast == plain > 300


def test_cosines_are_of_the_mean_of_question_and_recent_steps(session: Endless) -> None:
    question = session.tools.encoder.encode_query(session.question(9))
    query = question + session.keys[6] + session.keys[7]
    query /= np.linalg.norm(query)
    others = ~np.isin(session.order[:6], session.order[6:8])
    assert others.any()
    np.testing.assert_allclose(session.cosines(9)[others], (session.keys[:6] @ query)[others], atol=1e-5)


def test_steps_of_one_template_are_alike_but_not_the_same(session: Endless) -> None:
    step = next(n for n in range(30, 400) if session.order[n - 2] in session.order[: n - 3])
    again = session.order[: session.old(step)] == session.order[step - 2]
    cosines = session.cosines(step)
    assert cosines[again].max() < 0.95
    assert cosines[again].min() > np.median(cosines)


def test_react_lasts_as_long_as_its_steps_fit(session: Endless) -> None:
    traffic = Traffic(session, rendering=False)
    last = walked(Walk(session, variant("react", 20_000, scope="request", overflow="stop")), traffic)
    sizes = np.cumsum([facts.tokens_full for facts in session.index.facts])
    expected = int(np.searchsorted(sizes, 20_000))
    assert traffic.totals().longevity == last
    assert abs(last - expected) <= 4


@pytest.mark.parametrize("policy", ["mosaic", "pace"])
def test_never_over_the_budget(session: Endless, policy: str) -> None:
    short = replace(session, order=session.order[:120])
    traffic = Traffic(short, rendering=False)
    walked(Walk(short, variant(policy, 4_000, scope="request", layout="ledger", spend=True)), traffic)
    totals = traffic.totals()
    assert (totals.contexts, totals.over, totals.unbuilt) == (120, 0, 0)
    assert totals.curve[-1][1] <= 4_000


def test_which_steps_are_planned() -> None:
    assert list(steps(10)) == list(range(1, 11))
    far = list(steps(EVERY + 1_000))
    assert far[:EVERY] == list(range(1, EVERY + 1))
    assert far[-1] == EVERY + 1_000
    assert all(step % STRIDE == 0 for step in far[EVERY:-1])


def test_a_policy_sees_every_chunk_although_few_steps_are_planned(session: Endless) -> None:
    walk = Walk(session, variant("react", 10**9, scope="request"))
    seen: list[int] = []

    class Watching(type(make_policy("react"))):  # type: ignore[misc]
        def ingest(self, facts: object) -> None:
            seen.append(facts.number)  # type: ignore[attr-defined]

    walk.policy = Watching()
    walk.step(10)
    walk.step(64)
    assert seen == list(range(1, 64))


def test_pages_by_path(tmp_path: Path) -> None:
    assert own_page(1) == own_page(1) != own_page(2)
    (tmp_path / "a.txt").write_text("A page.\x00")
    (tmp_path / "b.md").write_text("Another.")
    assert len(pages(tmp_path, 0)) == 2
    (tmp_path / "pages.jsonl").write_text('{"title": "T", "text": "x"}\n')
    assert pages(tmp_path, 0) == ["T\nx"]
    (tmp_path / "pages.jsonl").write_text('{"title": "T"}\n')
    with pytest.raises(UsageFault, match=r"pages\.jsonl:1: a page needs a text"):
        pages(tmp_path, 0)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(UsageFault, match="no page"):
        pages(empty, 0)

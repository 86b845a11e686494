"""What a view preserves: by hand, its order, and measured on the way into a real store."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.records import Level, View
from memory.summaries.fidelity import fidelity, measured, rare_strings, surviving_share
from tests.memory.sessions import open_memory, page, visit_step

TEXT = "Flight HAT-078 leaves Denver at 10:45. The fare is 444 dollars. the gate is near. Denver again, 12 seats."


def test_rare_strings_are_whole_tokens_weighted_by_their_sentences() -> None:
    rare = rare_strings(TEXT)
    assert set(rare) == {"Flight", "HAT-078", "Denver", "10:45", "The", "444", "12"}
    assert rare["HAT-078"] > rare["Denver"] > 0


def test_share_counts_only_whole_tokens() -> None:
    rare = {"HAT-078": 3.0, "444": 1.0}
    assert surviving_share(rare, "booked HAT-078") == pytest.approx(0.75)
    assert surviving_share(rare, "booked HAT-0781, 4445 dollars") == 0.0
    assert surviving_share({}, "anything") == 1.0


def test_scripts_without_spaces_count_pairs() -> None:
    rare = rare_strings("北京大学成立于1898年。")
    assert {"北京", "大学", "1898"} <= set(rare)
    assert 0 < surviving_share(rare, "北京大学") < 1


def test_a_lost_number_costs_what_the_cosine_does_not_see() -> None:
    kept, lost = "The fare is 444 dollars to Denver", "The fare is some dollars to a town"
    views = [View(1, Level.DETAILED, kept, 9), View(1, Level.BRIEF, lost, 9), View(1, Level.BRIEF, TEXT, 9)]
    found = [view.fidelity for view in measured(views, TEXT, np.array([0.8, 0.8, 0.3]))]
    assert found[0] is not None and found[1] is not None
    assert found[0] > found[1]
    assert found[2] == 1.0


@given(st.floats(-1, 1), st.floats(0, 1), st.floats(0, 1))
def test_in_the_unit_interval_and_monotone_in_the_share(cosine: float, one: float, two: float) -> None:
    low, high = sorted((one, two))
    assert 0.0 <= fidelity(cosine, low) <= fidelity(cosine, high) <= 1.0


@given(st.text(max_size=300), st.text(max_size=200))
def test_any_text_has_a_share(full: str, view: str) -> None:
    rare = rare_strings(full)
    assert all(weight > 0 for weight in rare.values())
    assert 0.0 <= surviving_share(rare, view) <= 1.0
    assert surviving_share(rare, full) == pytest.approx(1.0)


async def test_a_memory_measures_its_views_where_the_policy_asks(tmp_path: Path) -> None:
    async with open_memory(tmp_path / "s.db", policy="mosaic") as memory:
        await memory.ask("what did the bridges cost?")
        for number in range(1, 6):
            await memory.ingest(visit_step(number, page(number)))
        context = await memory.assemble(20_000)
        views = await memory._parts.store.views([1, 2])
    assert context.plan.objective is not None
    assert {view.chunk for view in views} == {1, 2}
    for chunk in (1, 2):
        by_level = {view.level: view.fidelity for view in views if view.chunk == chunk}
        brief, detailed = by_level[Level.BRIEF], by_level[Level.DETAILED]
        assert brief is not None and detailed is not None
        assert 0 < brief < detailed < 1


async def test_other_policies_pay_nothing_for_it(tmp_path: Path) -> None:
    async with open_memory(tmp_path / "s.db", policy="pace") as memory:
        await memory.ask("what did the bridges cost?")
        for number in range(1, 6):
            await memory.ingest(visit_step(number, page(number)))
        await memory.assemble(20_000)
        views = await memory._parts.store.views([1, 2])
    assert views and all(view.fidelity is None for view in views)

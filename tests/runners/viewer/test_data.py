"""What the page is made of: levels over time, and steps decided again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.errors import NotStored
from memory.index.chunks import ChunkIndex
from memory.index.keys import KeyMatrix
from memory.state import SessionState
from memory.stored import Change
from runners.errors import UsageFault
from runners.folders import SessionFolder
from runners.viewer import wire
from runners.viewer.grid import ABSENT, RECENT, Grid, packed
from runners.viewer.recorded import Recorded
from runners.viewer.replan import Replanner, WhatIf
from tests.memory.sessions import open_memory, page, visit_step
from tests.runners.viewer.made import make_session, read


@pytest_asyncio.fixture
async def session(home: Path) -> AsyncIterator[Recorded]:
    store, recorded = await read(SessionFolder(home / "runs" / "plain"))
    async with store:
        yield recorded


@st.composite
def contexts(draw: st.DrawFn) -> list[Change]:
    """Contexts as sessions have them: the old chunks grow, some of them change, every new one has a code."""
    made, old, step = [], 0, 0
    for _ in range(draw(st.integers(1, 140))):
        step += draw(st.integers(1, 3))
        before, old = old, max(old, step - 3)
        moved = set(draw(st.lists(st.integers(1, max(1, before)), max_size=4))) if before else set()
        chunks = np.array(sorted(moved | set(range(before + 1, old + 1))), dtype=np.int64)
        codes = np.array([draw(st.integers(-2, 3)) for _ in chunks], dtype=np.int8)
        made.append(Change(step, old + 1, 100, chunks, codes))
    return made


def straight(changes: list[Change], step: int) -> list[int]:
    """Codes at a step, by walking from the first context."""
    state = SessionState(ChunkIndex(), KeyMatrix(1), "")
    state.replay_all([change for change in changes if change.step <= step])
    old = state.codes.tolist()
    return [old[chunk] if chunk < len(old) else RECENT for chunk in range(step - 1)]


@given(contexts(), st.data())
@settings(max_examples=25, deadline=None)
def test_any_tile_of_the_grid_is_what_walking_gives(changes: list[Change], data: st.DataObject) -> None:
    grid = Grid()
    cut = data.draw(st.integers(0, len(changes)))
    grid.extend(changes[:cut])
    grid.at(data.draw(st.integers(0, 400)))
    grid.extend(changes[max(0, cut - 1) :])
    assert grid.last == changes[-1].step
    first, stride = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 7))
    steps = sorted(data.draw(st.sets(st.integers(1, grid.last + 3), min_size=1, max_size=8)))
    tile = grid.codes(steps, first, stride, 12)
    for row, step in enumerate(steps):
        codes = straight(changes, step)
        chunks = [first + stride * at for at in range(12)]
        assert tile[row].tolist() == [codes[chunk - 1] if chunk < step else ABSENT for chunk in chunks]


def test_packing_keeps_every_change() -> None:
    made = [Change(1, 1, 9, np.zeros(0, np.int64), np.zeros(0, np.int8)), Change(4, 2, 9, np.array([1]), np.array([3]))]
    heads, chunks, codes = packed(made)
    assert heads.tolist() == [[1, 1, 0], [4, 2, 1]] and chunks.tolist() == [1] and codes.tolist() == [3]
    assert packed([])[0].shape == (0, 3)


async def test_the_session_shows_every_level(session: Recorded) -> None:
    tile = session.grid.codes(range(1, session.last + 1), 1, 1, session.last)
    assert {ABSENT, 0, 1, 2, 3, RECENT} <= set(np.unique(tile).tolist())
    assert session.last == 40 and session.status == "completed" and session.policy == "pace"


@pytest.mark.parametrize(
    ("policy", "layout"), [("pace", "interleaved"), ("pace", "ledger"), ("mosaic", "interleaved"), ("pacms", "ledger")]
)
async def test_a_step_decided_again_is_the_recorded_one(tmp_path: Path, policy: str, layout: str) -> None:
    store, recorded = await read(await make_session(tmp_path, "a", steps=18, policy=policy, layout=layout))
    async with store:
        planner = await Replanner.open(recorded)
        steps = sorted(recorded.plans)
        assert len(steps) == 18
        # forwards, then one from the middle: both ways of coming to a step
        for step in [*steps, 9]:
            again = await planner.step(step)
            plan = recorded.plans[step]
            assert again.same, step
            assert again.decision.fitted.unfitted_tokens == plan.unfitted_tokens
            assert again.given.fixed_tokens == plan.fixed_tokens
            assert again.decision.plan.thresholds == plan.thresholds


async def test_another_budget_or_policy_is_obeyed(session: Recorded) -> None:
    planner = await Replanner.open(session)
    plain = await planner.step(40)
    small = await planner.step(40, WhatIf(budget=1_500))
    assert small.decision.fitted.tokens <= 1_500 < plain.decision.fitted.tokens
    assert not small.same and (small.codes > 0).sum() < (plain.codes > 0).sum()
    assert (await planner.step(40, WhatIf(policy="last-k"))).codes.tolist() != plain.codes.tolist()
    strict = await planner.step(40, WhatIf(options={"lambda": 2.0}, spend=False))
    thresholds = plain.decision.plan.thresholds
    assert thresholds and strict.decision.plan.thresholds and strict.decision.plan.thresholds > thresholds
    rolled = await planner.step(40, WhatIf(policy="summary-rolling"))
    assert rolled.decision.fitted.blocks, "a text was made by extraction"
    assert await session.store.blocks() == []
    assert (await planner.step(40)).same


async def test_what_cannot_be_planned_says_so(session: Recorded) -> None:
    planner = await Replanner.open(session)
    for what in (WhatIf(policy="nothing"), WhatIf(options={"tau": -1}), WhatIf(options={"x": 1}), WhatIf(budget=-1)):
        with pytest.raises(UsageFault):
            await planner.step(40, what)
    with pytest.raises(NotStored):
        await planner.step(41)
    session.config, config = None, session.config
    with pytest.raises(UsageFault, match="settings"):
        await Replanner.open(session)
    session.config = config


async def test_rows_and_head(session: Recorded) -> None:
    head = await wire.head(session, live=False)
    assert head["steps"] == head["last"] == 40 and head["budget"] == 2_200
    (answer,) = await session.answers()
    assert [(c.chunk, c.found) for c in answer.citations] == [(19, True), (5, True), (999, False)]
    chunk = (await session.chunks([19]))[0]
    assert answer.citations[0].quote in chunk.step.observations[0].text
    assert [row["step"] for row in wire.rows(session, 38, 99) if isinstance(row, dict)] == [38, 39, 40]


async def test_a_running_session_is_followed(tmp_path: Path) -> None:
    folder = await make_session(tmp_path, "a", steps=3)
    store, recorded = await read(folder)
    async with store, open_memory(folder.store) as memory:
        assert not await recorded.refresh()
        await memory.assemble(2_200)
        assert await recorded.refresh() and recorded.last == 4 and len(recorded.facts) == 3
        (row,) = wire.rows(recorded, 4, 4)
        assert isinstance(row, dict) and "kind" not in row and row["plan"]
        await memory.assemble(1_900)
        await memory.ingest(visit_step(4, page(4)))
        await recorded.refresh()
        assert recorded.plans[4].budget == 1_900
        assert recorded.grid.codes([4], 1, 1, 3).tolist() == [straight(recorded.grid.changes, 4)]

"""Vectors that are no numbers, budgets of nothing and must-keep that cannot be kept, through a real memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from memory.encoders.hashing import HashingEncoder
from memory.errors import BudgetTooSmall, MustKeepTooLarge
from memory.policies.registry import POLICIES
from memory.summaries.config import SummaryConfig
from tests.memory.sessions import open_memory, page, visit_step

NONE = SummaryConfig(kind="off", publish="lockstep")


class Broken(HashingEncoder):
    """Vectors of NaN for every other text, and for queries on request."""

    def __init__(self, *, query: bool) -> None:
        super().__init__(64)
        self._query = query

    def encode_query(self, text: str) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
        row = super().encode_query(text)
        return np.full_like(row, np.nan) if self._query else row

    def encode_documents(self, texts: object) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
        rows = super().encode_documents(texts)  # type: ignore[arg-type]
        rows[::2] = np.nan
        rows[1::2, 0] = np.inf
        return rows


@pytest.mark.parametrize("query", [False, True])
@pytest.mark.parametrize("name", sorted(POLICIES))
async def test_vectors_that_are_no_numbers_are_no_keys(tmp_path: Path, name: str, query: bool) -> None:
    async with open_memory(tmp_path / "s", policy=name, encoder=Broken(query=query), summaries=NONE) as memory:
        await memory.ask("When were the comets counted?")
        for number in range(1, 8):
            context = await memory.assemble(4_000)
            assert context.tokens <= 4_000 and np.isfinite(context.plan.values).all()
            await memory.ingest(visit_step(number, page(number, 12)))
        assert all(one.same for one in await memory.rebuild_all())


@pytest.mark.parametrize("budget", [-1_000, 20])
@pytest.mark.parametrize("name", sorted(POLICIES))
async def test_a_budget_of_nothing_names_the_minimum(tmp_path: Path, name: str, budget: int) -> None:
    """Nothing is half written: the next context is the one that would have been built at once."""
    async with open_memory(tmp_path / "s", policy=name, summaries=NONE) as memory:
        await memory.ask("When were the comets counted?")
        for number in range(1, 5):
            await memory.ingest(visit_step(number, page(number, 12)))
        with pytest.raises(BudgetTooSmall, match=f"budget of {budget} tokens") as caught:
            await memory.assemble(budget)
        assert await memory.rebuild_all() == []
        context = await memory.assemble(caught.value.minimum)
        assert context.step == 5 and context.tokens <= caught.value.minimum


async def test_must_keep_over_the_budget(tmp_path: Path) -> None:
    async with open_memory(
        tmp_path / "s", policy="top-k", options={"must_keep": ["c1", "c2"]}, summaries=NONE
    ) as memory:
        await memory.ask("When were the comets counted?")
        for number in range(1, 6):
            await memory.ingest(visit_step(number, page(number, 12)))
        with pytest.raises(MustKeepTooLarge, match=r"what must be kept \(2 items\)") as caught:
            await memory.assemble(700)
        assert await memory.rebuild_all() == []
        context = await memory.assemble(caught.value.minimum)
        assert page(1, 12) in str(context.messages) and page(2, 12) in str(context.messages)
        assert page(3, 12) not in str(context.messages)

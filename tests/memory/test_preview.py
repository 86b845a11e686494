"""What a question would be shown, without anything of it being remembered."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory.config import MemoryConfig
from memory.policies.registry import make_policy
from memory.store.sqlite import SqliteStore
from tests.memory.sessions import open_memory, page, visit_step

BUDGET = 3_000


async def contexts(path: Path, policy: str, *, asking: bool) -> list[str]:
    """What a session's contexts show, with or without previews in between."""
    found = []
    other = make_policy("last-k")
    async with await SqliteStore.open(path, create=True) as store:
        await store.set_meta({"nonce": "0badcafe"})  # it is drawn at random, and its tokens count
    async with open_memory(path, policy=policy, config=MemoryConfig(budget=BUDGET)) as memory:
        await memory.ask("Which harbours were sold, and when?")
        for number in range(1, 18):
            if asking:
                context = await memory.preview("How much did the comets of Osk cost?", BUDGET)
                assert context.step == number
                assert any("comets of Osk" in message.content for message in context.messages)
                for facts in memory.facts[number - 2 : number - 1] if number > 1 else ():
                    other.ingest(facts)
                await memory.preview("How much did they cost?", BUDGET, other, MemoryConfig(budget=BUDGET))
            found.append((await memory.assemble(BUDGET)).tokens)
            await memory.ingest(visit_step(number, page(number, 12)))
        records = await memory._given.store.plans()
        blocks = len(memory.blocks)
    return [*(f"{record.tokens} {record.changed}" for record in records), f"{blocks} {found}"]


@pytest.mark.parametrize("policy", ["mosaic", "pace", "summary-rolling", "fold-range"])
async def test_a_preview_leaves_no_trace(tmp_path: Path, policy: str) -> None:
    plain = await contexts(tmp_path / "plain.db", policy, asking=False)
    assert await contexts(tmp_path / "asked.db", policy, asking=True) == plain

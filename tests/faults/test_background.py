"""Keys and summaries are made beside the steps: what a stop cuts off is made later, what comes too late is dropped."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memory.config import MemoryConfig
from memory.encoders.hashing import HashingEncoder
from memory.errors import EncoderFault
from memory.store.sqlite import SqliteStore
from memory.summaries.fakes import FakeSummariser
from tests.agent.bench import Bench, Setup, bench
from tests.faults.player import STORE, finish
from tests.faults.script import SCRIPT, Playing, World, steps_of

POLICY = "fold-range"


class Broken(HashingEncoder):
    """An encoder that is away."""

    def encode_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        raise EncoderFault("away")


async def opened(
    folder: Path, summariser: FakeSummariser, encoder: HashingEncoder | None = None
) -> tuple[object, Bench]:
    setup = Setup(
        policy=POLICY, owned=True, summariser=summariser, encoder=encoder, memory=MemoryConfig(key_wait_s=0.01)
    )
    model = Playing()
    tools = [World(name) for name in ("search", "visit", "python")]
    context = bench(folder / STORE, model, tools, setup)  # type: ignore[arg-type]
    b = await context.__aenter__()
    model.store = b.store
    return context, b


async def close(context: object) -> None:
    await context.__aexit__(None, None, None)  # type: ignore[attr-defined]


async def test_what_was_left_undone_is_found_and_made(tmp_path: Path) -> None:
    """A session whose encoder was away and whose summariser hung, to its end; opened again it lacks nothing."""
    context, b = await opened(tmp_path, FakeSummariser(hanging=range(1, 99)), Broken())
    assert (await finish(b)).status == "completed"
    steps = len(await steps_of(b.store))
    assert steps == len(SCRIPT)
    assert await b.store.without_views(before=steps + 1) == list(range(1, steps + 1))
    await close(context)
    again = FakeSummariser()
    context, b = await opened(tmp_path, again)
    await b.memory.drain()
    await b.memory.ask("and then?")
    await b.memory.assemble(8_000)
    assert sorted(again.asked) == list(range(1, steps + 1))
    assert await b.store.without_views(before=steps + 1) == []
    keys = await b.store.keys(HashingEncoder().id)
    assert set(range(1, steps - 1)) <= set(keys.numbers.tolist())
    await close(context)
    context, b = await opened(tmp_path, again)
    await b.memory.drain()
    assert len(again.asked) == steps, "what is made is not made again"
    await close(context)


async def test_what_comes_after_the_session_was_taken_over_is_dropped(tmp_path: Path) -> None:
    late = FakeSummariser(hanging=[1])
    context, b = await opened(tmp_path, late)
    assert (await finish(b)).status == "completed"
    async with await SqliteStore.open(tmp_path / STORE, create=False) as other:
        await other._database.write(lambda c: c.execute("UPDATE owner SET boot = 'an earlier one'"))
        await other.claim("successor")
        late.release.set()
        assert b.memory.pending_summaries > 0
        await asyncio.sleep(0)
        await close(context)
        assert await other.without_views(before=2) == [1]
        assert (await other.owner()) is not None

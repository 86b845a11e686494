"""Searching a session: by words and by meaning, while it grows, and when the encoder cannot help."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from memory.encoders.hashing import HashingEncoder
from memory.errors import EncoderFault
from memory.manager import Memory
from memory.records import Step
from memory.search import MAX_FOUND, Search
from memory.store.sqlite import SqliteStore
from tests.memory.sessions import open_memory


async def keep(memory: Memory, *texts: str) -> None:
    for text in texts:
        await memory.ingest(Step(memory.steps + 1, "turn", thought=text))


class Broken(HashingEncoder):
    def encode_query(self, text: str) -> NDArray[np.float32]:
        raise EncoderFault("no encoder")

    def encode_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        raise EncoderFault("no encoder")


@pytest.mark.parametrize("encoder", [HashingEncoder(), Broken()], ids=["hashing", "broken"])
async def test_the_chunk_that_speaks_to_the_query_comes_first(tmp_path: Path, encoder: HashingEncoder) -> None:
    async with open_memory(tmp_path / "s.sqlite") as memory:
        store = await SqliteStore.open(tmp_path / "s.sqlite", create=False, read_only=True)
        search = Search(store, encoder)
        assert await search.find("harbour") == []
        await keep(
            memory, "The orchard has apples.", "The harbour of Varden cost 2000 crowns. " + "Nothing else. " * 200
        )
        (first, *_) = await search.find("what did the harbour cost?", 3)
        assert first.chunk == 2 and "2000 crowns" in first.passage and len(first.passage) < 700
        await keep(memory, "港口的费用是两千克朗。", "Invoice 4711-B was paid.")
        assert (await search.find("4711-B", 1))[0].chunk == 4
        assert (await search.find("港口", 1))[0].chunk == 3
        with pytest.raises(ValueError, match="empty"):
            await search.find("  ")
        await store.aclose()


async def test_it_gives_no_more_than_it_may(tmp_path: Path) -> None:
    async with open_memory(tmp_path / "s.sqlite") as memory:
        await keep(memory, *(f"lantern {i}" for i in range(60)))
        store = await SqliteStore.open(tmp_path / "s.sqlite", create=False, read_only=True)
        search = Search(store, HashingEncoder())
        assert len(await search.find("lantern", 1000)) == MAX_FOUND
        assert len(await search.find("lantern", 2)) == 2
        await store.aclose()


async def test_a_search_that_is_given_up_spoils_nothing(tmp_path: Path) -> None:
    async with open_memory(tmp_path / "s.sqlite") as memory:
        await keep(memory, *(f"bridge number {i}" for i in range(300)))
        store = await SqliteStore.open(tmp_path / "s.sqlite", create=False, read_only=True)
        search = Search(store, HashingEncoder())
        for _ in range(5):
            given_up = asyncio.create_task(search.find("bridge"))
            await asyncio.sleep(0)
            given_up.cancel()
        found = await search.find("number 299", 1)
        assert [one.chunk for one in found] == [300]
        await store.aclose()

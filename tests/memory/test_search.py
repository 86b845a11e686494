"""Searching a session: by words and by meaning, while it grows, and when the encoder cannot help."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from memory import load
from memory import search as searching
from memory.chunking import full_text, make_chunk
from memory.encoders.hashing import HashingEncoder
from memory.errors import EncoderFault
from memory.index import sketchfile
from memory.manager import Memory
from memory.records import Step
from memory.search import MAX_FOUND, Search
from memory.store.sqlite import SqliteStore
from memory.stored import KeyRows
from memory.tokens import ScriptCounter
from tests.memory.sessions import open_memory, page

ENCODER = HashingEncoder()


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


# -- among very many chunks: sketches say which are looked at (here from 50 on)

QUERIES = ("harbours rebuilt in Osk", "which comets were counted", "violins", "4711", "the royal lanterns of Varden")
OTHER = "The quay of Brannoch was sold for 91 crowns."


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done for very many chunks is done for these; none in the background."""
    monkeypatch.setattr(searching, "SKETCHED_FROM", 50)
    monkeypatch.setattr(searching, "NEAREST", 60)
    monkeypatch.setattr(searching, "WORDIEST", 30)
    monkeypatch.setattr(searching, "RANKED", 20)
    monkeypatch.setattr(searching, "_STRETCH", 16)
    monkeypatch.setattr(load, "WORDS_WORTH", 1)


async def add(store: SqliteStore, *texts: str, keys: bool = True) -> None:
    """Turns, with their keys."""
    first = await store.last_step() + 1
    for number, text in enumerate(texts, start=first):
        await store.commit_step(make_chunk(Step(number, "turn", thought=text), ScriptCounter()))
    if keys:
        numbers = np.arange(first, first + len(texts))
        whole = [full_text(chunk.step) for chunk in await store.chunks(numbers.tolist())]
        await store.add_keys(KeyRows(ENCODER.id, numbers, ENCODER.encode_documents(whole), numbers))


@asynccontextmanager
async def opened(path: Path, turns: int = 0) -> AsyncIterator[SqliteStore]:
    async with await SqliteStore.open(path, create=True) as store:
        await store.claim()
        await add(store, *(page(number, 8) for number in range(turns)))
        yield store


async def settle(search: Search) -> None:
    """Wait for what is made in the background, if anything is."""
    await search.find("anything")
    if search._making is not None:
        await asyncio.wait([search._making])
        await search.find("anything")
    assert search._making is None


async def answers(search: Search) -> list[list[int]]:
    return [[found.chunk for found in await search.find(query, 10)] for query in QUERIES]


def from_all(search: Search) -> list[list[int]]:
    """The same with every chunk scored."""
    return [[row + 1 for row, _ in search._ranked(query, 10, False)] for query in QUERIES]


def alike(some: list[list[int]], every: list[list[int]]) -> bool:
    same = sum(len(set(mine) & set(all_)) for mine, all_ in zip(some, every, strict=True))
    return same == sum(map(len, every)) and [one[:1] for one in some] == [one[:1] for one in every]


async def test_sketches_find_what_scoring_every_chunk_finds(tmp_path: Path, many: None) -> None:
    async with opened(tmp_path / "s.sqlite", 400) as store:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(searching, "_AT_ONCE", 100)
            search = Search(store, ENCODER)
            before = await answers(search)
            assert before == from_all(search), "all are scored while sketches are made"
            await settle(search)
        assert search._sketches is not None and len(search._sketches) == 400
        assert alike(await answers(search), from_all(search))
        await search.aclose()
        assert not store.beside(sketchfile.SUFFIX).exists(), "only the owner writes beside a store"


async def test_a_session_that_grows_is_searched_whole(tmp_path: Path, many: None) -> None:
    """Also when a key comes late, or is not there at all."""
    async with opened(tmp_path / "s.sqlite", 80) as store:
        search = Search(store, ENCODER)
        await settle(search)
        await add(store, OTHER)
        assert (await search.find("quay of Brannoch", 1))[0].chunk == 81
        await add(store, "Invoice 4711-B was paid.", keys=False)
        assert (await search.find("4711-B", 1))[0].chunk == 82
        assert search._sketches is not None and len(search._sketches) == 82
        broken = Search(store, Broken())
        assert (await broken.find("4711-B", 1))[0].chunk == 82
        assert (await broken.find("quay of Brannoch", 1))[0].chunk == 81


async def test_an_owner_puts_down_what_the_next_search_takes_up(tmp_path: Path, many: None) -> None:
    async with opened(tmp_path / "s.sqlite", 120) as store:
        first = Search(store, ENCODER, own=True)
        await settle(first)
        await first.aclose()
        file = store.beside(sketchfile.SUFFIX)
        written = file.stat().st_mtime_ns
        await add(store, OTHER)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(searching, "_AT_ONCE", 1)
            second = Search(store, ENCODER, own=True)
            assert (await second.find("quay of Brannoch", 1))[0].chunk == 121
            assert second._making is None and second._words.thawed < 20, "neither keys nor words were taken apart again"
        assert alike(await answers(second), from_all(second))
        await second.aclose()
        assert file.stat().st_mtime_ns == written, "one key more is not worth a file"


@pytest.mark.parametrize("damage", ["gone", "cut", "bit", "foreign"])
async def test_a_file_that_is_wrong_is_made_again(tmp_path: Path, many: None, damage: str) -> None:
    async with opened(tmp_path / "s.sqlite", 120) as store, opened(tmp_path / "t.sqlite") as other:
        await add(other, *(page(number, 8) for number in range(500, 620)))
        for one in (store, other):
            search = Search(one, ENCODER, own=True)
            await settle(search)
            await search.aclose()
        file = store.beside(sketchfile.SUFFIX)
        held = file.read_bytes()
        if damage == "gone":
            file.unlink()
        elif damage == "foreign":
            file.write_bytes(other.beside(sketchfile.SUFFIX).read_bytes())
        else:
            file.write_bytes(held[:-9] if damage == "cut" else held[:-9] + bytes([held[-9] ^ 1]) + held[-8:])
        search = Search(store, ENCODER, own=True)
        await settle(search)
        assert alike(await answers(search), from_all(search))
        await search.aclose()
        assert file.read_bytes() == held


async def test_closing_ends_what_is_being_made(tmp_path: Path, many: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was made by then is kept, and gone on with."""
    monkeypatch.setattr(searching, "_AT_ONCE", 8)
    async with opened(tmp_path / "s.sqlite", 400) as store:
        search = Search(store, ENCODER, own=True)
        await search.find("comets")
        assert search._making is not None
        await search.aclose()
        assert search._making.done()
        again = Search(store, ENCODER, own=True)
        await settle(again)
        assert alike(await answers(again), from_all(again))
        await again.aclose()


async def test_a_disk_that_is_full_costs_the_file_only(
    tmp_path: Path, many: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(searching, "_AT_ONCE", 8)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(searching, "write_sketches", full)
    async with opened(tmp_path / "s.sqlite", 120) as store:
        search = Search(store, ENCODER, own=True)
        await settle(search)
        assert alike(await answers(search), from_all(search))
        await search.aclose()
    assert "full" in caplog.text

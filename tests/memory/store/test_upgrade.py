"""Stores made by earlier versions: opened, counted, and every context rebuilt to the bytes that were sent."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from memory.chunking import full_text, text_hash
from memory.store.sqlite import SqliteStore
from tests.fixtures import make_store
from tests.memory.sessions import open_memory

STORES = sorted(make_store.HERE.glob("store-v*.sqlite.gz"))


def unpacked(store: Path, folder: Path) -> Path:
    path = folder / "session.sqlite"
    path.write_bytes(gzip.decompress(store.read_bytes()))
    return path


def test_there_is_a_store_of_the_first_schema_and_it_is_small() -> None:
    assert "store-v1.sqlite.gz" in [store.name for store in STORES]
    assert all(store.stat().st_size < 100_000 for store in STORES)


@pytest.mark.parametrize("packed", STORES, ids=lambda store: store.name)
async def test_everything_in_it_is_there(packed: Path, tmp_path: Path) -> None:
    async with await SqliteStore.open(unpacked(packed, tmp_path), create=False) as store:
        last = await store.last_step()
        chunks = await store.chunks(range(1, last + 1))
        keys = await store.keys((await store.plans())[-1].encoder_id)
        assert last == make_store.STEPS
        assert [chunk.step for chunk in chunks] == [make_store.step(number) for number in range(1, last + 1)]
        assert all(text_hash(full_text(chunk.step)) == chunk.content_hash for chunk in chunks)
        assert [question.text for question in await store.questions()] == list(make_store.QUESTIONS)
        assert [record.step for record in await store.plans()] == list(range(1, last + 1))
        assert len({chunk for chunk, *_ in await store.view_tokens()}) == last - 2
        assert keys.matrix.shape == (len(keys.numbers), 256)
        assert last - 3 <= len(keys.numbers) < last
        assert len(await store.usage()) == last + 1
        assert [event.kind for event in await store.events()] == ["working", "ended"]
        intent = await store.pending_intent()
        assert intent is not None
        assert intent.step == make_store.step(last + 1)
        assert await store.meta("made_by") == "make_store"


@pytest.mark.parametrize("packed", STORES, ids=lambda store: store.name)
async def test_its_contexts_are_rebuilt_and_it_goes_on(packed: Path, tmp_path: Path) -> None:
    path = unpacked(packed, tmp_path)
    async with open_memory(path, config=make_store.CONFIG, system=make_store.SYSTEM) as memory:
        again = await memory.rebuild_all()
        assert [one.same for one in again] == [True] * make_store.STEPS
        assert len({code for one in again for code in one.codes.tolist()}) >= 3
        await memory.ingest(make_store.step(make_store.STEPS + 1))
        context = await memory.assemble(make_store.BUDGET)
        assert context.step == make_store.STEPS + 2
        assert all(one.same for one in await memory.rebuild_all())

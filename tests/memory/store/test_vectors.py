"""Nearest keys in the database: the same as by the keys themselves, or nearly; nothing where there is no pgvector."""

from __future__ import annotations

import numpy as np
import pytest

from memory import search
from memory.chunking import make_chunk
from memory.encoders.hashing import HashingEncoder
from memory.search import Search
from memory.store import postgres_vectors
from memory.store.postgres import PostgresStore
from memory.stored import KeyRows
from memory.tokens import ScriptCounter
from tests.memory.sessions import page, visit_step
from tests.memory.store.build import chunk
from tests.support.postgres import Server

DIM, COUNT = 32, 1_200


async def keyed(store: PostgresStore, count: int, seed: int = 0) -> np.ndarray:
    """Chunks with keys that lie in clusters, as those of texts do."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((40, DIM))
    keys = (centres[rng.integers(0, 40, count)] + 0.4 * rng.standard_normal((count, DIM))).astype(np.float32)
    keys /= np.linalg.norm(keys, axis=1, keepdims=True)

    def fill(link):
        from memory.store import writes

        for number in range(1, count + 1):
            writes.commit_step(link, chunk(number), ())

    await store._write(fill)
    numbers = np.arange(1, count + 1)
    await store.add_keys(KeyRows("e", numbers, keys, numbers))
    return keys


async def test_nearest_keys(pgvector: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_vectors, "INDEXED", 1_000)
    database = pgvector.database()
    async with (
        await PostgresStore.open(database.of("a"), create=True) as store,
        await PostgresStore.open(database.of("b"), create=True) as other,
    ):
        keys = await keyed(store, COUNT)
        await keyed(other, 50, seed=9)
        assert (await store.nearest("unknown", keys[0], 5)) is None
        assert (await store.nearest("e", keys[0], 5)) is None
        assert await store.index_keys()
        assert await other.index_keys()
        hits = 0
        for row in range(0, COUNT, 60):
            found = await store.nearest("e", keys[row], 10)
            assert found is not None
            assert found.numbers[0] == row + 1
            cosines = keys @ keys[row]
            assert np.allclose(found.cosines, cosines[found.numbers - 1], atol=1e-5)
            hits += len(set(found.numbers.tolist()) & set((np.argsort(-cosines)[:10] + 1).tolist()))
        assert hits >= 0.95 * 10 * COUNT / 60
        plan = await store._read(explained(store, keys[3]))
        assert f"vectors_{store._database.number}_1" in plan
        few = await other.nearest("e", keys[0], 100)
        assert few is not None
        assert sorted(few.numbers.tolist()) == list(range(1, 51))
        # what came later is found as well, without asking for it
        await other.commit_step(chunk(51))
        await other.add_keys(KeyRows("e", np.array([51]), keys[:1], np.array([51])))
        best = await other.nearest("e", keys[0], 1)
        assert best is not None
        assert best.numbers.tolist() == [51]
        assert await store.verify() is not None
    async with await PostgresStore.open(database.of("b"), create=False, read_only=True) as reader:
        seen = await reader.nearest("e", keys[0], 1)
        assert seen is not None
        assert seen.numbers.tolist() == [51]
    async with await PostgresStore.open(database.of("b"), create=False) as gone:
        await gone.claim("rm")
        await gone.remove()


def explained(store, query):
    """The plan of a search."""

    def read(link):
        link.script("SET LOCAL enable_seqscan = off")
        number, kind = store._database.number, "public.vector"
        rows = link.execute(
            f"EXPLAIN SELECT chunk FROM longstride.vectors WHERE session = {number} AND encoder = 1 ORDER BY"
            f" (embedding::{kind}({DIM})) OPERATOR(public.<=>) '{postgres_vectors.text_of(query)}'::{kind} LIMIT 10"
        ).fetchall()
        return "\n".join(str(row[0]) for row in rows)

    return read


async def test_without_pgvector(postgres: Server) -> None:
    async with await PostgresStore.open(postgres.database().of("a"), create=True) as store:
        if await store._write(postgres_vectors.vector_type) is not None:
            pytest.skip("this server has pgvector")
        keys = await keyed(store, 3)
        assert not await store.index_keys()
        assert await store.nearest("e", keys[0], 2) is None
        assert (await store.keys("e")).matrix.shape == (3, DIM)


async def test_a_search_has_its_candidates_found_there(pgvector: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The best of a long session are the same as when every chunk is scored."""
    encoder = HashingEncoder()
    async with await PostgresStore.open(pgvector.database().of("s"), create=True) as store:
        texts = [page(number) for number in range(1, 121)]
        for number, text in enumerate(texts, 1):
            await store.commit_step(make_chunk(visit_step(number, text), ScriptCounter()))
        numbers = np.arange(1, 121)
        await store.add_keys(KeyRows(encoder.id, numbers, encoder.encode_documents(texts), numbers))
        every = await Search(store, encoder).find("What did the old violins of Osk cost?", 5)
        monkeypatch.setattr(search, "SKETCHED_FROM", 100)
        assert await store.index_keys()
        asked: list[int] = []
        whole = store.nearest

        async def nearest(encoder_id, query, count):
            found = await whole(encoder_id, query, count)
            asked.append(len(found.numbers))
            return found

        monkeypatch.setattr(store, "nearest", nearest)
        assert await Search(store, encoder).find("What did the old violins of Osk cost?", 5) == every
        assert asked == [120]

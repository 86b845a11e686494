"""Opening a session: the short way gives what the long way gives, and what is not to be believed is not."""

from __future__ import annotations

import errno
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given as forall
from hypothesis import settings
from hypothesis import strategies as st

from memory import load
from memory.config import MemoryConfig
from memory.encoders.hashing import HashingEncoder
from memory.index import keyfile
from memory.index.chunks import ChunkIndex
from memory.index.keys import KeyMatrix
from memory.load import KEY_TOKEN, LATEST, load_state, load_words
from memory.manager import Memory
from memory.policies.registry import make_policy
from memory.state import SessionState
from memory.store.sqlite import SqliteStore
from memory.stored import Change, Tombstone
from memory.summaries.config import SummaryConfig
from memory.text.words import tokenize
from runners.config import load_config
from runners.request import ConfigRequest
from tests.memory.sessions import open_memory, page, visit_step

ENCODER = HashingEncoder(32)
LEDGER = MemoryConfig(layout="ledger", batch=4)
BUDGET = 3_000
LEARNED = load_config(ConfigRequest(policy="mosaic")).policy.options.model_dump()


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done for long sessions is done for these."""
    monkeypatch.setattr(load, "WORTH", 1)
    monkeypatch.setattr(load, "WORDS_WORTH", 1)
    monkeypatch.setattr(keyfile, "LEAST_BYTES", 0)


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[Memory]:
    summaries = SummaryConfig(kind="off", publish="lockstep")
    async with open_memory(path, config=LEDGER, encoder=ENCODER, summaries=summaries) as memory:
        if not memory.question:
            await memory.ask("When were the royal comets of Varden counted?")
        yield memory


async def walk(memory: Memory, steps: int) -> str:
    """Take ``steps`` steps; returns the hash of the context after them, which leads to none."""
    for number in range(memory.steps + 1, memory.steps + steps + 1):
        await memory.assemble(BUDGET)
        await memory.ingest(visit_step(number, page(number, 6)))
    await memory._parts.keys.wait_for(range(1, memory.steps + 1), None)  # one that came later would not be in the file
    return (await memory.assemble(BUDGET)).render_hash


async def loaded(path: Path, *, forget: tuple[str, ...] = ()) -> SessionState:
    """The state of the session at ``path``, without what was put down under the keys ``forget``."""
    async with await SqliteStore.open(path, create=False) as store:
        if forget:
            await store.set_meta(dict.fromkeys(forget, ""))
        return await load_state(store, ENCODER, "0badcafe")


def same(one: SessionState, other: SessionState) -> None:
    assert (one.codes == other.codes).all() and (one.since == other.since).all()
    assert (one.step, one.previous_tokens, len(one.keys)) == (other.step, other.previous_tokens, len(other.keys))
    count = len(one.index)
    assert (one.keys.rows(count) == other.keys.rows(count)).all() and (
        one.keys.has(count) == other.keys.has(count)
    ).all()


async def test_short_and_long_way_lead_to_the_same(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    for steps in (24, 3, 0, 9):
        async with opened(path) as memory:
            again = await walk(memory, steps)
        quick = await loaded(path)
        async with opened(path) as memory:
            assert (await memory.assemble(BUDGET)).render_hash == again
        assert quick.keys_in_file > 0
        same(quick, await loaded(path))
        same(quick, await loaded(path, forget=(LATEST, KEY_TOKEN)))
        async with opened(path) as memory:
            assert (await memory.assemble(BUDGET)).render_hash == again
            assert all(context.same for context in await memory.rebuild_all())


async def test_what_came_after_is_added(tmp_path: Path) -> None:
    """A session that was not closed the last time: file and levels are those of the time before."""
    path = tmp_path / "s.db"
    async with opened(path) as memory:
        await walk(memory, 12)
    async with await SqliteStore.open(path, create=False) as store:
        old = {key: await store.meta(key) or "" for key in (LATEST, KEY_TOKEN)}
    file = path.with_name("s.db-keys").read_bytes()
    async with opened(path) as memory:
        await walk(memory, 7)
    path.with_name("s.db-keys").write_bytes(file)
    async with await SqliteStore.open(path, create=False) as store:
        await store.set_meta(old)
    quick = await loaded(path)
    assert 0 < quick.keys_in_file < len(quick.keys)
    same(quick, await loaded(path, forget=(LATEST, KEY_TOKEN)))


@pytest.mark.parametrize("damage", ["gone", "short", "other", "rows", "head"])
async def test_a_file_that_is_not_to_be_believed(tmp_path: Path, damage: str) -> None:
    path, file = tmp_path / "s.db", tmp_path / "s.db-keys"
    async with opened(path) as memory:
        await walk(memory, 12)
    held = bytearray(file.read_bytes())
    if damage == "gone":
        file.unlink()
    elif damage == "short":
        file.write_bytes(held[: keyfile.HEAD + 100])
    elif damage == "other":
        head = json.loads(bytes(held[: keyfile.HEAD])) | {"token": "0123"}
        file.write_bytes(json.dumps(head).encode().ljust(keyfile.HEAD) + held[keyfile.HEAD :])
    elif damage == "rows":
        file.write_bytes(held[: keyfile.HEAD] + bytes(len(held) - keyfile.HEAD))
    else:
        file.write_bytes(b"\xff" + held[1:])
    found = await loaded(path)
    assert found.keys_in_file == 0
    same(found, await loaded(path, forget=(LATEST, KEY_TOKEN)))
    async with opened(path) as memory:
        await walk(memory, 1)
    assert (await loaded(path)).keys_in_file > 0


@pytest.mark.parametrize("text", ["", "{}", '{"step": 5}', "[1]", '{"step": 5, "hash": "", "codes": "?", "since": ""}'])
async def test_levels_that_are_not_to_be_believed(tmp_path: Path, text: str) -> None:
    path = tmp_path / "s.db"
    async with opened(path) as memory:
        await walk(memory, 12)
    good = await loaded(path)
    async with await SqliteStore.open(path, create=False) as store:
        await store.set_meta({LATEST: text})
    same(good, await loaded(path))


async def test_a_key_that_came_late(tmp_path: Path) -> None:
    """It stands in the file only when it has been written there."""
    path = tmp_path / "s.db-keys"
    matrix = np.eye(32, dtype=np.float32)[:20].copy()
    has = np.ones(20, dtype=np.bool_)
    has[[4, 11]] = False
    token = keyfile.write_keys(path, "e", matrix, has, 0)
    mapped = keyfile.map_keys(path, "e", 32, token)
    assert mapped is not None and mapped.missing.tolist() == [5, 12] and len(mapped.numbers()) == 18
    assert len(mapped.matrix) > 20 and (mapped.matrix[:20] == matrix).all()
    keys = KeyMatrix(32)
    keys.adopt(mapped.matrix, mapped.numbers())
    keys.add([5, 12, 21], np.eye(32)[[4, 11, 30]])
    again = keyfile.write_keys(path, "e", keys.rows(21), keys.has(21), 4)
    assert (keyfile.map_keys(path, "e", 32, token), again == token) == (None, False)
    later = keyfile.map_keys(path, "e", 32, again)
    assert later is not None and not len(later.missing) and (later.matrix[:21] == keys.rows(21)).all()
    assert keyfile.map_keys(path, "e", 16, again) is None and keyfile.map_keys(path, "other", 32, again) is None


@forall(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2**32 - 1)), min_size=1, max_size=12))
@settings(deadline=None, max_examples=60)
def test_changes_at_once_and_one_by_one(steps: list[tuple[int, int]]) -> None:
    """Also where the old chunks become fewer: a recent window may grow between two openings."""
    changes, codes = [], np.zeros(0, dtype=np.int8)
    for step, (old, seed) in enumerate(steps, start=1):
        before = np.concatenate((codes[:old], np.full(max(0, old - len(codes)), -9, dtype=np.int8)))
        codes = np.random.default_rng(seed).integers(-2, 4, old).astype(np.int8)
        rows = np.flatnonzero(before != codes)
        changes.append(Change(step, old + 1, 10 * step, rows + 1, codes[rows]))
    one, other = (SessionState(ChunkIndex(), KeyMatrix(1), "") for _ in range(2))
    one.replay_all(changes)
    for change in changes:
        other.replay_all([change])
    assert (one.codes == codes).all() and (other.codes == codes).all() and (one.since == other.since).all()
    assert (one.step, one.previous_tokens) == (other.step, other.previous_tokens)
    for state in (one, other):
        state.rewind(len(steps))
    assert (one.codes == other.codes).all() and one.previous_tokens == other.previous_tokens


async def test_words_that_were_put_down_stand_for_the_texts(tmp_path: Path) -> None:
    """A policy that looks at words finds those of a file as it finds those of the texts; an eviction makes it old."""
    path, off = tmp_path / "s.db", SummaryConfig(kind="off", publish="lockstep")
    terms = tokenize(page(3, 6))
    for steps in (6, 3):
        async with open_memory(path, policy="mosaic", options=LEARNED, encoder=ENCODER, summaries=off) as memory:
            if not memory.question:
                await memory.ask("When were the royal comets of Varden counted?")
            await walk(memory, steps)
            scores = memory._state.lexical.scores(terms, memory.steps)
    async with await SqliteStore.open(path, create=False) as store:
        await store.claim()
        words = await load_words(store, 9)
        assert len(words) == 9 and words.thawed == 0
        assert np.array_equal(words.scores(terms, 9), scores) and scores.any()
        assert len(await load_words(store, 8)) == 0
        (chunk,) = await store.chunks([3])
        kept = chunk.step.observations
        await store.evict([Tombstone(3, "a test", 1.0, 9, chunk.content_hash, kept, 40, chunk.content_hash)])
        assert len(await load_words(store, 9)) == 0


def test_attention_needs_no_words() -> None:
    assert "lexical" not in make_policy("mosaic", {"scorer": "attention"}).needs
    assert "lexical" in make_policy("mosaic", LEARNED).needs


def test_no_half_written_file_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by a disk that is full now nor by a process that was killed earlier."""
    path = tmp_path / "s.db-keys"
    path.with_name("s.db-keys.00ff").write_bytes(b"of a process that was killed")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr("os.fsync", full)
    matrix, has = np.eye(32, dtype=np.float32), np.ones(32, dtype=np.bool_)
    with pytest.raises(OSError, match="full"):
        keyfile.write_keys(path, ENCODER.id, matrix, has, 0)
    assert list(tmp_path.iterdir()) == []

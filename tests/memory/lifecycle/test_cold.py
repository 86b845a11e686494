"""Packs give back what went in, whatever it was."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from memory.store.redacted import copy_redacted
from memory.store.sqlite import SqliteStore
from tests.memory.store import strategies
from tests.memory.store.places import Place
from tests.memory.store.test_roundtrip import few, through


@few
@given(
    st.tuples(*(strategies.chunks(number) for number in range(1, 5))), st.permutations([1, 2, 3, 4]), st.integers(0, 4)
)
def test_any_chunk_in_any_pack(new_place, made, order, cut):
    async def write(store):
        for chunk in made:
            await store.commit_step(chunk)
        for pack in (order[:cut], order[cut:], order):
            await store.pack(pack)

    async def read(store):
        sizes = await store.sizes()
        return await store.chunks([1, 2, 3, 4]), sizes.packed_steps, sizes.observations

    assert through(new_place(), write, read) == (list(made), 4, 0)


@few
@given(strategies.chunks(1), strategies.chunks(2))
def test_a_copy_that_has_nothing_to_hide_is_equal(one, two):
    async def write(store):
        await store.commit_step(one)
        await store.commit_step(two)
        await store.pack([2])

    async def read(store):
        target = store.path.with_name("copy.db")
        changed = await copy_redacted(store, target, lambda text: text)
        async with await SqliteStore.open(target, create=False) as copied:
            return changed, await copied.chunks([1, 2]), await copied.facts() == await store.facts()

    with tempfile.TemporaryDirectory() as folder:
        assert through(Place(Path(folder) / "s.db"), write, read) == (0, [one, two], True)

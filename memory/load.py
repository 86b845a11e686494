"""Opening a session of any length: what its store says, and what was put down beside that when it was last closed.

The latest context's levels are put down in the store as a whole, so that opening does not walk through the changes of
every step, the keys as a file that is mapped, and the words of the texts as another. All are derivatives: one that is
missing, old or not to be believed costs time, nothing else.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import zlib

import numpy as np
from numpy.typing import NDArray

from memory.errors import StoreFault
from memory.index.chunks import ChunkIndex
from memory.index.keyfile import SUFFIX, MappedKeys, is_worth_it, map_keys, write_keys
from memory.index.keys import KeyMatrix, unit_rows
from memory.index.lexical import LexicalIndex
from memory.index.wordfile import SUFFIX as WORDS
from memory.index.wordfile import read_words, write_words
from memory.ports import ChunkStore, Encoder
from memory.state import Latest, SessionState

LATEST, KEY_TOKEN, WORD_TOKEN = "state.latest", "keys.file", "words.file"
"""Keys in the store's ``meta``."""
WORTH = 256
"""Steps from which on the latest context is put down."""
WORDS_WORTH = 200_000
"""New words from which on the index of words is put down: to take so many texts apart again is quick."""
_PROBES = 4
"""Keys of the file that are compared with those of the store."""

log = logging.getLogger(__name__)


async def load_state(store: ChunkStore, encoder: Encoder, nonce: str) -> SessionState:
    """What an open session holds in memory. Raises `StoreFault`."""
    state = SessionState(ChunkIndex(), KeyMatrix(encoder.dim), nonce, await store.questions())
    state.index.extend(await store.facts())
    views = await store.view_tokens()
    if views:
        chunks, levels, tokens, _, measured = zip(*views, strict=True)
        state.index.set_columns(chunks, levels, tokens, measured)
    state.blocks.extend(await store.blocks())
    state.keys_in_file = await load_keys(store, encoder, state.keys)
    latest = await _latest(store)
    if latest is not None:
        state.take(latest)
    state.replay_all(await store.changes(after=state.step))
    return state


async def put_down(store: ChunkStore, encoder_id: str, state: SessionState) -> None:
    """Note what makes the next opening quick. A fault is logged: it loses nothing."""
    try:
        await _put_latest(store, state)
        await _put_keys(store, encoder_id, state)
        await put_words(store, state.lexical)
    except (StoreFault, OSError) as fault:
        log.warning("the next opening will take longer: %s", fault)


async def _latest(store: ChunkStore) -> Latest | None:
    text = await store.meta(LATEST)
    if text is None:
        return None
    try:
        body = json.loads(text)
        codes = np.frombuffer(_unpacked(body["codes"]), dtype=np.int8)
        since = np.cumsum(np.frombuffer(_unpacked(body["since"]), dtype="<i8"))
        latest = Latest(int(body["step"]), codes, since, int(body["tokens"]), None)
        plans = await store.plans(latest.step, latest.step)
        good = [plan.render_hash for plan in plans] == [body["hash"]] and len(codes) == len(since)
        return latest if good and len(codes) == plans[0].recent_from - 1 else None
    except (ValueError, KeyError, TypeError, zlib.error):
        return None


async def _put_latest(store: ChunkStore, state: SessionState) -> None:
    latest = state.settled()
    if latest is None or latest.step < WORTH:
        return
    plans = await store.plans(latest.step, latest.step)
    if not plans:
        return
    body = {
        "step": latest.step,
        "hash": plans[0].render_hash,
        "tokens": latest.previous_tokens,
        "codes": _packed(latest.codes),
        "since": _packed(np.diff(latest.since, prepend=0).astype("<i8")),
    }
    await store.set_meta({LATEST: json.dumps(body)})


def _packed(array: NDArray[np.int8] | NDArray[np.int64]) -> str:
    return base64.b64encode(zlib.compress(array.tobytes(), 1)).decode()


def _unpacked(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text, validate=True))


async def load_keys(store: ChunkStore, encoder: Encoder, keys: KeyMatrix) -> int:
    """Fill ``keys``; returns how many rows, from the first on, a file holds as they are."""
    path, token = store.beside(SUFFIX), await store.meta(KEY_TOKEN)
    mapped = await asyncio.to_thread(map_keys, path, encoder.id, encoder.dim, token) if path and token else None
    stored = await store.key_numbers(encoder.id) if mapped else None
    if mapped is None or stored is None or not await _true(store, encoder.id, mapped, stored):
        rows = await store.keys(encoder.id)
        if len(rows.numbers):
            keys.add(rows.numbers, rows.matrix)
        return 0
    numbers = mapped.numbers()
    keys.adopt(mapped.matrix, numbers)
    later = np.setdiff1d(stored, numbers, assume_unique=True)
    if len(later):
        rows = await store.keys(encoder.id, later.tolist())
        keys.add(rows.numbers, rows.matrix)
    return int(mapped.missing[0]) - 1 if len(mapped.missing) else mapped.rows


async def _true(store: ChunkStore, encoder_id: str, mapped: MappedKeys, stored: NDArray[np.int64]) -> bool:
    """Whether the file holds keys of the store: all of them are there, and some are the same to the bit."""
    numbers = mapped.numbers()
    if not len(numbers) or not np.isin(numbers, stored, assume_unique=True).all():
        return False
    probes = np.unique(numbers[np.linspace(0, len(numbers) - 1, _PROBES).astype(np.int64)])
    rows = await store.keys(encoder_id, probes.tolist())
    return bool(np.array_equal(unit_rows(rows.matrix), mapped.matrix[probes - 1]))


async def _put_keys(store: ChunkStore, encoder_id: str, state: SessionState) -> None:
    path, rows = store.beside(SUFFIX), len(state.index)
    if path is None or not rows or state.keys_in_file == rows:
        return
    matrix, has = state.keys.rows(rows), state.keys.has(rows)
    if not is_worth_it(matrix, has):
        return
    # nothing may believe a file that is being written; and only the owner of the session gets past this
    await store.set_meta({KEY_TOKEN: ""})
    token = await asyncio.to_thread(write_keys, path, encoder_id, matrix, has, state.keys_in_file)
    await store.set_meta({KEY_TOKEN: token})


async def load_words(store: ChunkStore, steps: int) -> LexicalIndex:
    """The index over the texts of the first of ``steps`` chunks: as many as a file holds as they are."""
    path, token = store.beside(WORDS), await store.meta(WORD_TOKEN)
    words = await asyncio.to_thread(read_words, path, token) if path and token else None
    return LexicalIndex(words) if words is not None and len(words.lengths) <= steps else LexicalIndex()


async def put_words(store: ChunkStore, lexical: LexicalIndex) -> None:
    path = store.beside(WORDS)
    if path is None or lexical.thawed < WORDS_WORTH:
        return
    # as with the keys
    await store.set_meta({WORD_TOKEN: ""})
    token = await asyncio.to_thread(lambda: write_words(path, lexical.frozen()))
    await store.set_meta({WORD_TOKEN: token})

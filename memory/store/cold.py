"""Cold text: observations that moved into compressed packs, and those that were evicted and left a tombstone.

A pack holds the observations of many steps, compressed together: pages of one site, or one page read twice, cost
little more than one of them. A step whose observations are packed has an empty cell in ``steps`` (JSON is never empty);
reading it is the same as before, a few milliseconds later.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from memory.errors import NotStored, StoreCorrupt, StoreFault
from memory.records import Level, View
from memory.store import codec
from memory.store.sql import Connection
from memory.stored import Tombstone

CODEC = "zstd"
LEVEL = 9
"""Half the size of level 1 per row (`codec.long_in`), at some 80 MB/s; higher levels gain 2 % at an eighth of that."""
OBSERVATIONS = 4
"""Column of a row of ``steps``."""


def compress(raw: bytes) -> bytes:
    """One pack."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return bytes(zstd.compress(raw, LEVEL))


def decompress(codec_name: str, body: bytes, raw_bytes: int) -> bytes:
    """A pack's bytes. Raises StoreCorrupt."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd

    if codec_name != CODEC:
        raise StoreCorrupt(f"a pack is compressed by {codec_name!r}, which this version does not know")
    try:
        raw = bytes(zstd.decompress(body))
    except zstd.ZstdError as error:
        raise StoreCorrupt(f"a pack of cold text is damaged: {error}", hint="restore the store from a copy") from error
    if len(raw) != raw_bytes:
        raise StoreCorrupt(f"a pack of cold text has {len(raw)} bytes instead of {raw_bytes}")
    return raw


class ColdTexts:
    """Reads packed observations; remembers the pack it read last, since neighbours are mostly in one."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._pack = 0
        self._raw = b""

    def whole(self, step: codec.Row) -> codec.Row:
        """The row of a step with its observations in place."""
        if step[OBSERVATIONS] != "":
            return step
        return (*step[:OBSERVATIONS], self.text(step[0]), *step[OBSERVATIONS + 1 :])

    def text(self, number: int) -> str:
        """Observations of a packed step, as JSON. Raises StoreCorrupt when they are in no pack."""
        row = self._connection.execute("SELECT pack, start, length FROM packed WHERE chunk = ?", (number,)).fetchone()
        if row is None:
            raise StoreCorrupt(f"the observations of c{number} are neither with it nor packed")
        pack, start, length = row
        if pack != self._pack:
            self._raw = _raw(self._connection, pack)
            self._pack = pack
        return self._raw[start : start + length].decode("utf-8", "surrogatepass")


def _raw(connection: Connection, pack: int) -> bytes:
    found = connection.execute("SELECT codec, body, raw_bytes FROM packs WHERE number = ?", (pack,)).fetchone()
    if found is None:
        raise StoreCorrupt(f"pack {pack} of cold text is missing")
    return decompress(*found)


def unpacked(connection: Connection, first: int, last: int) -> list[tuple[int, int]]:
    """(chunk, bytes of its observations as stored) of the steps ``first``-``last`` that are in no pack."""
    rows = connection.execute(
        "SELECT number, LENGTH(CAST(observations AS BLOB)) FROM steps"
        " WHERE number BETWEEN ? AND ? AND observations != '' ORDER BY number",
        (first, last),
    )
    return [(number, size) for number, size in rows]


def pack(connection: Connection, numbers: Sequence[int]) -> int:
    """Move the observations of these steps into one new pack; returns its bytes. What is packed already is left.

    What the pack gives back is compared with what went in before a row changes.
    """
    members = _members(connection, numbers)
    return _write_pack(connection, members) if members else 0


def packed_size(connection: Connection, numbers: Sequence[int]) -> int:
    """Bytes that `pack` would return; writes nothing."""
    members = _members(connection, numbers)
    return len(compress(b"".join(text for _, text in members))) if members else 0


def _members(connection: Connection, numbers: Sequence[int]) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    for number in numbers:
        row = connection.execute("SELECT observations FROM steps WHERE number = ?", (number,)).fetchone()
        if row is None:
            raise NotStored(f"there is no chunk c{number}")
        if row[0] != "":
            found.append((number, codec.text_out(row[0]).encode("utf-8", "surrogatepass")))
    return found


def _write_pack(connection: Connection, members: Sequence[tuple[int, bytes]]) -> int:
    raw = b"".join(text for _, text in members)
    body = compress(raw)
    if decompress(CODEC, body, len(raw)) != raw:
        raise StoreFault("a pack does not give back what went in")
    (number,) = connection.execute("SELECT COALESCE(MAX(number), 0) + 1 FROM packs").fetchone()
    connection.execute("INSERT INTO packs VALUES (?, ?, ?, ?)", (number, CODEC, len(raw), body))
    start = 0
    for chunk, text in members:
        connection.execute("DELETE FROM packed WHERE chunk = ?", (chunk,))
        connection.execute("INSERT INTO packed VALUES (?, ?, ?, ?)", (chunk, number, start, len(text)))
        connection.execute("UPDATE steps SET observations = '' WHERE number = ? AND observations != ''", (chunk,))
        start += len(text)
    return len(body)


def evict(connection: Connection, tombstones: Sequence[Tombstone]) -> None:
    """Replace observations by what their tombstones say, for good; packs that held them are written anew."""
    for stone in tombstones:
        row = connection.execute("SELECT 1 FROM steps WHERE number = ?", (stone.chunk,)).fetchone()
        if row is None:
            raise NotStored(f"there is no chunk c{stone.chunk}")
        connection.execute(
            "INSERT INTO tombstones VALUES (?, ?, ?, ?, ?)",
            (stone.chunk, codec.text_in(stone.rule), stone.evicted, stone.chars, stone.content_hash),
        )
        connection.execute(
            "UPDATE steps SET observations = ? WHERE number = ?", (codec.observations_in(stone.left), stone.chunk)
        )
        connection.execute(
            "UPDATE chunks SET tokens_full = ?, content_hash = ? WHERE number = ?",
            (stone.tokens_full, codec.text_in(stone.left_hash), stone.chunk),
        )
    _drop_from_packs(connection, {stone.chunk for stone in tombstones})
    # an index of words that was put down for them holds what is gone
    connection.execute("DELETE FROM meta WHERE key = 'words.file'")


def _drop_from_packs(connection: Connection, gone: set[int]) -> None:
    packs: dict[int, list[tuple[int, int, int]]] = {}
    for pack_number in {
        row[0]
        for chunk in gone
        for row in connection.execute("SELECT pack FROM packed WHERE chunk = ?", (chunk,)).fetchall()
    }:
        packs[pack_number] = connection.execute(
            "SELECT chunk, start, length FROM packed WHERE pack = ? ORDER BY start", (pack_number,)
        ).fetchall()
    for pack_number, rows in sorted(packs.items()):
        raw = _raw(connection, pack_number)
        stay = [(chunk, raw[start : start + length]) for chunk, start, length in rows if chunk not in gone]
        connection.executemany("DELETE FROM packed WHERE chunk = ?", [(chunk,) for chunk, _, _ in rows])
        connection.execute("DELETE FROM packs WHERE number = ?", (pack_number,))
        if stay:
            _write_pack(connection, stay)


def summary(connection: Connection, chunk: int, level: Level, *, but: str) -> View | None:
    """The newest summary of a chunk at a level that ``but`` did not produce, published or not."""
    row = connection.execute(
        "SELECT chunk, level, version, producer, text, tokens, prompt_hash, published_step, fidelity FROM views"
        " WHERE chunk = ? AND level = ? AND producer != ? ORDER BY version DESC LIMIT 1",
        (chunk, int(level), codec.text_in(but)),
    ).fetchone()
    return None if row is None else codec.view_out(row)


def producers(connection: Connection, level: Level) -> dict[int, tuple[str, int, int]]:
    """chunk -> (producer, version, tokens) of its newest view at a level, published or not."""
    rows = connection.execute(
        "SELECT chunk, producer, version, tokens FROM views WHERE level = ? ORDER BY chunk, version, producer",
        (int(level),),
    )
    return {chunk: (codec.text_out(name), version, tokens) for chunk, name, version, tokens in rows}


def tombstones(connection: Connection) -> list[Tombstone]:
    """Every tombstone, by chunk; ``left`` is with the step itself."""
    rows = connection.execute(
        "SELECT t.chunk, t.rule, t.evicted, t.chars, t.content_hash, c.tokens_full, c.content_hash FROM tombstones t"
        " JOIN chunks c ON c.number = t.chunk ORDER BY t.chunk"
    )
    return [
        Tombstone(chunk, codec.text_out(rule), evicted, chars, codec.text_out(was), (), tokens, codec.text_out(now))
        for chunk, rule, evicted, chars, was, tokens, now in rows
    ]

"""Where the bytes of a store are, and giving back what nothing uses."""

from __future__ import annotations

from pathlib import Path

from memory.store.database import BUSY_TIMEOUT_S
from memory.store.files import connect, translated
from memory.store.sql import Connection
from memory.stored import StoreSizes

_QUERIES = {
    "steps": "SELECT COUNT(*) FROM steps",
    "packed_steps": "SELECT COUNT(*) FROM packed",
    "evicted_steps": "SELECT COUNT(*) FROM tombstones",
    "observations": "SELECT SUM(LENGTH(CAST(observations AS BLOB))) FROM steps",
    "packs": "SELECT SUM(LENGTH(body)) FROM packs",
    "packed_text": "SELECT SUM(raw_bytes) FROM packs",
    "steps_text": "SELECT SUM(LENGTH(CAST(thought AS BLOB)) + LENGTH(CAST(calls AS BLOB)) +"
    " LENGTH(CAST(answer AS BLOB)) + LENGTH(CAST(question AS BLOB))) FROM steps",
    "summaries": "SELECT COALESCE((SELECT SUM(LENGTH(CAST(text AS BLOB))) FROM views), 0) +"
    " COALESCE((SELECT SUM(LENGTH(CAST(text AS BLOB))) FROM blocks), 0)",
    "keys": "SELECT SUM(LENGTH(vector)) FROM keys",
    "plans": "SELECT SUM(LENGTH(changed) + LENGTH(query_key)) FROM plans",
}
_COUNTED = ("observations", "packs", "steps_text", "summaries", "keys", "plans")


def sizes(connection: Connection) -> StoreSizes:
    """Sizes as of one snapshot; reads every row."""
    found = _contents(connection)
    (page,) = connection.execute("PRAGMA page_size").fetchone()
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    other = max(0, (pages - free) * page - sum(found[name] for name in _COUNTED))
    return StoreSizes(**found, other=other, free=free * page, file=pages * page)


def sizes_in_database(connection: Connection) -> StoreSizes:
    """Sizes of a session that shares its database with others: its contents, without what surrounds them."""
    found = _contents(connection)
    return StoreSizes(**found, other=0, free=0, file=sum(found[name] for name in _COUNTED))


def _contents(connection: Connection) -> dict[str, int]:
    return {name: int(connection.execute(query).fetchone()[0] or 0) for name, query in _QUERIES.items()}


def shrink(path: Path) -> int:
    """Give the free pages of a closed store back to the disk (VACUUM: the file is whole before and after, whatever
    happens between); returns the bytes that this freed. Needs as much room again. Raises StoreFault, StoreFull."""
    with translated(path, reading=True):
        connection = connect(path, busy_timeout_s=BUSY_TIMEOUT_S)
        try:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            before = path.stat().st_size
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            connection.close()
    return before - path.stat().st_size

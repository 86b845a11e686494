"""The key cache: vectors by (encoder id, dimensions, SHA-256 of the text), shared by sessions and processes.

Derived data throughout: whatever goes wrong with the file costs time, never a run. A damaged file is set aside and
begun anew; a busy or full one is passed over.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memory.ports import Encoder

_log = logging.getLogger(__name__)
_BUSY_TIMEOUT_S = 1.0
_SLICE = 256
"""Rows of one transaction."""
_USE_GRAIN_S = 3600
"""A row's last use is written again only after this long: reading stays reading."""
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS vectors (key BLOB NOT NULL UNIQUE, used INTEGER NOT NULL, vector BLOB NOT NULL)",
    "CREATE INDEX IF NOT EXISTS vectors_used ON vectors (used)",
)


class KeyCache:
    """A bounded SQLite file of vectors. Thread-safe; blocking, like the encoders it serves.

    ``max_bytes`` bounds the database file; when it is reached, the rows unused for longest make room (a tenth at a
    time).
    """

    def __init__(self, path: Path | str, max_bytes: int = 512 * 1024 * 1024) -> None:
        self.path = Path(path)
        self.max_bytes = max(max_bytes, 64 * 1024)
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._closed = False
        self._complained = False

    def get_many(self, encoder_id: str, dim: int, texts: Sequence[str]) -> list[NDArray[np.float32] | None]:
        """The vector of each text, None where there is none."""
        with self._lock:
            try:
                return self._get(encoder_id, dim, texts)
            except (sqlite3.Error, OSError) as error:
                self._give_way(error)
                return [None] * len(texts)

    def put_many(self, encoder_id: str, dim: int, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Keep the vectors (len(texts), dim) of these texts. Rows that are not finite are left out."""
        if vectors.shape != (len(texts), dim):
            raise ValueError(f"{len(texts)} vectors of {dim} dimensions expected, not {vectors.shape}")
        rows = [
            (_key(encoder_id, dim, text), row.tobytes())
            for text, row in zip(texts, np.ascontiguousarray(vectors, dtype="<f4"), strict=True)
            if np.isfinite(row).all()
        ]
        size = max(1, min(_SLICE, self.max_bytes // 4 // _row_bytes(dim)))
        with self._lock:
            try:
                for start in range(0, len(rows), size):
                    self._put(rows[start : start + size], _row_bytes(dim))
            except (sqlite3.Error, OSError) as error:
                self._give_way(error)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._drop()

    def _get(self, encoder_id: str, dim: int, texts: Sequence[str]) -> list[NDArray[np.float32] | None]:
        connection = self._open()
        if connection is None:
            return [None] * len(texts)
        now = int(time.time())
        stale: list[tuple[int, int]] = []
        found: list[NDArray[np.float32] | None] = []
        for text in texts:
            key = _key(encoder_id, dim, text)
            row = connection.execute("SELECT rowid, used, vector FROM vectors WHERE key = ?", (key,)).fetchone()
            if row is None or len(row[2]) != 4 * dim:
                found.append(None)
                continue
            found.append(np.frombuffer(row[2], dtype="<f4"))
            if abs(now - row[1]) > _USE_GRAIN_S:
                stale.append((now, row[0]))
        if stale:
            # A busy file keeps its old times of use: what was found is found.
            with contextlib.suppress(sqlite3.OperationalError), _transaction(connection):
                connection.executemany("UPDATE vectors SET used = ? WHERE rowid = ?", stale)
        return found

    def _put(self, rows: list[tuple[bytes, bytes]], row_bytes: int) -> None:
        connection = self._open()
        if connection is None or not rows:
            return
        now = int(time.time())
        with _transaction(connection):
            self._make_room(connection, len(rows) * row_bytes)
            connection.executemany(
                "INSERT OR REPLACE INTO vectors (key, used, vector) VALUES (?, ?, ?)",
                [(key, now, vector) for key, vector in rows],
            )

    def _make_room(self, connection: sqlite3.Connection, coming: int) -> None:
        (page_size,) = connection.execute("PRAGMA page_size").fetchone()
        while True:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            (free,) = connection.execute("PRAGMA freelist_count").fetchone()
            if (pages - free) * page_size + coming <= self.max_bytes:
                return
            (count,) = connection.execute("SELECT COUNT(*) FROM vectors").fetchone()
            if not count:
                return
            connection.execute(
                "DELETE FROM vectors WHERE rowid IN (SELECT rowid FROM vectors ORDER BY used, rowid LIMIT ?)",
                (max(1, count // 10),),
            )

    def _open(self) -> sqlite3.Connection | None:
        if self._connection is None and not self._closed:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(
                self.path, isolation_level=None, check_same_thread=False, timeout=_BUSY_TIMEOUT_S
            )
            self._connection = connection
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(f"PRAGMA journal_size_limit = {self.max_bytes // 4}")
            for statement in _SCHEMA:
                connection.execute(statement)
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def _give_way(self, error: sqlite3.Error | OSError) -> None:
        """After a fault: forget the connection; set a file aside that can be no cache."""
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        broken = code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
        level = logging.DEBUG if self._complained and not broken else logging.WARNING
        self._complained = True
        _log.log(level, "key cache %s: %s; %s", self.path, error, "begun anew" if broken else "passed over")
        self._drop()
        if not broken:
            return
        with contextlib.suppress(OSError):
            self.path.replace(self.path.with_name(self.path.name + ".damaged"))
        for suffix in ("-wal", "-shm"):
            with contextlib.suppress(OSError):
                self.path.with_name(self.path.name + suffix).unlink()


class CachedEncoder:
    """An encoder that asks the cache first. Documents only: queries differ at every step and would crowd them out."""

    def __init__(self, inner: Encoder, cache: KeyCache) -> None:
        self.inner = inner
        self.cache = cache
        self.id = inner.id
        self.dim = inner.dim
        self.max_tokens = inner.max_tokens

    def encode_query(self, text: str) -> NDArray[np.float32]:
        return self.inner.encode_query(text)

    def encode_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        found = dict(zip(texts, self.cache.get_many(self.id, self.dim, texts), strict=True))
        fresh = [text for text, vector in found.items() if vector is None]
        if fresh:
            vectors = self.inner.encode_documents(fresh)
            self.cache.put_many(self.id, self.dim, fresh, vectors)
            found.update(zip(fresh, vectors, strict=True))
        result = np.zeros((len(texts), self.dim), dtype=np.float32)
        for position, text in enumerate(texts):
            result[position] = found[text]
        return result


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _row_bytes(dim: int) -> int:
    """Bytes that a row may take in the file: at worst half of its pages stay empty; the rest is for the indexes."""
    return 2 * 4 * dim + 150


def _key(encoder_id: str, dim: int, text: str) -> bytes:
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return hashlib.sha256(json.dumps([encoder_id, dim, digest]).encode()).digest()

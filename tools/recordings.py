"""What was fetched and found, by key: a bounded SQLite file that also records a run and replays it offline."""

from __future__ import annotations

import sqlite3
import threading
from dataclasses import dataclass
from pathlib import Path

_SCHEMA = """
CREATE TABLE IF NOT EXISTS records(
    key TEXT PRIMARY KEY, body TEXT NOT NULL, made REAL NOT NULL, used REAL NOT NULL, size INTEGER NOT NULL
) WITHOUT ROWID
"""


@dataclass(frozen=True, slots=True)
class Recording:
    """``body``: as it was put; ``made``: Unix time, seconds."""

    body: str
    made: float


class Recordings:
    """Texts by key; the least recently used go when ``max_bytes`` is passed. Thread-safe.

    Raises OSError or sqlite3.OperationalError when the file cannot be had; a damaged one is begun anew.
    """

    def __init__(self, file: Path, max_bytes: int = 256_000_000) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self.file = file
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._db = self._open()

    def get(self, key: str, now: float, max_age_s: float | None = None) -> Recording | None:
        """The recording, None when absent or older than ``max_age_s`` seconds (None: any age will do); one from further
        in the future counts as old: the clock was put back."""
        with self._lock:
            row = self._db.execute("SELECT body, made FROM records WHERE key = ?", (key,)).fetchone()
            if row is None or (max_age_s is not None and abs(now - row[1]) > max_age_s):
                return None
            self._db.execute("UPDATE records SET used = ? WHERE key = ?", (now, key))
        return Recording(row[0], row[1])

    def put(self, key: str, body: str, now: float) -> None:
        """Record, replacing an older recording."""
        clean = body.encode("utf-8", "replace").decode()
        with self._lock:
            row = (key, clean, now, now, len(clean.encode()))
            self._db.execute("INSERT OR REPLACE INTO records VALUES(?, ?, ?, ?, ?)", row)
            (total,) = self._db.execute("SELECT sum(size) FROM records").fetchone()
            while total > self._max_bytes:
                oldest, size = self._db.execute("SELECT key, size FROM records ORDER BY used, key LIMIT 1").fetchone()
                self._db.execute("DELETE FROM records WHERE key = ?", (oldest,))
                total -= size

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def _open(self) -> sqlite3.Connection:
        """Open, or begin anew when the file is damaged: it is a cache."""
        try:
            return self._connect()
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:
            for suffix in ("", "-wal", "-shm"):
                self.file.with_name(self.file.name + suffix).unlink(missing_ok=True)
            return self._connect()

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.file, timeout=30, check_same_thread=False, isolation_level=None)
        try:
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=NORMAL")
            db.execute(_SCHEMA)
        except sqlite3.DatabaseError:
            db.close()
            raise
        return db

"""Pages as they were read: a bounded SQLite cache that also records a run and replays it offline."""

from __future__ import annotations

import json
import sqlite3
import threading
from dataclasses import dataclass
from pathlib import Path

FORMAT = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS pages(
    key TEXT PRIMARY KEY, url TEXT NOT NULL, title TEXT NOT NULL, text TEXT NOT NULL, notes TEXT NOT NULL,
    fetched REAL NOT NULL, used REAL NOT NULL, size INTEGER NOT NULL) WITHOUT ROWID
"""


@dataclass(frozen=True, slots=True)
class Document:
    """A page's whole text. ``url``: final; ``fetched``: Unix time, seconds."""

    url: str
    title: str
    text: str
    notes: tuple[str, ...] = ()
    fetched: float = 0.0


class PageCache:
    """Documents by canonical URL; the least recently used go when ``max_bytes`` of text is passed. Thread-safe."""

    def __init__(self, folder: Path, max_bytes: int = 256_000_000) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / f"pages-v{FORMAT}.sqlite"
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._db = self._open()

    def get(self, key: str, now: float, max_age_s: float | None = None) -> Document | None:
        """The document, None when absent or older than ``max_age_s`` seconds (None: any age will do)."""
        with self._lock:
            row = self._db.execute(
                "SELECT url, title, text, notes, fetched FROM pages WHERE key = ?", (key,)
            ).fetchone()
            if row is None or (max_age_s is not None and now - row[4] > max_age_s):
                return None
            self._db.execute("UPDATE pages SET used = ? WHERE key = ?", (now, key))
        return Document(row[0], row[1], row[2], tuple(json.loads(row[3])), row[4])

    def put(self, key: str, document: Document) -> None:
        """Record a document, replacing an older one."""
        text = document.text.encode("utf-8", "replace").decode()
        row = (key, document.url, document.title, text, json.dumps(document.notes), document.fetched, document.fetched)
        with self._lock:
            self._db.execute("INSERT OR REPLACE INTO pages VALUES(?, ?, ?, ?, ?, ?, ?, ?)", (*row, len(text.encode())))
            (total,) = self._db.execute("SELECT sum(size) FROM pages").fetchone()
            while total > self._max_bytes:
                oldest, size = self._db.execute("SELECT key, size FROM pages ORDER BY used, key LIMIT 1").fetchone()
                self._db.execute("DELETE FROM pages WHERE key = ?", (oldest,))
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

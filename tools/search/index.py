"""The index of a local corpus: SQLite FTS5 with BM25, one file in a cache folder, brought up to date when opened.

The index is derived data: a damaged file is deleted and built again, and its name carries the format's version.
Building holds one write transaction, so a second process waits, looks, and finds nothing left to do.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tools.search.base import CorpusFault
from tools.search.sources import BrokenFile, Listing, PageDraft, PageSource, Stamp
from tools.search.terms import index_form, match_expression, query_terms, words

FORMAT = 1
TITLE_WEIGHT = 4.0
CANDIDATES = 60
TITLE_NAMED = 1.4
"""Factor on the score of a page whose whole title stands in the query."""
BUILD_TIMEOUT_S = 120.0

Progress: TypeAlias = Callable[[int, int], None]
"""Called with (files done, files to do)."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS files(
    id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, mtime_ns INTEGER, size INTEGER, note TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS pages(
    id INTEGER PRIMARY KEY, file INTEGER NOT NULL, path TEXT UNIQUE NOT NULL,
    title TEXT NOT NULL, text TEXT NOT NULL, date TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS pages_file ON pages(file);
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(
    title, body, content='', tokenize='porter unicode61 remove_diacritics 2');
"""


@dataclass(frozen=True, slots=True)
class FoundPage:
    """A page of the corpus; ``score`` is BM25 with the title weighted, larger is better (0 when read by path)."""

    path: str
    title: str
    text: str
    date: str
    score: float = 0.0


class CorpusIndex:
    """Opened index of one source. Thread-safe; every method blocks (a query takes a few milliseconds)."""

    def __init__(self, cache: Path, source: PageSource) -> None:
        key = hashlib.sha256(f"{source.kind}\n{source.location}".encode()).hexdigest()[:16]
        try:
            cache.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CorpusFault(f"cannot make the cache folder {cache}: {error.strerror}") from error
        self.file = cache / f"corpus-v{FORMAT}-{source.kind}-{key}.sqlite"
        self._source = source
        self._lock = threading.Lock()
        self._db = self._open()

    def update(self, progress: Progress | None = None) -> None:
        """Index what is new or changed, drop what is gone. Raises CorpusFault when the cache cannot be written."""
        with self._lock:
            try:
                self._update(progress)
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError):
                    raise CorpusFault(f"cannot write the index {self.file}: {error}") from error
                self._db.close()
                _remove(self.file)
                self._db = self._open()
                self._update(progress)

    def search(self, query: str, n: int) -> list[FoundPage]:
        """The ``n`` best pages for the query's words (any may match), best first."""
        terms = query_terms(query)
        if not terms or n < 1:
            return []
        sql = (
            "SELECT p.path, p.title, p.text, p.date, -hits.score FROM "
            "(SELECT rowid AS id, bm25(words, ?, 1.0) AS score FROM words WHERE words MATCH ? ORDER BY score LIMIT ?) "
            "AS hits JOIN pages AS p ON p.id = hits.id"
        )
        with self._lock:
            rows = self._db.execute(sql, (TITLE_WEIGHT, match_expression(terms), max(n, CANDIDATES))).fetchall()
        asked = f" {' '.join(words(query))} "
        found = [
            FoundPage(path, title, text, date, score * _named(title, asked)) for path, title, text, date, score in rows
        ]
        return sorted(found, key=lambda page: (-page.score, page.path))[:n]

    def page(self, path: str) -> FoundPage | None:
        """The page at this path, None when there is none."""
        with self._lock:
            row = self._db.execute("SELECT path, title, text, date FROM pages WHERE path = ?", (path,)).fetchone()
        return FoundPage(*row) if row else None

    def paths(self, limit: int) -> list[tuple[str, str]]:
        """(path, title) of the first pages, by path."""
        with self._lock:
            return self._db.execute("SELECT path, title FROM pages ORDER BY path LIMIT ?", (limit,)).fetchall()

    def __len__(self) -> int:
        with self._lock:
            return int(self._db.execute("SELECT count(*) FROM pages").fetchone()[0])

    def notes(self) -> dict[str, str]:
        """Files that gave no page, or were left out, with the reason."""
        with self._lock:
            return dict(self._db.execute("SELECT name, note FROM files WHERE note != '' ORDER BY name"))

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def _open(self) -> sqlite3.Connection:
        try:
            return self._connect()
        except sqlite3.OperationalError as error:
            if "no such module" in str(error):
                raise CorpusFault("this Python's SQLite lacks FTS5: no local corpus can be searched") from error
            raise CorpusFault(f"cannot open the index {self.file}: {error}") from error
        except sqlite3.DatabaseError:  # damaged: it is derived data
            _remove(self.file)
            return self._connect()

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.file, timeout=BUILD_TIMEOUT_S, check_same_thread=False, isolation_level=None)
        try:
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=NORMAL")
            with _transaction(db):
                for statement in _SCHEMA.split(";"):
                    db.execute(statement)
        except BaseException:
            db.close()
            raise
        return db

    def _update(self, progress: Progress | None) -> None:
        listing = self._source.listing()
        if self._known() == _wanted(listing):
            return
        with _transaction(self._db):
            known, wanted = self._known(), _wanted(listing)
            for name in [name for name, entry in known.items() if wanted.get(name) != entry]:
                self._drop(name)
            due = [name for name, entry in wanted.items() if known.get(name) != entry]
            for done, name in enumerate(due):
                if progress is not None:
                    progress(done, len(due))
                self._add(name, listing)
            if progress is not None:
                progress(len(due), len(due))

    def _known(self) -> dict[str, Stamp | str]:
        rows = self._db.execute("SELECT name, mtime_ns, size, note FROM files")
        return {name: note if mtime is None else Stamp(mtime, size) for name, mtime, size, note in rows}

    def _drop(self, name: str) -> None:
        (file,) = self._db.execute("SELECT id FROM files WHERE name = ?", (name,)).fetchone()
        pages = self._db.execute("SELECT id, title, text FROM pages WHERE file = ?", (file,))
        self._db.executemany(
            "INSERT INTO words(words, rowid, title, body) VALUES('delete', ?, ?, ?)",
            [(number, index_form(title), _body(title, text)) for number, title, text in pages],
        )
        self._db.execute("DELETE FROM pages WHERE file = ?", (file,))
        self._db.execute("DELETE FROM files WHERE id = ?", (file,))

    def _add(self, name: str, listing: Listing) -> None:
        stamp = listing.files.get(name)
        mtime, size = (stamp.mtime_ns, stamp.size) if stamp else (None, None)
        note = listing.skipped.get(name, "") if stamp is None else ""
        insert = "INSERT INTO files(name, mtime_ns, size, note) VALUES(?, ?, ?, ?)"
        file = self._db.execute(insert, (name, mtime, size, note)).lastrowid
        if stamp is None:
            return
        try:
            clashes = sum(not self._add_page(file, draft) for draft in self._source.read(name))
            note = f"{clashes} pages left out: their address was taken" if clashes else ""
        except BrokenFile as error:
            note = str(error)
        if note:
            self._db.execute("UPDATE files SET note = ? WHERE id = ?", (note, file))

    def _add_page(self, file: int | None, draft: PageDraft) -> bool:
        cursor = self._db.execute(
            "INSERT OR IGNORE INTO pages(file, path, title, text, date) VALUES(?, ?, ?, ?, ?)",
            (file, draft.path, draft.title, draft.text, draft.date),
        )
        if cursor.rowcount < 1:
            return False
        self._db.execute(
            "INSERT INTO words(rowid, title, body) VALUES(?, ?, ?)",
            (cursor.lastrowid, index_form(draft.title), _body(draft.title, draft.text)),
        )
        return True


def _wanted(listing: Listing) -> dict[str, Stamp | str]:
    return {**listing.files, **listing.skipped}


def _body(title: str, text: str) -> str:
    return index_form(f"{title}\n{text}")


def _named(title: str, asked: str) -> float:
    plain = " ".join(words(title.split(" (")[0]))
    return TITLE_NAMED if len(plain) > 3 and f" {plain} " in asked else 1.0


def _remove(file: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")

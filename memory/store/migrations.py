"""Numbered schema migrations. Each is applied in one transaction together with its record.

A released migration is never edited; a change of schema is a new number at the end of `MIGRATIONS`.
"""

from __future__ import annotations

import sqlite3
import time
from dataclasses import dataclass

from memory.errors import StoreCorrupt, StoreTooNew

APPLICATION_ID = 0x4C535452
"""``LSTR``: what makes a SQLite file ours (PRAGMA application_id)."""

_M001 = (
    "CREATE TABLE meta (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE owner (
        id INTEGER PRIMARY KEY CHECK (id = 1), token TEXT NOT NULL, label TEXT NOT NULL, pid INTEGER NOT NULL,
        started TEXT NOT NULL, boot TEXT NOT NULL, host TEXT NOT NULL, since REAL NOT NULL)""",
    """CREATE TABLE questions (
        task INTEGER PRIMARY KEY, text TEXT NOT NULL, from_step INTEGER NOT NULL, created REAL NOT NULL)""",
    "CREATE TABLE intents (step INTEGER PRIMARY KEY, body TEXT NOT NULL, created REAL NOT NULL)",
    """CREATE TABLE steps (
        number INTEGER PRIMARY KEY, kind TEXT NOT NULL, thought TEXT NOT NULL, calls TEXT NOT NULL,
        observations TEXT NOT NULL, answer TEXT NOT NULL, question TEXT NOT NULL, task INTEGER NOT NULL,
        created REAL NOT NULL, interrupted INTEGER NOT NULL)""",
    # What planning reads is kept apart from the long texts, so that reading it never touches their pages.
    """CREATE TABLE chunks (
        number INTEGER PRIMARY KEY REFERENCES steps (number), kind TEXT NOT NULL, tools TEXT NOT NULL,
        placeholder TEXT NOT NULL, tokens_full INTEGER NOT NULL, tokens_placeholder INTEGER NOT NULL,
        content_hash TEXT NOT NULL, parents TEXT NOT NULL, source_url TEXT NOT NULL, source_title TEXT NOT NULL)""",
    # The order of insertion is part of the promise; it also shuts out INSERT OR REPLACE.
    """CREATE TRIGGER steps_append BEFORE INSERT ON steps
        WHEN NEW.number IS NOT (SELECT COALESCE(MAX(number), 0) + 1 FROM steps)
        BEGIN SELECT RAISE(ABORT, 'steps are appended in order'); END""",
    """CREATE TRIGGER steps_keep BEFORE UPDATE ON steps
        BEGIN SELECT RAISE(ABORT, 'raw steps are never changed'); END""",
    """CREATE TRIGGER steps_stay BEFORE DELETE ON steps
        BEGIN SELECT RAISE(ABORT, 'raw steps are never deleted'); END""",
    """CREATE TABLE views (
        chunk INTEGER NOT NULL REFERENCES chunks (number), level INTEGER NOT NULL, version INTEGER NOT NULL,
        producer TEXT NOT NULL, text TEXT NOT NULL, tokens INTEGER NOT NULL, prompt_hash TEXT NOT NULL,
        published_step INTEGER, UNIQUE (chunk, level, version, producer))""",
    "CREATE INDEX views_unpublished ON views (chunk, level, version, producer) WHERE published_step IS NULL",
    """CREATE INDEX views_published ON views (chunk, level, version, published_step, producer, tokens)
        WHERE published_step IS NOT NULL""",
    "CREATE TABLE encoders (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, dim INTEGER NOT NULL)",
    """CREATE TABLE keys (
        encoder INTEGER NOT NULL REFERENCES encoders (number), chunk INTEGER NOT NULL REFERENCES chunks (number),
        published INTEGER NOT NULL, vector BLOB NOT NULL, UNIQUE (encoder, chunk))""",
    """CREATE TABLE plans (
        step INTEGER PRIMARY KEY, policy TEXT NOT NULL, budget INTEGER NOT NULL, tokens INTEGER NOT NULL,
        unfitted_tokens INTEGER NOT NULL, fixed_tokens INTEGER NOT NULL, recent_tokens INTEGER NOT NULL,
        recent_from INTEGER NOT NULL, recent_cap INTEGER, previous_tokens INTEGER NOT NULL, pressure REAL,
        thresholds TEXT NOT NULL, changed BLOB NOT NULL, planned_counts TEXT NOT NULL, shown_counts TEXT NOT NULL,
        shown_tokens TEXT NOT NULL, cosine_mean REAL, cosine_spread REAL, query_key BLOB NOT NULL,
        encoder_id TEXT NOT NULL, render_hash TEXT NOT NULL, question INTEGER NOT NULL)""",
    """CREATE TABLE usage (
        id INTEGER PRIMARY KEY, step INTEGER NOT NULL, purpose TEXT NOT NULL, model TEXT NOT NULL,
        input_total INTEGER, cache_read INTEGER, cache_write INTEGER, output INTEGER, reasoning INTEGER, cost REAL)""",
    "CREATE TABLE events (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, created REAL NOT NULL, body TEXT NOT NULL)",
)

_M002 = (
    # Blocks stand for runs of chunks: running summaries and folds. Like raw steps they are appended and kept.
    """CREATE TABLE blocks (
        number INTEGER PRIMARY KEY, first INTEGER NOT NULL, last INTEGER NOT NULL, kind TEXT NOT NULL,
        text TEXT NOT NULL, tokens INTEGER NOT NULL, producer TEXT NOT NULL, published_step INTEGER NOT NULL)""",
    """CREATE TRIGGER blocks_append BEFORE INSERT ON blocks
        WHEN NEW.number IS NOT (SELECT COALESCE(MAX(number), 0) + 1 FROM blocks)
        BEGIN SELECT RAISE(ABORT, 'blocks are appended in order'); END""",
    "ALTER TABLE plans ADD COLUMN ledger_base INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE plans ADD COLUMN blocks TEXT NOT NULL DEFAULT '[]'",
    "ALTER TABLE plans ADD COLUMN prefix_tokens INTEGER",
    "ALTER TABLE views ADD COLUMN fidelity REAL",
    "DROP INDEX views_published",
    """CREATE INDEX views_published ON views (chunk, level, version, published_step, producer, tokens, fidelity)
        WHERE published_step IS NOT NULL""",
)

_M003 = (
    # Cold observations live in packs, compressed together; evicted ones leave a tombstone. Thoughts, actions, answers,
    # summaries and placeholders stay where they are.
    """CREATE TABLE packs (
        number INTEGER PRIMARY KEY, codec TEXT NOT NULL, raw_bytes INTEGER NOT NULL, body BLOB NOT NULL)""",
    """CREATE TABLE packed (
        chunk INTEGER PRIMARY KEY REFERENCES steps (number) ON DELETE CASCADE,
        pack INTEGER NOT NULL REFERENCES packs (number), start INTEGER NOT NULL, length INTEGER NOT NULL)""",
    "CREATE INDEX packed_members ON packed (pack)",
    """CREATE TABLE tombstones (
        chunk INTEGER PRIMARY KEY REFERENCES steps (number) ON DELETE CASCADE, rule TEXT NOT NULL,
        evicted REAL NOT NULL, chars INTEGER NOT NULL, content_hash TEXT NOT NULL)""",
    "DROP TRIGGER steps_keep",
    """CREATE TRIGGER steps_keep BEFORE UPDATE ON steps
        WHEN NEW.number IS NOT OLD.number OR NEW.kind IS NOT OLD.kind OR NEW.thought IS NOT OLD.thought
        OR NEW.calls IS NOT OLD.calls OR NEW.answer IS NOT OLD.answer OR NEW.question IS NOT OLD.question
        OR NEW.task IS NOT OLD.task OR NEW.created IS NOT OLD.created OR NEW.interrupted IS NOT OLD.interrupted
        OR NOT (EXISTS (SELECT 1 FROM tombstones WHERE chunk = OLD.number)
            OR (NEW.observations = '' AND EXISTS (SELECT 1 FROM packed WHERE chunk = OLD.number)))
        BEGIN SELECT RAISE(ABORT, 'raw steps are never changed'); END""",
)


@dataclass(frozen=True, slots=True)
class Migration:
    """One change of schema, as SQL statements without transaction control."""

    number: int
    name: str
    statements: tuple[str, ...]


MIGRATIONS: tuple[Migration, ...] = (
    Migration(1, "first schema", _M001),
    Migration(2, "blocks, ledger layout, fidelity of views", _M002),
    Migration(3, "packs of cold text, tombstones", _M003),
)


def applied(connection: sqlite3.Connection) -> int:
    """Number of the last migration in a store, 0 in a database without tables.

    Raises StoreCorrupt when the file is a database, but not ours.
    """
    tables = {str(row[0]) for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    if not tables and application_id == 0:
        return 0
    if application_id != APPLICATION_ID or "migrations" not in tables:
        raise StoreCorrupt("the file is a database, but not a longstride session store")
    (number,) = connection.execute("SELECT COALESCE(MAX(number), 0) FROM migrations").fetchone()
    return int(number)


def pending(connection: sqlite3.Connection, known: tuple[Migration, ...] = MIGRATIONS) -> list[Migration]:
    """The migrations that a store still lacks, in order. Raises StoreTooNew, StoreCorrupt."""
    have = applied(connection)
    newest = known[-1].number
    if have > newest:
        raise StoreTooNew(
            f"the store has schema {have}; this version of longstride knows schemas up to {newest}",
            hint="open it with the longstride version that wrote it, or a later one",
        )
    return [migration for migration in known if migration.number > have]


def migrate(connection: sqlite3.Connection, known: tuple[Migration, ...] = MIGRATIONS) -> list[int]:
    """Apply what is pending; returns the numbers applied. A crash leaves the store at a whole migration."""
    done: list[int] = []
    for migration in pending(connection, known):
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Another process may have migrated while this one waited for the lock.
            if migration.number > applied(connection):
                _apply(connection, migration)
                done.append(migration.number)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    return done


def _apply(connection: sqlite3.Connection, migration: Migration) -> None:
    if migration.number == 1:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(
            "CREATE TABLE migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied REAL NOT NULL)"
        )
    for statement in migration.statements:
        connection.execute(statement)
    connection.execute("INSERT INTO migrations VALUES (?, ?, ?)", (migration.number, migration.name, time.time()))

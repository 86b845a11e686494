"""The writing half of the store's SQL: functions of a connection, each run inside one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from memory.errors import StoreFault
from memory.plan import Block
from memory.records import Chunk, View
from memory.store import codec, reads
from memory.stored import Event, Intent, KeyRows, PlanRecord, Question, UsageRow


def set_meta(connection: sqlite3.Connection, values: Mapping[str, str]) -> None:
    connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", codec.meta_in(values))


def add_question(connection: sqlite3.Connection, question: Question) -> None:
    connection.execute("INSERT INTO questions VALUES (?, ?, ?, ?)", codec.question_in(question))


def begin_step(connection: sqlite3.Connection, intent: Intent) -> None:
    _expect_next(connection, intent.step.number)
    connection.execute(
        "INSERT OR REPLACE INTO intents VALUES (?, ?, ?)",
        (intent.step.number, codec.intent_in(intent.step), intent.created),
    )


def commit_step(connection: sqlite3.Connection, chunk: Chunk, usage: Sequence[UsageRow]) -> None:
    _expect_next(connection, chunk.step.number)
    _insert(connection, "steps", codec.step_in(chunk.step))
    _insert(connection, "chunks", codec.chunk_in(chunk))
    add_usage(connection, usage)
    connection.execute("DELETE FROM intents WHERE step <= ?", (chunk.step.number,))


def add_views(connection: sqlite3.Connection, views: Iterable[View]) -> None:
    connection.executemany(
        "INSERT INTO views (chunk, level, version, producer, text, tokens, prompt_hash, published_step,"
        " fidelity) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (chunk, level, version, producer) DO UPDATE SET"
        " text = excluded.text, tokens = excluded.tokens, prompt_hash = excluded.prompt_hash,"
        " published_step = excluded.published_step, fidelity = excluded.fidelity WHERE views.published_step IS NULL",
        [codec.view_in(view) for view in views],
    )


def publish_views(connection: sqlite3.Connection, step: int, up_to_chunk: int | None) -> list[View]:
    # Named, because the planner would walk every view in order to sort a handful.
    table = "views INDEXED BY views_unpublished"
    rows = connection.execute(
        f"SELECT chunk, level, version, producer, text, tokens, prompt_hash, ?1, fidelity FROM {table}"
        " WHERE published_step IS NULL AND (?2 IS NULL OR chunk <= ?2) ORDER BY chunk, level, version, producer",
        (step, up_to_chunk),
    ).fetchall()
    connection.execute(
        f"UPDATE {table} SET published_step = ?1 WHERE published_step IS NULL AND (?2 IS NULL OR chunk <= ?2)",
        (step, up_to_chunk),
    )
    return [codec.view_out(row) for row in rows]


def add_keys(connection: sqlite3.Connection, rows: KeyRows) -> None:
    count, dim = rows.matrix.shape
    if not len(rows.numbers) == len(rows.published) == count:
        raise StoreFault("numbers, published and matrix of keys differ in length")
    if not count:
        return
    name = codec.text_in(rows.encoder_id)
    connection.execute("INSERT INTO encoders (id, dim) VALUES (?, ?) ON CONFLICT (id) DO NOTHING", (name, dim))
    encoder, known = connection.execute("SELECT number, dim FROM encoders WHERE id = ?", (name,)).fetchone()
    if known != dim:
        raise StoreFault(f"encoder {rows.encoder_id} gave keys of {known} dimensions before, {dim} now")
    matrix = np.ascontiguousarray(rows.matrix, dtype="<f4")
    connection.executemany(
        "INSERT INTO keys VALUES (?, ?, ?, ?) ON CONFLICT (encoder, chunk) DO NOTHING",
        (
            (encoder, number, published, row.tobytes())
            for number, published, row in zip(rows.numbers.tolist(), rows.published.tolist(), matrix, strict=True)
        ),
    )


def add_plan(connection: sqlite3.Connection, record: PlanRecord) -> None:
    # A step may be planned again until it is committed (a smaller window, a resume); its last plan is what was sent.
    if record.step <= reads.last_step(connection):
        _insert(connection, "plans", codec.plan_in(record))
    else:
        _insert(connection, "plans", codec.plan_in(record), verb="INSERT OR REPLACE")


def add_block(connection: sqlite3.Connection, block: Block) -> None:
    _insert(connection, "blocks", codec.block_in(block))


def add_usage(connection: sqlite3.Connection, rows: Iterable[UsageRow]) -> None:
    connection.executemany(
        "INSERT INTO usage (step, purpose, model, input_total, cache_read, cache_write, output, reasoning, cost)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [codec.usage_in(row) for row in rows],
    )


def add_event(connection: sqlite3.Connection, event: Event) -> None:
    connection.execute("INSERT INTO events (kind, created, body) VALUES (?, ?, ?)", codec.event_in(event))


def _expect_next(connection: sqlite3.Connection, number: int) -> None:
    last = reads.last_step(connection)
    if number != last + 1:
        raise StoreFault(f"step {number} cannot follow step {last}: the next one is {last + 1}")


def _insert(connection: sqlite3.Connection, table: str, cells: tuple[codec.Cell, ...], verb: str = "INSERT") -> None:
    connection.execute(f"{verb} INTO {table} VALUES ({', '.join('?' * len(cells))})", cells)

"""The writing half of the store's SQL: functions of a connection, each run inside one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from memory.errors import StoreFault
from memory.plan import Block
from memory.records import Chunk, View
from memory.store import codec, reads
from memory.store.sql import LARGEST, Connection
from memory.stored import Event, Intent, KeyRows, PlanRecord, Question, UsageRow


class Encoder(NamedTuple):
    """An encoder whose keys are stored: its number, and the dimension of the keys."""

    number: int
    dim: int


_PUBLISHED = 7
"""Column of a row of ``views``."""


def set_meta(connection: Connection, values: Mapping[str, str]) -> None:
    rows = codec.meta_in(values)
    connection.executemany("DELETE FROM meta WHERE key = ?", [row[:1] for row in rows])
    connection.executemany("INSERT INTO meta VALUES (?, ?)", rows)


def add_question(connection: Connection, question: Question) -> None:
    connection.execute("INSERT INTO questions VALUES (?, ?, ?, ?)", codec.question_in(question))


def begin_step(connection: Connection, intent: Intent) -> None:
    connection.execute("DELETE FROM intents WHERE step = ?", (intent.step.number,))
    _insert(connection, "intents", (intent.step.number, codec.intent_in(intent.step), intent.created))


def commit_step(connection: Connection, chunk: Chunk, usage: Sequence[UsageRow]) -> None:
    _insert(connection, "steps", codec.step_in(chunk.step))
    _insert(connection, "chunks", codec.chunk_in(chunk))
    add_usage(connection, usage)
    connection.execute("DELETE FROM intents WHERE step <= ?", (chunk.step.number,))


def add_views(connection: Connection, views: Iterable[View]) -> None:
    # One that is not published gives way to a newer one; one that is stays as it was shown.
    rows: dict[tuple[codec.Cell, ...], tuple[codec.Cell, ...]] = {}
    for view in views:
        row = codec.view_in(view)
        if row[:4] not in rows or rows[row[:4]][_PUBLISHED] is None:
            rows[row[:4]] = row
    connection.executemany(
        "DELETE FROM views WHERE chunk = ? AND level = ? AND version = ? AND producer = ? AND published_step IS NULL",
        list(rows),
    )
    connection.executemany(
        "INSERT INTO views (chunk, level, version, producer, text, tokens, prompt_hash, published_step,"
        " fidelity) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        list(rows.values()),
    )


def publish_views(connection: Connection, step: int, up_to_chunk: int | None) -> list[View]:
    # Named, because the planner would walk every view in order to sort a handful.
    table, last = "views INDEXED BY views_unpublished", LARGEST if up_to_chunk is None else up_to_chunk
    rows = connection.execute(
        f"SELECT chunk, level, version, producer, text, tokens, prompt_hash, ?, fidelity FROM {table}"
        " WHERE published_step IS NULL AND chunk <= ? ORDER BY chunk, level, version, producer",
        (step, last),
    ).fetchall()
    connection.execute(
        f"UPDATE {table} SET published_step = ? WHERE published_step IS NULL AND chunk <= ?", (step, last)
    )
    return [codec.view_out(row) for row in rows]


def add_keys(connection: Connection, rows: KeyRows, known: Encoder | None = None) -> Encoder | None:
    """``known``: what was returned for this encoder before; asked for otherwise."""
    count, dim = rows.matrix.shape
    if not len(rows.numbers) == len(rows.published) == count:
        raise StoreFault("numbers, published and matrix of keys differ in length")
    if not count:
        return known
    name = codec.text_in(rows.encoder_id)
    select = "SELECT number, dim FROM encoders WHERE id = ?"
    found = known or connection.execute(select, (name,)).fetchone() or (_new_encoder(connection, name, dim), dim)
    encoder, before = found
    if before != dim:
        raise StoreFault(f"encoder {rows.encoder_id} gave keys of {before} dimensions before, {dim} now")
    matrix = np.ascontiguousarray(rows.matrix, dtype="<f4")
    connection.executemany(
        "INSERT INTO keys VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (
            (encoder, number, published, row.tobytes())
            for number, published, row in zip(rows.numbers.tolist(), rows.published.tolist(), matrix, strict=True)
        ),
    )
    return Encoder(encoder, before)


def add_plan(connection: Connection, record: PlanRecord) -> None:
    # A step may be planned again until it is committed (a smaller window, a resume); its last plan is what was sent.
    if record.step > reads.last_step(connection):
        connection.execute("DELETE FROM plans WHERE step = ?", (record.step,))
    _insert(connection, "plans", codec.plan_in(record))


def add_block(connection: Connection, block: Block) -> None:
    _insert(connection, "blocks", codec.block_in(block))


def add_usage(connection: Connection, rows: Iterable[UsageRow]) -> None:
    connection.executemany(
        "INSERT INTO usage (step, purpose, model, input_total, cache_read, cache_write, output, reasoning, cost)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [codec.usage_in(row) for row in rows],
    )


def add_event(connection: Connection, event: Event) -> None:
    connection.execute("INSERT INTO events (kind, created, body) VALUES (?, ?, ?)", codec.event_in(event))


def expect_next(connection: Connection, number: int) -> None:
    """Raises StoreFault unless ``number`` is that of the next step."""
    last = reads.last_step(connection)
    if number != last + 1:
        raise StoreFault(f"step {number} cannot follow step {last}: the next one is {last + 1}")


def _new_encoder(connection: Connection, name: codec.Cell, dim: int) -> int:
    (number,) = connection.execute("SELECT COALESCE(MAX(number), 0) + 1 FROM encoders").fetchone()
    _insert(connection, "encoders", (number, name, dim))
    return int(number)


def _insert(connection: Connection, table: str, cells: tuple[codec.Cell, ...]) -> None:
    connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(cells))})", cells)

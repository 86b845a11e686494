"""The reading half of the store's SQL: functions of a connection, each run inside one snapshot."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from memory.errors import NotStored
from memory.plan import Block, IntArray
from memory.records import Chunk, Level, View
from memory.store import codec
from memory.store.cold import ColdTexts
from memory.store.sql import AMONG, LARGEST, Connection, Numbers
from memory.stored import Change, ChunkFacts, Event, Intent, KeyRows, PlanRecord, Question, UsageRow

_STEP = "s.number, s.kind, s.thought, s.calls, s.observations, s.answer, s.question, s.task, s.created, s.interrupted"
_CHUNK = "c.placeholder, c.tokens_full, c.tokens_placeholder, c.content_hash, c.parents"
_VIEW = "chunk, level, version, producer, text, tokens, prompt_hash, published_step, fidelity"
_STEP_COLUMNS = 10
_AT_ONCE = 64
"""Chunks asked for before the first is read: on a server that is one round trip for all."""


def meta(connection: Connection, key: str) -> str | None:
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (codec.text_in(key),)).fetchone()
    return None if row is None else codec.text_out(row[0])


def questions(connection: Connection) -> list[Question]:
    rows = connection.execute("SELECT task, text, from_step, created FROM questions ORDER BY task")
    return [codec.question_out(row) for row in rows]


def pending_intent(connection: Connection) -> Intent | None:
    row = connection.execute("SELECT body, created FROM intents ORDER BY step DESC LIMIT 1").fetchone()
    return None if row is None else Intent(step=codec.intent_out(row[0]), created=row[1])


def last_step(connection: Connection) -> int:
    (number,) = connection.execute("SELECT COALESCE(MAX(number), 0) FROM steps").fetchone()
    return int(number)


def chunks(connection: Connection, numbers: Sequence[int]) -> list[Chunk]:
    found: dict[int, Chunk] = {}
    texts = ColdTexts(connection)
    statement = f"SELECT {_STEP}, {_CHUNK} FROM steps s JOIN chunks c USING (number) WHERE s.number = ?"
    wanted = list(dict.fromkeys(map(int, numbers)))
    for first in range(0, len(wanted), _AT_ONCE):
        part = wanted[first : first + _AT_ONCE]
        asked = [connection.execute(statement, (number,)) if 0 < number <= LARGEST else None for number in part]
        for number, rows in zip(part, asked, strict=True):
            row = None if rows is None else rows.fetchone()
            if row is None:
                raise NotStored(f"there is no chunk c{number}")
            found[number] = codec.chunk_out(texts.whole(row[:_STEP_COLUMNS]), row[_STEP_COLUMNS:])
    return [found[int(number)] for number in numbers]


def facts(connection: Connection, after: int, last: int | None) -> list[ChunkFacts]:
    rows = connection.execute(
        "SELECT number, kind, tools, placeholder, tokens_full, tokens_placeholder, content_hash, source_url,"
        " source_title FROM chunks WHERE number > ? AND number <= ? ORDER BY number",
        (after, LARGEST if last is None else last),
    )
    return [codec.facts_out(row) for row in rows]


def facts_at(connection: Connection, numbers: Sequence[int]) -> list[ChunkFacts]:
    rows = connection.execute(
        "SELECT number, kind, tools, placeholder, tokens_full, tokens_placeholder, content_hash, source_url,"
        f" source_title FROM chunks WHERE number {AMONG} ORDER BY number",
        (Numbers(numbers),),
    )
    return [codec.facts_out(row) for row in rows]


def views(connection: Connection, numbers: Sequence[int], at_step: int | None) -> list[View]:
    # Rows come oldest first within (chunk, level), so the newest visible one is left in the dict.
    rows = connection.execute(
        f"SELECT {_VIEW} FROM views WHERE chunk {AMONG} AND published_step IS NOT NULL AND published_step <= ?"
        " ORDER BY chunk, level, version, published_step, producer",
        (Numbers(numbers), LARGEST if at_step is None else at_step),
    )
    newest = {(row[0], row[1]): row for row in rows}
    return [codec.view_out(row) for row in newest.values()]


def view_tokens(connection: Connection) -> list[tuple[int, Level, int, int, float | None]]:
    rows = connection.execute(
        "SELECT chunk, level, tokens, published_step, fidelity FROM views WHERE published_step IS NOT NULL"
        " ORDER BY chunk, level, version, published_step, producer"
    )
    levels = {int(level): level for level in Level}
    return [(chunk, levels[level], tokens, step, fidelity) for chunk, level, tokens, step, fidelity in rows]


def without_views(connection: Connection, before: int) -> list[int]:
    rows = connection.execute(
        "SELECT number FROM chunks WHERE number < ?"
        " AND NOT EXISTS (SELECT 1 FROM views WHERE views.chunk = chunks.number) ORDER BY number",
        (before,),
    )
    return [row[0] for row in rows]


def key_numbers(connection: Connection, encoder_id: str) -> IntArray:
    rows = connection.execute(
        "SELECT chunk FROM keys WHERE encoder = (SELECT number FROM encoders WHERE id = ?) ORDER BY chunk",
        (codec.text_in(encoder_id),),
    )
    return np.array([row[0] for row in rows], dtype=np.int64)


def keys(connection: Connection, encoder_id: str, only: Sequence[int] | None = None) -> KeyRows:
    row = connection.execute("SELECT number, dim FROM encoders WHERE id = ?", (codec.text_in(encoder_id),)).fetchone()
    encoder, dim = row or (0, 0)
    some = "" if only is None else f" AND chunk {AMONG}"
    wanted = () if only is None else (Numbers(only),)
    found = connection.execute(
        f"SELECT chunk, published, vector FROM keys WHERE encoder = ?{some} ORDER BY chunk", (encoder, *wanted)
    ).fetchall()
    numbers = np.fromiter((item[0] for item in found), dtype=np.int64, count=len(found))
    published = np.fromiter((item[1] for item in found), dtype=np.int64, count=len(found))
    matrix = np.frombuffer(bytearray().join(item[2] for item in found), dtype="<f4").reshape(len(found), dim)
    return KeyRows(encoder_id=encoder_id, numbers=numbers, matrix=matrix, published=published)


def plans(connection: Connection, first: int, last: int | None) -> list[PlanRecord]:
    rows = connection.execute(
        "SELECT * FROM plans WHERE step >= ? AND step <= ? ORDER BY step", (first, LARGEST if last is None else last)
    )
    return [codec.plan_out(row) for row in rows]


def changes(connection: Connection, after: int) -> list[Change]:
    rows = connection.execute(
        "SELECT step, recent_from, tokens, changed FROM plans WHERE step > ? ORDER BY step", (after,)
    )
    return [codec.change_out(row) for row in rows]


def blocks(connection: Connection) -> list[Block]:
    return [codec.block_out(row) for row in connection.execute("SELECT * FROM blocks ORDER BY number")]


def usage(connection: Connection) -> list[UsageRow]:
    rows = connection.execute(
        "SELECT step, purpose, model, input_total, cache_read, cache_write, output, reasoning, cost"
        " FROM usage ORDER BY id"
    )
    return [codec.usage_out(row) for row in rows]


def events(connection: Connection) -> list[Event]:
    return [codec.event_out(row) for row in connection.execute("SELECT kind, created, body FROM events ORDER BY id")]

"""The invariants of a store, checked from the outside: what a crash, a bug or a disk may have broken.

A whole store passes; every problem is one line. Reading only; texts are read page by page.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

from memory.chunking import full_text, text_hash
from memory.errors import MemoryFault
from memory.records import Chunk, Step
from memory.store import codec, reads
from memory.store.check import Checking, watched
from memory.store.sql import Connection
from memory.stored import PlanRecord

PAGE = 256
"""Steps read at once."""
SHOWN = 5
"""Problems of one kind that are reported."""
Problems: TypeAlias = Iterator[str]


@dataclass(frozen=True, slots=True)
class Finding:
    """One invariant: whether it holds, what was counted, and the first problems found."""

    name: str
    detail: str
    problems: tuple[str, ...] = ()


def verify(connection: Connection, checking: Checking | None = None) -> list[Finding]:
    """Every invariant of the store behind ``connection``, on one snapshot. Nothing is raised for what is broken."""
    last = _number(connection, "SELECT COALESCE(MAX(number), 0) FROM steps")
    wanted: tuple[tuple[str, str, Callable[[], Problems]], ...] = (
        ("steps", f"{last} steps, one chunk each", lambda: _steps(connection, last)),
        ("texts", "texts against their hashes, calls against observations", lambda: _texts(connection, last)),
        ("step under way", _under_way(connection), lambda: _intents(connection, last)),
        ("questions", _count(connection, "questions"), lambda: _questions(connection, last)),
        ("summaries", _count(connection, "views"), lambda: _views(connection, last)),
        ("keys", _count(connection, "keys"), lambda: _keys(connection)),
        ("blocks", _count(connection, "blocks"), lambda: _blocks(connection, last)),
        ("plans", _count(connection, "plans"), lambda: _plans(connection, last)),
        ("usage", _count(connection, "usage"), lambda: _usage(connection, last)),
    )
    if isinstance(connection, sqlite3.Connection):  # a server looks after its own pages and references
        file = connection
        pages = ("pages", "every page and index of the file", lambda: _pages(file, checking))
        wanted = (pages, ("references", "rows that refer to others", lambda: _references(file)), *wanted)
    return [Finding(name, detail, _first(problems)) for name, detail, problems in wanted]


def _first(problems: Callable[[], Problems]) -> tuple[str, ...]:
    try:
        return tuple(islice(problems(), SHOWN))
    except (sqlite3.DatabaseError, MemoryFault, ValueError, TypeError, IndexError, zlib.error) as fault:
        return (f"cannot be read: {fault}",)


def _number(connection: Connection, statement: str) -> int:
    (number,) = connection.execute(statement).fetchone()
    return int(number)


def _count(connection: Connection, table: str) -> str:
    return str(_number(connection, f"SELECT COUNT(*) FROM {table}"))


def _pages(connection: sqlite3.Connection, checking: Checking | None) -> Problems:
    with watched(connection, checking):
        found = [str(row[0]) for row in connection.execute(f"PRAGMA integrity_check({SHOWN})")]
    yield from [] if found == ["ok"] else found


def _references(connection: sqlite3.Connection) -> Problems:
    for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check"):
        yield f"row {row} of {table} refers to nothing in {parent}"


def _steps(connection: Connection, last: int) -> Problems:
    count = _number(connection, "SELECT COUNT(*) FROM steps")
    if count != last:
        yield f"the last step is {last}, but there are {count}"
    for number, kind, of_chunk in connection.execute(
        "SELECT s.number, s.kind, c.kind FROM steps s LEFT JOIN chunks c USING (number)"
        " WHERE s.number < 1 OR c.number IS NULL OR c.kind != s.kind"
    ):
        yield f"step {number} ({kind}) has " + ("no chunk" if of_chunk is None else f"a chunk of kind {of_chunk}")


def _texts(connection: Connection, last: int) -> Problems:
    for first in range(1, last + 1, PAGE):
        for chunk in reads.chunks(connection, range(first, min(first + PAGE, last + 1))):
            yield from _text(chunk)


def _text(chunk: Chunk) -> Problems:
    name = chunk.step.chunk_id
    if text_hash(full_text(chunk.step)) != chunk.content_hash:
        yield f"the text of {name} is not the one that was hashed"
    if any(not 1 <= parent < chunk.step.number for parent in chunk.parents):
        yield f"{name} has parents that are no earlier steps"
    yield from _pairs(chunk.step)


def _pairs(step: Step) -> Problems:
    calls = [call.id for call in step.calls]
    answered = [item.call_id for item in step.observations if item.call_id]
    if len(set(calls)) < len(calls):
        yield f"{step.chunk_id} has two calls with one id"
    if calls != answered:
        yield f"{step.chunk_id}: calls {calls} are answered by {answered}"


def _under_way(connection: Connection) -> str:
    number = _number(connection, "SELECT COALESCE(MAX(step), 0) FROM intents")
    return f"step {number}, which resume finishes" if number else "none"


def _intents(connection: Connection, last: int) -> Problems:
    for (number,) in connection.execute("SELECT step FROM intents WHERE step != ?", (last + 1,)):
        yield f"step {number} is under way after step {last}"
    reads.pending_intent(connection)


def _questions(connection: Connection, last: int) -> Problems:
    before = 1
    for place, question in enumerate(reads.questions(connection), 1):
        if question.task != place:
            yield f"question {question.task} stands at place {place}"
        if not before <= question.from_step <= last + 1:
            yield f"question {question.task} is in force from step {question.from_step} on"
        before = max(before, question.from_step)
    for number, task in connection.execute(
        "SELECT number, task FROM steps WHERE task > 0 AND task NOT IN (SELECT task FROM questions)"
        " AND EXISTS (SELECT 1 FROM questions)"
    ):
        yield f"step {number} works on question {task}, which was never put"


def _views(connection: Connection, last: int) -> Problems:
    for chunk, level in connection.execute(
        "SELECT chunk, level FROM views WHERE chunk NOT IN (SELECT number FROM chunks)"
        " OR level NOT IN (1, 2) OR tokens < 0"
    ):
        yield f"a summary of c{chunk} at level {level} belongs to nothing"
    for chunk, step in connection.execute(
        "SELECT chunk, published_step FROM views WHERE published_step > ? OR published_step <= chunk", (last + 1,)
    ):
        yield f"a summary of c{chunk} is shown from step {step} on"


def _keys(connection: Connection) -> Problems:
    for chunk, size, dim in connection.execute(
        "SELECT k.chunk, LENGTH(k.vector), e.dim FROM keys k LEFT JOIN encoders e ON e.number = k.encoder"
        " WHERE e.number IS NULL OR LENGTH(k.vector) != 4 * e.dim OR k.chunk NOT IN (SELECT number FROM chunks)"
    ):
        yield f"the key of c{chunk} has {size} bytes for {dim} dimensions"


def _blocks(connection: Connection, last: int) -> Problems:
    for place, block in enumerate(reads.blocks(connection), 1):
        if block.number != place:
            yield f"block {block.number} stands at place {place}"
        if not 1 <= block.first <= block.last <= last + 1 or not block.last < block.published_step <= last + 2:
            yield f"block {block.number} stands for c{block.first}-c{block.last} from step {block.published_step} on"


def _plans(connection: Connection, last: int) -> Problems:
    blocks = _number(connection, "SELECT COUNT(*) FROM blocks")
    questions = _number(connection, "SELECT COUNT(*) FROM questions")
    for row in connection.execute("SELECT * FROM plans ORDER BY step"):
        plan = codec.plan_out(row)
        if not 1 <= plan.step <= last + 1:
            yield f"the plan of step {plan.step} is of no step"
        yield from _plan(plan, blocks, questions)


def _plan(plan: PlanRecord, blocks: int, questions: int) -> Problems:
    name = f"the plan of step {plan.step}"
    if not 1 <= plan.recent_from <= plan.step:
        yield f"{name} keeps c{plan.recent_from} and later whole"
    for chunk, _ in plan.changed:
        if not 1 <= chunk < plan.recent_from:
            yield f"{name} shows c{chunk}, which is no old chunk"
            break
    if any(not 1 <= number <= blocks for number in plan.blocks):
        yield f"{name} shows blocks {list(plan.blocks)} of {blocks}"
    if not 0 <= plan.question <= questions:
        yield f"{name} is for question {plan.question} of {questions}"


def _usage(connection: Connection, last: int) -> Problems:
    twice = "SELECT step FROM usage WHERE purpose = 'step' GROUP BY step HAVING COUNT(*) > 1"
    for (step,) in connection.execute(twice):
        yield f"the call for step {step} is counted twice"
    for (step,) in connection.execute("SELECT step FROM usage WHERE purpose = 'step' AND step > ?", (last,)):
        yield f"a call for step {step} is counted, which is not stored"

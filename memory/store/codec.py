"""Records to SQLite cells and back, exactly.

Text cells: a str that UTF-8 can hold is stored as TEXT (NUL included), so ordinary text stays readable to any SQLite
tool. Two kinds are BLOBs, told apart by their first byte: ``u``, ``surrogatepass`` bytes of a str with lone surrogates;
``z``, the same deflated, for long observations. So whatever str comes in comes out equal. Structures are compact JSON
in such a cell. NaN becomes NULL (SQLite has none) and is read as NaN where the record's field must be a float.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias, cast

import numpy as np

from memory.plan import Block
from memory.records import (
    Chunk,
    ChunkRef,
    ErrorKind,
    JsonValue,
    Level,
    Observation,
    Source,
    Step,
    StepKind,
    ToolCall,
    Usage,
    View,
)
from memory.stored import Change, ChunkFacts, Event, PlanRecord, Purpose, Question, UsageRow

Cell: TypeAlias = "str | bytes | int | float | None"
_LONG = 1024
Row: TypeAlias = tuple[Any, ...]
"""A row as sqlite3 gives it: the one place where values of unknown type exist; the decoders below give them types."""


def text_in(text: str) -> str | bytes:
    """A str as a cell."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return b"u" + text.encode("utf-8", "surrogatepass")
    return text


def long_in(text: str) -> str | bytes:
    """A str that may be long as a cell: deflated where that pays."""
    if len(text) < _LONG:
        return text_in(text)
    # Level 1: most of the gain at a fifth of the time, before every commit.
    packed = b"z" + zlib.compress(text.encode("utf-8", "surrogatepass"), 1)
    return packed if len(packed) < len(text) else text_in(text)


def text_out(cell: str | bytes) -> str:
    """The str that a cell holds."""
    if isinstance(cell, str):
        return cell
    raw = zlib.decompress(memoryview(cell)[1:]) if cell[:1] == b"z" else cell[1:]
    return raw.decode("utf-8", "surrogatepass")


def json_in(value: object) -> str | bytes:
    """Compact JSON, not escaped. Raises TypeError, ValueError, RecursionError for what JSON cannot hold."""
    return text_in(_json(value))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def json_out(cell: str | bytes) -> Any:
    return json.loads(text_out(cell))


def _call_in(call: ToolCall) -> list[object]:
    return [call.id, call.name, dict(call.arguments)]


def _call_out(raw: list[Any]) -> ToolCall:
    return ToolCall(id=raw[0], name=raw[1], arguments=cast("dict[str, JsonValue]", raw[2]))


def _observation_in(item: Observation) -> list[object]:
    return [
        item.call_id,
        item.tool,
        item.text,
        item.error,
        [[source.url, source.title] for source in item.sources],
        [[ref.chunk, ref.part, ref.query, ref.last] for ref in item.refs],
    ]


def _observation_out(raw: list[Any]) -> Observation:
    return Observation(
        call_id=raw[0],
        tool=raw[1],
        text=raw[2],
        error=cast("ErrorKind | None", raw[3]),
        sources=tuple(Source(url, title) for url, title in raw[4]),
        refs=tuple(ChunkRef(chunk, part, query, last) for chunk, part, query, last in raw[5]),
    )


def observations_in(observations: Sequence[Observation]) -> str | bytes:
    """What a step saw, as one cell; never empty."""
    return long_in(_json([_observation_in(item) for item in observations]))


def step_in(step: Step) -> tuple[Cell, ...]:
    """The row of ``steps``."""
    return (
        step.number,
        step.kind,
        text_in(step.thought),
        json_in([_call_in(call) for call in step.calls]),
        observations_in(step.observations),
        text_in(step.answer),
        text_in(step.question),
        step.task,
        step.created,
        int(step.interrupted),
    )


def step_out(row: Row) -> Step:
    number, kind, thought, calls, observations, answer, question, task, created, interrupted = row
    return Step(
        number=number,
        kind=cast(StepKind, kind),
        thought=text_out(thought),
        calls=tuple(_call_out(raw) for raw in json_out(calls)),
        observations=tuple(_observation_out(raw) for raw in json_out(observations)),
        answer=text_out(answer),
        question=text_out(question),
        task=task,
        created=created,
        interrupted=bool(interrupted),
    )


def intent_in(step: Step) -> str | bytes:
    """A step that has no row of its own yet, as one JSON cell of cells."""
    return long_in(_json([text_out(cell) if isinstance(cell, bytes) else cell for cell in step_in(step)]))


def intent_out(cell: str | bytes) -> Step:
    return step_out(tuple(json_out(cell)))


def chunk_in(chunk: Chunk) -> tuple[Cell, ...]:
    """The row of ``chunks``: everything but the step's texts."""
    source = chunk.step.source
    return (
        chunk.step.number,
        chunk.step.kind,
        json_in([call.name for call in chunk.step.calls]),
        text_in(chunk.placeholder),
        chunk.tokens_full,
        chunk.tokens_placeholder,
        text_in(chunk.content_hash),
        json_in(chunk.parents),
        text_in(source.url if source else ""),
        text_in(source.title if source else ""),
    )


def chunk_out(step: Row, row: Row) -> Chunk:
    placeholder, tokens_full, tokens_placeholder, content_hash, parents = row
    return Chunk(
        step=step_out(step),
        placeholder=text_out(placeholder),
        tokens_full=tokens_full,
        tokens_placeholder=tokens_placeholder,
        content_hash=text_out(content_hash),
        parents=tuple(json_out(parents)),
    )


@lru_cache(maxsize=256)
def _names(cell: str | bytes) -> tuple[str, ...]:
    """Tool names: a session has few different sets of them."""
    return tuple(json_out(cell))


def facts_out(row: Row) -> ChunkFacts:
    number, kind, tools, placeholder, tokens_full, tokens_placeholder, content_hash, url, title = row
    return ChunkFacts(
        number=number,
        kind=kind,
        tools=_names(tools),
        placeholder=text_out(placeholder),
        tokens_full=tokens_full,
        tokens_placeholder=tokens_placeholder,
        content_hash=text_out(content_hash),
        source_url=text_out(url),
        source_title=text_out(title),
    )


def view_in(view: View) -> tuple[Cell, ...]:
    return (
        view.chunk,
        int(view.level),
        view.version,
        text_in(view.producer),
        text_in(view.text),
        view.tokens,
        text_in(view.prompt_hash),
        view.published_step,
        view.fidelity,
    )


def view_out(row: Row) -> View:
    chunk, level, version, producer, text, tokens, prompt_hash, published_step, fidelity = row
    return View(
        chunk=chunk,
        level=Level(level),
        text=text_out(text),
        tokens=tokens,
        version=version,
        producer=text_out(producer),
        prompt_hash=text_out(prompt_hash),
        published_step=published_step,
        fidelity=fidelity,
    )


def block_in(block: Block) -> tuple[Cell, ...]:
    return (
        block.number,
        block.first,
        block.last,
        text_in(block.kind),
        text_in(block.text),
        block.tokens,
        text_in(block.producer),
        block.published_step,
    )


def block_out(row: Row) -> Block:
    number, first, last, kind, text, tokens, producer, published_step = row
    return Block(number, first, last, text_out(kind), text_out(text), tokens, text_out(producer), published_step)


def changed_in(changed: Iterable[tuple[int, int]]) -> bytes:
    """(chunk, code) pairs as zlib of two int64 columns, the first as differences: a few bytes a pair."""
    pairs = np.array(list(changed), dtype="<i8").reshape(-1, 2)
    columns = np.concatenate([np.diff(pairs[:, 0], prepend=np.int64(0)), pairs[:, 1]])
    return zlib.compress(columns.astype("<i8").tobytes(), 6)


def changed_out(cell: bytes) -> tuple[tuple[int, int], ...]:
    columns = np.frombuffer(zlib.decompress(cell), dtype="<i8").reshape(2, -1)
    return tuple(zip(np.cumsum(columns[0]).tolist(), columns[1].tolist(), strict=True))


def change_out(row: Row) -> Change:
    """From (step, recent_from, tokens, changed)."""
    columns = np.frombuffer(zlib.decompress(row[3]), dtype="<i8").reshape(2, -1)
    return Change(row[0], row[1], row[2], np.cumsum(columns[0]), columns[1].astype(np.int8))


def plan_in(plan: PlanRecord) -> tuple[Cell, ...]:
    return (
        plan.step,
        text_in(plan.policy),
        plan.budget,
        plan.tokens,
        plan.unfitted_tokens,
        plan.fixed_tokens,
        plan.recent_tokens,
        plan.recent_from,
        plan.recent_cap,
        plan.previous_tokens,
        plan.pressure,
        json_in(plan.thresholds),
        changed_in(plan.changed),
        json_in(plan.planned_counts),
        json_in(plan.shown_counts),
        json_in(plan.shown_tokens),
        plan.cosine_mean,
        plan.cosine_spread,
        plan.query_key,
        text_in(plan.encoder_id),
        text_in(plan.render_hash),
        plan.question,
        plan.ledger_base,
        json_in(plan.blocks),
        plan.prefix_tokens,
    )


def plan_out(row: Row) -> PlanRecord:
    thresholds = json_out(row[11])
    return PlanRecord(
        step=row[0],
        policy=text_out(row[1]),
        budget=row[2],
        tokens=row[3],
        unfitted_tokens=row[4],
        fixed_tokens=row[5],
        recent_tokens=row[6],
        recent_from=row[7],
        recent_cap=row[8],
        previous_tokens=row[9],
        pressure=_real(row[10]),
        thresholds=None if thresholds is None else (thresholds[0], thresholds[1], thresholds[2]),
        changed=changed_out(row[12]),
        planned_counts=_four(row[13]),
        shown_counts=_four(row[14]),
        shown_tokens=_four(row[15]),
        cosine_mean=_real(row[16]),
        cosine_spread=_real(row[17]),
        query_key=row[18],
        encoder_id=text_out(row[19]),
        render_hash=text_out(row[20]),
        question=row[21],
        ledger_base=row[22],
        blocks=tuple(json_out(row[23])),
        prefix_tokens=row[24],
    )


def _real(cell: float | None) -> float:
    return math.nan if cell is None else cell


def _four(cell: str | bytes) -> tuple[int, int, int, int]:
    a, b, c, d = json_out(cell)
    return (a, b, c, d)


def usage_in(row: UsageRow) -> tuple[Cell, ...]:
    usage = row.usage
    return (
        row.step,
        row.purpose,
        text_in(row.model),
        usage.input_total,
        usage.cache_read,
        usage.cache_write,
        usage.output,
        usage.reasoning,
        usage.cost,
    )


def usage_out(row: Row) -> UsageRow:
    step, purpose, model, *figures = row
    return UsageRow(step=step, purpose=cast(Purpose, purpose), model=text_out(model), usage=Usage(*figures))


def question_in(question: Question) -> tuple[Cell, ...]:
    return (question.task, text_in(question.text), question.from_step, question.created)


def question_out(row: Row) -> Question:
    return Question(task=row[0], text=text_out(row[1]), from_step=row[2], created=row[3])


def event_in(event: Event) -> tuple[Cell, ...]:
    return (text_in(event.kind), event.created, json_in(event.body))


def event_out(row: Row) -> Event:
    return Event(kind=text_out(row[0]), created=row[1], body=json_out(row[2]))


def meta_in(values: Mapping[str, str]) -> list[tuple[Cell, ...]]:
    return [(text_in(key), text_in(value)) for key, value in values.items()]

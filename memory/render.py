"""From a fitted plan to messages: deterministic, framed, checked. What is counted here is what is sent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from memory.clip import clip_step
from memory.errors import IllegalContext
from memory.frame import (
    HEADER,
    block,
    close_focus,
    close_line,
    guard_nonce,
    open_focus,
    open_line,
    range_block,
)
from memory.index.chunks import ChunkIndex
from memory.layout import RANGE_TOKENS, ledger_rows, ledger_tokens, segments
from memory.plan import HIDDEN, Block, BoolArray, IntArray, LevelArray, Pool
from memory.ports import StepFormat, TokenCounter
from memory.records import Level, Message, Step
from memory.tokens import message_tokens, request_tokens

_TOOLS, _TOPICS = 4, 3
"""What a range line names at most."""
_LEVELS = tuple(Level)
"""By code: an enumeration takes ten times as long to look up."""
_LINES = 8192
"""Range lines kept: chunks do not change, so neither do the lines of their runs."""


@dataclass(frozen=True, slots=True)
class RenderInput:
    """Everything a rendering depends on. ``levels`` and ``folded`` (M,): as shown, aliases resolved.

    ``texts``: bodies of the chunks shown above PLACEHOLDER. ``recent``: the last N steps, glimpses expanded.
    """

    question: str
    nonce: str
    levels: LevelArray
    folded: BoolArray
    facts: ChunkIndex
    texts: Mapping[int, str]
    recent: tuple[Step, ...]
    recent_cap: int | None
    ledger_base: int = 0
    """0: interleaved; else the ledger layout with this base (`memory.layout`)."""
    since: IntArray | None = None
    """(M,) step at which each chunk came to the level it is shown at: the order of the focus section."""
    blocks: tuple[Block, ...] = ()


class Recent:
    """The recent window through a format: its cost at any cap, and its messages."""

    def __init__(self, steps: tuple[Step, ...], form: StepFormat, counter: TokenCounter) -> None:
        self.steps = steps
        self._form = form
        self._counter = counter
        self._costs: dict[int | None, int] = {}

    def messages(self, cap: int | None) -> tuple[Message, ...]:
        """The window as sent with every text within ``cap`` tokens."""
        return tuple(message for step in self.steps for message in self._form.step(clip_step(step, cap, self._counter)))

    def tokens(self, cap: int | None) -> int:
        """Tokens of `messages`, counted on the rendered messages."""
        if cap not in self._costs:
            self._costs[cap] = request_tokens(self.messages(cap), "", self._counter)
        return self._costs[cap]


def fixed_tokens(
    question: str, nonce: str, with_history: bool, form: StepFormat, counter: TokenCounter, *, ledger: bool = False
) -> int:
    """What every request carries: system, question, tools, and the frames when there are old chunks."""
    total = request_tokens(form.preamble(question), form.tools_text(), counter)
    if with_history:
        # the wrapping of a history message is counted apart from its text: at most one token more than together
        wrapping = message_tokens(form.history(""), counter) + 1
        total += wrapping + counter.count(open_line(nonce)) + counter.count(close_line(nonce))
        if ledger:
            total += wrapping + counter.count(open_focus(nonce)) + counter.count(close_focus(nonce))
    return total


def render(given: RenderInput, form: StepFormat, counter: TokenCounter) -> tuple[Message, ...]:
    """System, question, old chunks in their layout, recent steps."""
    messages = list(form.preamble(given.question))
    if len(given.levels):
        if given.ledger_base:
            messages.append(replace(form.history(ledger_text(given, counter)), cache_point=True))
            tail = ledger_rows(len(given.levels), given.ledger_base) < len(given.levels)
            if given.blocks or tail or (given.levels > Level.PLACEHOLDER).any():
                messages.append(form.history(focus_text(given)))
        else:
            messages.append(form.history(history_text(given, counter)))
    messages.extend(Recent(given.recent, form, counter).messages(given.recent_cap))
    return tuple(messages)


def ledger_text(given: RenderInput, counter: TokenCounter) -> str:
    """The ledger section: a line per chunk, older ones in ranges; it depends on nothing but how many there are."""
    parts = [open_line(given.nonce)]
    rows = ledger_rows(len(given.levels), given.ledger_base)
    for start, end in segments(len(given.levels), given.ledger_base):
        if start >= rows:
            break
        if end - start == 1:
            facts = given.facts.facts[start]
            parts.append(block(facts.number, Level.PLACEHOLDER, guard_nonce(facts.placeholder, given.nonce)))
        else:
            parts.append(range_line(given.facts, start, end, counter, given.nonce))
    parts.append(close_line(given.nonce))
    return "".join(parts)


def focus_text(given: RenderInput) -> str:
    """The focus section: texts for runs of steps, then what is shown above PLACEHOLDER and the lines that the ledger
    does not hold yet, longest there first, so that the front stays stable."""
    listed = given.levels > Level.PLACEHOLDER
    listed[ledger_rows(len(listed), given.ledger_base) :] = True
    rows = np.flatnonzero(listed)
    if given.since is not None:
        rows = rows[np.argsort(given.since[rows], kind="stable")]
    chunks = [_chunk_block(given, int(row)) for row in rows]
    return "".join([open_focus(given.nonce), *_range_blocks(given).values(), *chunks, close_focus(given.nonce)])


def history_text(given: RenderInput, counter: TokenCounter) -> str:
    """The interleaved section: blocks, placeholders and range lines in time order between the two frame lines."""
    parts = [open_line(given.nonce)]
    blocks = _range_blocks(given)
    edges = set((np.flatnonzero(np.diff(given.folded.astype(np.int8))) + 1).tolist()) | set(blocks)
    start = 0
    for end in sorted((edges - {0}) | {len(given.levels)}):
        parts.append(blocks.get(start, ""))
        if given.folded[start]:
            parts.append(range_line(given.facts, start, end, counter, given.nonce))
        else:
            parts.extend(_chunk_block(given, row) for row in range(start, end) if given.levels[row] != HIDDEN)
        start = end
    parts.append(close_line(given.nonce))
    return "".join(parts)


def _range_blocks(given: RenderInput) -> dict[int, str]:
    """The blocks by the row they begin at."""
    return {b.first - 1: range_block(b.first, b.last, b.kind, guard_nonce(b.text, given.nonce)) for b in given.blocks}


def _chunk_block(given: RenderInput, row: int) -> str:
    facts = given.facts.facts[row]
    level = _LEVELS[given.levels[row]]
    body = facts.placeholder if level is Level.PLACEHOLDER else given.texts[facts.number]
    return block(facts.number, level, guard_nonce(body, given.nonce))


def range_line(index: ChunkIndex, start: int, end: int, counter: TokenCounter, nonce: str = "") -> str:
    """One line for the folded rows [start, end), at most RANGE_TOKENS: ids, how many, tools used, a few topics.

    Costs the logarithm of the session, not the length of the range: a session of 100,000 steps renders many of these.
    """
    key = (start, end, nonce)
    known = index.lines.get(key)
    if known is None:
        known = index.lines[key] = _range_line(index, start, end, counter, nonce)
        if len(index.lines) > _LINES:
            index.lines.pop(next(iter(index.lines)))
    return known


def _range_line(index: ChunkIndex, start: int, end: int, counter: TokenCounter, nonce: str) -> str:
    # a model can name a tool anything, line breaks included
    used = ", ".join(f"{_flat(name)} x{count}" for name, count in index.tools_in(start, end)[:_TOOLS])
    ids = f"{HEADER}c{start + 1}-c{end} {end - start} steps folded"
    head = f"{ids}: {used}" if used else ids
    topics = index.topics_in(start, end, _TOPICS)
    for count in range(len(topics), -1, -1):
        about = " | ".join(_flat(title) for title in topics[:count])
        line = guard_nonce(f"{head}; {about}" if about else head, nonce) + "\n"
        if counter.count(line) <= RANGE_TOKENS:
            return line
    return f"{ids}\n"


def _flat(text: str) -> str:
    """One line, at most 40 characters."""
    return " ".join(text.split())[:40]


def render_hash(messages: Sequence[Message]) -> str:
    """SHA-256 (hex) over the rendered messages."""
    rows = [
        [m.role, m.content, m.tool_call_id, [[c.id, c.name, dict(c.arguments)] for c in m.tool_calls]] for m in messages
    ]
    return hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()


def check_legal(messages: Sequence[Message], question: str) -> None:
    """The rules every provider enforces, before anything is sent. Raises IllegalContext; a failure is a bug of ours."""
    seen: set[str] = set()
    waiting: list[str] = []
    for index, message in enumerate(messages):
        if message.role == "tool":
            if message.tool_call_id not in waiting:
                raise IllegalContext(f"message {index}: tool result {message.tool_call_id!r} answers no call before it")
            waiting.remove(message.tool_call_id)
        elif waiting:
            raise IllegalContext(f"message {index}: calls {waiting} have no result")
        if message.role == "system" and index > 0:
            raise IllegalContext(f"message {index}: a system message that is not the first")
        if not message.content.strip() and not message.tool_calls:
            raise IllegalContext(f"message {index} is empty")
        _check_text(message.content, index)
        for call in message.tool_calls:
            if call.id in seen:
                raise IllegalContext(f"message {index}: call id {call.id!r} is used twice")
            seen.add(call.id)
            waiting.append(call.id)
    if waiting:
        raise IllegalContext(f"calls {waiting} have no result")
    if not any(question.strip() in message.content for message in messages):
        raise IllegalContext("the question is missing")


def _check_text(text: str, index: int) -> None:
    if "\x00" in text:
        raise IllegalContext(f"message {index} holds a NUL")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as fault:
        raise IllegalContext(f"message {index} holds a lone surrogate") from fault


def level_tokens(given: RenderInput, pool: Pool) -> tuple[tuple[int, int, int, int], tuple[int, int, int, int]]:
    """(tokens, counts) of the old chunks per shown level; range lines count as PLACEHOLDER at their bound."""
    levels = given.levels
    lines = levels == Level.PLACEHOLDER
    counts = [int(np.count_nonzero(lines))]
    tokens = [int(pool.tokens[lines & ~given.folded, Level.PLACEHOLDER].sum())]
    for level in (Level.BRIEF, Level.DETAILED, Level.FULL):
        rows = np.flatnonzero(levels == level)
        counts.append(len(rows))
        tokens.append(int(pool.tokens[rows, level].sum()))
    if given.ledger_base:
        tokens[Level.PLACEHOLDER] = ledger_tokens(pool, given.ledger_base)[0]
    else:
        runs = np.diff(np.concatenate(([0], given.folded.astype(np.int8)))) == 1
        tokens[Level.PLACEHOLDER] += RANGE_TOKENS * int(runs.sum())
    return (tokens[0], tokens[1], tokens[2], tokens[3]), (counts[0], counts[1], counts[2], counts[3])

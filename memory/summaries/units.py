"""A chunk's FULL text as units that a summary keeps or drops: action lines, sentences, fields."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from memory.records import JsonValue
from memory.summaries import fields
from memory.text.sentences import spans

UNIT_CHARS = 320
"""Longest sentence kept as one unit, in characters."""
HEADING_CHARS = 70

Role: TypeAlias = Literal["question", "thought", "action", "observation", "answer"]
_LABEL = re.compile(r"^(question|thought|action|observation(?: \(\w+\))?|answer): ?", re.MULTILINE)
_ENDS = ".!?。！？…:;,"


@dataclass(frozen=True, slots=True)
class Unit:
    """``line``: units of one source line are joined by a space. ``heading``: nearest heading above, for scoring."""

    text: str
    role: Role
    line: int
    heading: str = ""
    is_field: bool = False


def units(text: str) -> list[Unit]:
    """Every unit of a FULL text, in order. A text without labels is one observation."""
    found: list[Unit] = []
    for role, label, body in segments(text):
        line = found[-1].line + 1 if found else 0
        if role == "action":
            found.append(Unit(" ".join(body.split()), role, line))
            continue
        if label and body:
            body = f"{label}: {body}"
        found.extend(_body_units(body, role, line))
    return [unit for unit in found if unit.text]


def segments(text: str) -> Iterator[tuple[Role, str, str]]:
    """(role, label of a failed observation or empty, body) in order."""
    marks = list(_LABEL.finditer(text))
    head = text[: marks[0].start()] if marks else text
    if head.strip():
        yield "observation", "", head.strip()
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    for mark, end in zip(marks, ends, strict=False):
        name = mark.group(1)
        body = text[mark.end() : end].strip()
        if name.startswith("observation"):
            yield "observation", name.partition("(")[2].rstrip(")"), body
        elif name in ("question", "thought", "action", "answer"):
            yield name, "", body  # type: ignore[misc]


def _body_units(body: str, role: Role, line: int) -> Iterator[Unit]:
    value: JsonValue = fields.parse(body)
    if value is not None:
        for text, is_prose in fields.lines(value):
            line += 1
            yield from _prose(text, role, line) if is_prose else [Unit(text, role, line, is_field=True)]
        return
    yield from _prose(body, role, line)


def _prose(body: str, role: Role, line: int) -> Iterator[Unit]:
    heading, previous = "", 0
    for start, end in spans(body, UNIT_CHARS):
        line += body.count("\n", previous, start)
        previous = start
        text = body[start:end]
        yield Unit(text, role, line, heading)
        if len(text) <= HEADING_CHARS and text[-1] not in _ENDS and body[end : end + 1] in ("\n", ""):
            heading = text

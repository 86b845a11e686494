"""The trajectory file: one JSON line per committed step, for people and other programs; the store is the truth."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import BinaryIO

from agent.events import AnyEvent, StepCommitted
from memory.records import JsonValue, Step

log = logging.getLogger(__name__)
_BLOCK = 65_536


def step_row(step: Step) -> dict[str, JsonValue]:
    """A step as a JSON object; fields in ``docs/json.md``."""
    return {
        "step": step.number,
        "kind": step.kind,
        "task": step.task,
        "question": step.question,
        "thought": step.thought,
        "calls": [{"id": c.id, "name": c.name, "arguments": dict(c.arguments)} for c in step.calls],
        "observations": [
            {
                "call": o.call_id,
                "tool": o.tool,
                "text": o.text,
                "error": o.error,
                "sources": [{"url": s.url, "title": s.title} for s in o.sources],
                "refs": [{"chunk": r.chunk, "part": r.part, "query": r.query, "last": r.last} for r in o.refs],
            }
            for o in step.observations
        ],
        "answer": step.answer,
        "interrupted": step.interrupted,
        "created": step.created,
    }


class TrajectoryFile:
    """Appends steps as they are committed; mended from the store when a crash left it behind."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._behind = False
        """Whether a line could not be written: those after it would leave a gap, so they wait for the next opening."""

    def mend(self, steps: int) -> int:
        """How many steps the file holds, after half a line at its end is cut off.

        A file that is no beginning of a session of ``steps`` steps (the store was put back from a copy, or the file
        edited) is kept under another name. One that cannot be read is left alone from then on, and lacks nothing.
        """
        try:
            return self._mended(steps)
        except OSError as fault:
            self._stay_behind(1, fault)
            return steps

    def _mended(self, steps: int) -> int:
        if not self._path.exists():
            return 0
        with self._path.open("rb+") as file:
            held, end = _last_number(file)
            file.truncate(end)
        if held is not None and held <= steps:
            return held
        aside = next(path for number in count(1) if not (path := self._path.with_suffix(f".{number}.old")).exists())
        self._path.rename(aside)
        log.warning("%s does not fit its session: kept as %s, and written anew", self._path, aside.name)
        return 0

    def steps(self) -> int | None:
        """How many steps the file holds, half a line not counted; None where it is no file of ours."""
        if not self._path.exists():
            return 0
        with self._path.open("rb") as file:
            return _last_number(file)[0]

    def append(self, steps: Iterable[Step]) -> None:
        """Write steps. Raises OSError."""
        with self._path.open("a", encoding="ascii") as out:
            out.writelines(_line(step) for step in steps)

    def keep(self, steps: Sequence[Step]) -> None:
        """Write the next steps, also what a crash left out. What cannot be written is written at the next opening."""
        if self._behind or not steps:
            return
        try:
            self.append(steps)
        except OSError as fault:
            self._stay_behind(steps[0].number, fault)

    def on_event(self, event: AnyEvent) -> None:
        """Listener of the bus."""
        if isinstance(event, StepCommitted):
            self.keep([event.step])

    def _stay_behind(self, step: int, fault: OSError) -> None:
        self._behind = True
        log.warning("%s stays behind from step %d on: %s", self._path, step, fault)


def _last_number(file: BinaryIO) -> tuple[int | None, int]:
    """Step of the last whole line (0 in an empty file, None when it is no line of ours), and where that line ends."""
    end = _line_start(file, file.seek(0, os.SEEK_END))
    if end == 0:
        return 0, end
    start = _line_start(file, end - 1)
    file.seek(start)
    try:
        row = json.loads(file.read(end - start))
    except ValueError:
        return None, end
    number = row.get("step") if isinstance(row, dict) else None
    return (number if isinstance(number, int) and number > 0 else None), end


def _line_start(file: BinaryIO, end: int) -> int:
    """Offset behind the last line break before ``end``, found from the back: the file may be large."""
    while end > 0:
        first = max(0, end - _BLOCK)
        file.seek(first)
        found = file.read(end - first).rfind(b"\n")
        if found >= 0:
            return first + found + 1
        end = first
    return 0


def _line(step: Step) -> str:
    # ASCII, so that no text of a page can break the encoding of the file
    return json.dumps(step_row(step)) + "\n"

"""The trajectory file: one JSON line per committed step, for people and other programs; the store is the truth."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from agent.events import AnyEvent, StepCommitted
from memory.records import JsonValue, Step


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

    def whole_lines(self) -> int:
        """How many steps the file holds, after half a line at its end is cut off."""
        if not self._path.exists():
            return 0
        with self._path.open("rb+") as file:
            data = file.read()
            file.truncate(data.rfind(b"\n") + 1)
        return data.count(b"\n")

    def append(self, steps: Iterable[Step]) -> None:
        """Write what a crash left out."""
        with self._path.open("a", encoding="ascii") as out:
            out.writelines(_line(step) for step in steps)

    def on_event(self, event: AnyEvent) -> None:
        """Listener of the bus."""
        if isinstance(event, StepCommitted):
            self.append([event.step])


def _line(step: Step) -> str:
    # ASCII, so that no text of a page can break the encoding of the file
    return json.dumps(step_row(step)) + "\n"

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
            }
            for o in step.observations
        ],
        "answer": step.answer,
        "interrupted": step.interrupted,
        "created": step.created,
    }


class TrajectoryFile:
    """Appends steps as they are committed; made whole again from the store when it is behind."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def rewrite(self, steps: Iterable[Step]) -> None:
        """Write the file anew: a crash may have left it short of the store, or with half a line."""
        partial = self._path.with_suffix(".partial")
        with partial.open("w", encoding="utf-8") as out:
            out.writelines(_line(step) for step in steps)
        partial.replace(self._path)

    def lines(self) -> int:
        """Whole lines in the file; -1 when it ends in half a line."""
        if not self._path.exists():
            return 0
        data = self._path.read_bytes()
        return data.count(b"\n") if not data or data.endswith(b"\n") else -1

    def on_event(self, event: AnyEvent) -> None:
        """Listener of the bus."""
        if isinstance(event, StepCommitted):
            with self._path.open("a", encoding="utf-8") as out:
                out.write(_line(event.step))


def _line(step: Step) -> str:
    # ASCII, so that no text of a page can break the encoding of the file
    return json.dumps(step_row(step)) + "\n"

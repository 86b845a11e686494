"""Plain records for tests that do not care what is in them."""

from __future__ import annotations

from memory.records import Chunk, Level, Observation, Source, Step, ToolCall, View


def chunk(number: int, text: str = "an observation") -> Chunk:
    call = ToolCall(id=f"s{number}.0", name="visit", arguments={"urls": [f"http://a.example/{number}"]})
    observation = Observation(call.id, "visit", text, sources=(Source(f"http://a.example/{number}", f"Page {number}"),))
    step = Step(number=number, thought="look", calls=(call,), observations=(observation,), created=float(number))
    return Chunk(step, f"visit Page {number}, 14 chars", 40, 12, f"{number:064x}")


def view(number: int, level: Level = Level.BRIEF, version: int = 1, step: int | None = None, text: str = "") -> View:
    return View(number, level, text or f"v{version} of c{number}", 10 * version, version, "extractive", "p", step)

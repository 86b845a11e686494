"""A session that can be killed anywhere: what its model says depends on what is committed, and on nothing else.

The model's place in its script is the number of committed steps that were not interrupted: a step whose tool was under
way at a kill is taken again. So the transcript, without its interrupted steps, is the same however often it was killed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

from memory.records import JsonValue, Observation, Reply, Request, Source, Step, Usage
from memory.store.sqlstore import SqlStore
from tests.agent.bench import AnyArguments, act, say, search
from tools.base import Arguments, CallContext

QUESTIONS = ("When was the harbour rebuilt?", "And what did it cost?")
USAGE = Usage(input_total=100, output=10, cost=0.001)
FOLDING = "fold-range"

SCRIPT: tuple[tuple[str, Reply], ...] = (
    ("search", search("harbour", USAGE)),
    ("visit", act(("visit", {"urls": ["http://x.test/harbour"]}), text="read it", usage=USAGE)),
    ("fold", act(("fold", {"from_step": "c1", "text": "the harbour is old"}), usage=USAGE)),
    ("pair", act(("search", {"q": "rebuilt"}), ("visit", {"urls": ["http://x.test/b"]}), usage=USAGE)),
    ("glimpse", act(("glimpse", {"chunk_id": "c2"}), usage=USAGE)),
    ("python", act(("python", {"q": "1831 - 31"}), usage=USAGE)),
    ("mixed", act(("search", {"q": "cost"}), ("python", {"q": "2 * 1000"}), usage=USAGE)),
    ("note", Reply("", stop_reason="end", usage=USAGE)),
    ("search", search("winter", USAGE)),
    ("answer", Reply("In 1831 [c2].", usage=USAGE)),
    ("visit", act(("visit", {"urls": ["http://x.test/cost"]}), usage=USAGE)),
    ("python", act(("python", {"q": "2000 / 4"}), usage=USAGE)),
    ("answer", say("2000 crowns [c2].")),
)
"""(type of step, reply) in order; the first answer is followed by the second question."""
TYPES = tuple(dict.fromkeys(kind for kind, _ in SCRIPT))


def long_script(steps: int) -> tuple[tuple[str, Reply], ...]:
    """Searches, visits and computations in turn, then the two answers: ``steps`` steps in all."""
    turn: Sequence[tuple[str, Callable[[int], Reply]]] = (
        ("search", lambda n: search(f"query {n}", USAGE)),
        ("visit", lambda n: act(("visit", {"urls": [f"http://x.test/{n}"]}), usage=USAGE)),
        ("python", lambda n: act(("python", {"q": f"{n} + 1"}), usage=USAGE)),
    )
    middle = [(turn[n % 3][0], turn[n % 3][1](n)) for n in range(steps - 2)]
    half = len(middle) // 2
    return (*middle[:half], SCRIPT[9], *middle[half:], SCRIPT[-1])


class Playing:
    """The model. Bound to the open store before it is asked."""

    name = model = "scripted"
    window = 131_072
    supports_tools = supports_schema = True
    supports_images = False

    def __init__(self, script: Sequence[tuple[str, Reply]] = SCRIPT, at: Callable[[str], None] | None = None) -> None:
        self.script = script
        self.store: SqlStore | None = None
        self._at = at or (lambda point: None)

    async def complete(self, request: Request) -> Reply:
        assert self.store is not None
        self._at("model:asked")
        reply = self.script[whole(await steps_of(self.store))][1]
        self._at("model:replied")
        return reply

    async def aclose(self) -> None:
        return None


class World:
    """A tool whose result follows from its arguments; every run of it is a line of the ``effects`` file."""

    arguments: ClassVar[type[Arguments]] = AnyArguments
    description = "fake"
    timeout_s = 30.0
    outcomes: ClassVar[tuple[()]] = ()
    """None are left over."""

    def __init__(self, name: str, effects: Path | None = None, at: Callable[[str], None] | None = None) -> None:
        self.name = name
        self._effects = effects
        self._at = at or (lambda point: None)

    async def run(self, arguments: AnyArguments, context: CallContext) -> Observation:
        self._at(f"{self.name}:begun")
        if self._effects is not None:
            append(self._effects, f"{self.name} {context.call_id}\n")
        about = arguments.q or " ".join(arguments.urls)
        digest = hashlib.sha256(f"{self.name} {about}".encode()).hexdigest()
        text = f"The harbour {about} was rebuilt in 1831. " + " ".join(f"{digest[i:]} {i}." for i in range(0, 60, 3))
        self._at(f"{self.name}:done")
        url = arguments.urls[0] if arguments.urls else f"http://x.test/{digest[:8]}"
        return Observation(context.call_id, self.name, text, sources=(Source(url, f"About {about}"),))

    async def aclose(self) -> None:
        return None


def append(file: Path, line: str) -> None:
    """One line at the end of a file, at once: a kill leaves whole lines."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def whole(steps: Sequence[Step]) -> int:
    """Steps that were not interrupted."""
    return sum(not step.interrupted for step in steps)


async def steps_of(store: SqlStore) -> list[Step]:
    """Every committed step."""
    return [chunk.step for chunk in await store.chunks(range(1, await store.last_step() + 1))]


def transcript(steps: Sequence[Step]) -> list[JsonValue]:
    """What was thought, done and seen, without interrupted steps, step numbers and times."""
    return [
        [
            step.kind,
            step.task,
            step.thought,
            step.answer,
            step.question,
            [[call.name, dict(call.arguments)] for call in step.calls],
            [[item.tool, item.text, item.error, [source.url for source in item.sources]] for item in step.observations],
        ]
        for step in steps
        if not step.interrupted
    ]

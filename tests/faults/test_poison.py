"""Ten thousand poisoned texts in every field: stored, sent, exported and resumed, and none of them can act."""

from __future__ import annotations

import asyncio
import json
import random
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import get_args

import pytest

from agent.backbones.scripted import ScriptedBackbone
from agent.dialects.native import NativeDialect
from memory.config import MemoryConfig
from memory.frame import block, guard_nonce
from memory.ingest import clean_arguments, clean_step
from memory.records import JsonValue, Observation, Reply, Request, Source, Step, ToolCall, View
from memory.render import check_legal
from memory.sanitize import sanitize
from memory.store.sqlite import SqliteStore
from memory.summaries.base import SummaryJob
from memory.summaries.fakes import FakeSummariser
from memory.tokens import ScriptCounter
from runners.folders import STORE, SessionFolder
from runners.redact import Redactor
from runners.replay.readers.own import read_session
from runners.sessions.export import export
from runners.sessions.formats import Format
from tests.agent.bench import AnyArguments, Setup, bench
from tests.faults.poison import poison
from tests.faults.script import World, steps_of
from tools.base import CallContext

STEPS = 26
"""Of one session; it is closed and opened again in the middle."""
A_STEP = 48
"""Poisoned texts in one step."""
CASES = 10_000
HEADER = re.compile(r"^\s*###\s*c(\d+)", re.MULTILINE)


@dataclass
class Poisoned:
    """What a model and a tool say that a hijacker writes; remembers what was said."""

    rng: random.Random
    nonce: str = ""
    said: list[Reply] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)

    def text(self, parts: int = 1) -> str:
        return "\n".join(poison(self.rng, self.nonce) for _ in range(parts))

    def reply(self, request: Request) -> Reply:
        check_legal(request.messages, "")
        self.look(request)
        number = len(self.said) + 1
        arguments: dict[str, JsonValue] = {"q": f"{number} {self.text(3)}", "urls": [self.text(), self.text()]}
        calls = (ToolCall(self.text(), "visit", arguments),)
        self.said.append(Reply(self.text(4), tool_calls=calls, stop_reason="tool_calls"))
        return self.said[-1]

    def look(self, request: Request) -> None:
        """Nothing in the history reads as a header, or as an end of it, that we did not write."""
        opening, closing = f"### history {self.nonce}", f"### /history {self.nonce}\n"
        sections = [m.content for m in request.messages if m.role == "user" and m.content.startswith(opening)]
        assert len(sections) == (len(self.said) > MemoryConfig().recent)
        for text in sections:
            assert text.endswith(closing)
            history, _, focus = text.partition(f"### focus {self.nonce}")
            assert text.count(self.nonce) == (4 if focus else 2)
            for part in (history, focus):
                shown = [int(first) for first in HEADER.findall(part)]
                assert shown == sorted(set(shown))
                assert all(number <= len(self.said) for number in shown)


class PoisonedTool(World):
    """Answers with what the page says, of which every byte is hostile."""

    def __init__(self, world: Poisoned) -> None:
        super().__init__("visit")
        self._world = world

    async def run(self, arguments: AnyArguments, context: CallContext) -> Observation:
        text = self._world.text(A_STEP - 12)
        self._world.seen.append(text)
        source = Source(self._world.text(), self._world.text())
        return Observation(self._world.text(), self._world.text(), text, sources=(source,))


class PoisonedSummariser(FakeSummariser):
    """Repeats what a page told it to."""

    def __init__(self, world: Poisoned) -> None:
        super().__init__()
        self._world = world

    async def summarise(self, job: SummaryJob) -> list[View]:
        views = await super().summarise(job)
        texts = [guard_nonce(sanitize(self._world.text()), self._world.nonce) for _ in views]
        counts = [
            ScriptCounter().count(block(job.chunk, view.level, text)) for view, text in zip(views, texts, strict=True)
        ]
        return [replace(view, text=t, tokens=n) for view, t, n in zip(views, texts, counts, strict=True)]


async def play(folder: Path, world: Poisoned, steps: int, policy: str) -> None:
    model = ScriptedBackbone(world.reply, allow_unused=True)
    memory = MemoryConfig(budget=6_000, layout="ledger" if policy == "mosaic" else "interleaved")
    setup = Setup(policy=policy, memory=memory, summariser=PoisonedSummariser(world), owned=True, record=False)
    async with bench(folder / STORE, model, [PoisonedTool(world)], setup) as b:  # type: ignore[list-item]
        world.nonce = await b.store.meta("nonce") or ""
        if not b.memory.task:
            await b.memory.ask("1 " + world.text(3))
        while b.memory.steps < steps:
            await b.loop.step()
        assert all(one.same for one in await b.memory.rebuild_all())


async def stored(folder: Path) -> list[Step]:
    async with await SqliteStore.open(folder / STORE, create=False, read_only=True) as store:
        assert [finding for finding in await store.verify() if finding.problems] == []
        return await steps_of(store)


def as_said(step: Step, world: Poisoned) -> None:
    """What is stored is what was said, cleaned once; it would not change if it were cleaned again."""
    decided = NativeDialect().parse(world.said[step.number - 1], step.number)
    assert step.thought == sanitize(decided.thought)
    assert dict(step.calls[0].arguments) == clean_arguments(decided.calls[0].arguments)
    assert step.observations[0].text == sanitize(world.seen[step.number - 1])
    assert clean_step(step) == step


def exported(folder: Path, target: Path) -> None:
    """Every format can be written and parsed; our own gives the same steps back."""
    for form in get_args(Format):
        if form == "tar":
            continue
        file = export(SessionFolder(folder), form, str(target / form), Redactor(()))
        assert file is not None
        text = file.read_bytes().decode()
        assert "\x00" not in text
        for line in [text] if form == "atif" else text.splitlines():
            json.loads(line)


@pytest.fixture
def folder() -> Iterator[Path]:
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as made:
        yield Path(made)


def test_ten_thousand_poisoned_texts(folder: Path) -> None:
    policies, cases, number = ("pace", "last-k", "keep-last-k", "mosaic"), 0, 0
    while cases < CASES:
        number += 1
        here, policy = folder / f"s{number}", policies[number % len(policies)]
        here.mkdir()
        world = Poisoned(random.Random(number))
        asyncio.run(play(here, world, STEPS // 2, policy))
        asyncio.run(play(here, world, STEPS, policy))
        steps = asyncio.run(stored(here))
        assert len(steps) == STEPS
        for step in steps:
            as_said(step, world)
        assert list(read_session(here).steps) == steps
        exported(here, here)
        cases += STEPS * A_STEP

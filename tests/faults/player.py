"""Plays the scripted session from wherever it stands to its end, and can be made to die at a named point."""

from __future__ import annotations

import os
import signal
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from agent.events import AnyEvent, StepCommitted
from agent.session import Outcome
from memory.records import View
from memory.store.address import Address, parse_address
from memory.summaries.base import SummaryJob
from memory.summaries.fakes import FakeSummariser
from tests.agent.bench import Bench, Setup, bench
from tests.faults.script import FOLDING, QUESTIONS, SCRIPT, Playing, World, append, steps_of, whole

STORE, ACKNOWLEDGED, EFFECTS, STATUS = "session.sqlite", "acknowledged", "effects", "statuses"
ADDRESS = "address"


@dataclass
class Points:
    """Told of every named point. ``deadly`` (point, n): the process dies the n-th time it comes there."""

    deadly: tuple[str, int] | None = None
    seen: list[tuple[str, int]] = field(default_factory=list)
    """(point, place in the script), as they came."""
    place: int = 0
    _counts: Counter[str] = field(default_factory=Counter)

    def at(self, point: str) -> None:
        self.seen.append((point, self.place))
        self._counts[point] += 1
        if self.deadly == (point, self._counts[point]):
            os.kill(os.getpid(), signal.SIGKILL)

    def on_event(self, event: AnyEvent) -> None:
        """Listener of the bus."""
        if isinstance(event, StepCommitted):
            self.place += not event.step.interrupted
        self.at(f"event:{type(event).__name__}")


class PointedSummariser(FakeSummariser):
    """Instant summaries, with a point before and behind."""

    def __init__(self, points: Points) -> None:
        super().__init__()
        self._points = points

    async def summarise(self, job: SummaryJob) -> list[View]:
        self._points.at("summary:begun")
        views = await super().summarise(job)
        self._points.at("summary:made")
        return views


async def play(folder: Path, points: Points | None = None, policy: str = FOLDING) -> Outcome:
    """Begin or continue the session of ``folder``, and bring it to its end."""
    points = points or Points()
    model = Playing(SCRIPT if policy == FOLDING else SCRIPT[:2] + SCRIPT[3:], points.at)
    tools = [World(name, folder / EFFECTS, points.at) for name in ("search", "visit", "python")]
    setup = Setup(policy=policy, owned=True, faults=points, summariser=PointedSummariser(points), record=False)
    async with bench(place_of(folder), model, tools, setup) as b:  # type: ignore[arg-type]
        model.store = b.store
        points.place = whole(await steps_of(b.store))
        b.loop.bus.subscribe(lambda event: acknowledge(folder, event))
        b.loop.bus.subscribe(points.on_event)
        return await finish(b)


def place_of(folder: Path) -> Path | Address:
    """Where the store of a folder's session is: in it, or where a file in it says."""
    file = folder / ADDRESS
    return parse_address(file.read_text()) if file.exists() else folder / STORE


def begin(folder: Path, database: Address | None = None) -> None:
    """Make the folder of a session, in a database where one is given."""
    folder.mkdir()
    if database is not None:
        (folder / ADDRESS).write_text(f"{database.url}#{folder.name}")


async def finish(b: Bench) -> Outcome:
    """Ask what has not been asked, go on with what has."""
    outcome = await (b.session.go_on() if b.memory.task else b.session.ask(QUESTIONS[0]))
    if outcome.status == "completed" and b.memory.task < len(QUESTIONS):
        outcome = await b.session.ask(QUESTIONS[1])
    return outcome


def acknowledge(folder: Path, event: AnyEvent) -> None:
    """Write down, for whoever looks after a kill, that a step was said to be on the disk."""
    if isinstance(event, StepCommitted):
        append(folder / ACKNOWLEDGED, f"{event.step.number}\n")

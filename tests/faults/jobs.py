"""What children of the zygote can do. Arguments and results are JSON."""

from __future__ import annotations

import asyncio
import ctypes
import importlib
import importlib.util
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memory.errors import StoreBusy, StoreFault
from memory.records import Step
from memory.store.sqlite import SqliteStore
from runners.cli import app
from tests.agent.bench import Setup, bench
from tests.faults.player import EFFECTS, Points, finish, place_of, play
from tests.faults.script import FOLDING, Playing, World, append
from tests.faults.zygote import Job
from tests.memory.store.build import chunk
from tests.memory.store.places import open_at, taken_for_dead


async def session(given: Mapping[str, Any]) -> object:
    """Play the session of ``folder``; ``deadly``: [point, n]; ``points``: give all points that were passed."""
    deadly = (str(given["deadly"][0]), int(given["deadly"][1])) if given.get("deadly") else None
    points = Points(deadly)
    outcome = await play(Path(given["folder"]), points, given.get("policy", FOLDING))
    return {"status": outcome.status, "answer": outcome.answer, "points": points.seen if given.get("points") else []}


async def migrate(given: Mapping[str, Any]) -> object:
    """Open the store at ``path``, which an earlier version wrote; ``statement``: die before the n-th of migrating."""
    import sqlite3

    left = int(given["statement"])

    class Dying(sqlite3.Connection):
        def execute(self, *arguments: Any) -> sqlite3.Cursor:
            nonlocal left
            if self.in_transaction:
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
            return super().execute(*arguments)

    whole = sqlite3.connect
    sqlite3.connect = lambda *a, **k: whole(*a, **k, factory=Dying)  # type: ignore[assignment,misc]
    async with await SqliteStore.open(given["path"], create=False) as store:
        return [await store.schema(), await store.last_step()]


async def io(given: Mapping[str, Any]) -> object:
    """Play the session of ``folder`` with one call of the operating system failing (`failing_io.c`)."""
    library = ctypes.CDLL(None)
    library.failing_io_arm(*map(int, given["arm"]))
    try:
        status: str = (await play(Path(given["folder"]))).status
    except StoreFault as fault:
        status = type(fault).__name__
    return {"status": status, "left": library.failing_io_left()}


def warm() -> None:
    """Import what a command imports, before children are forked that would each do it again."""
    for name in ("runners.wiring", "runners.outcome", "runners.live", "tools.search.corpus", "tools.search.tool"):
        importlib.import_module(name)
    for name in ("tools.visit.tool", "agent.backbones.embedded", "runners.meter", "rich.live", "yaml"):
        importlib.import_module(name)
    if importlib.util.find_spec("psycopg"):
        for name in ("psycopg", "psycopg.adapt", "psycopg.errors", "memory.store.postgres"):
            importlib.import_module(name)


async def command(given: Mapping[str, Any]) -> object:
    """Run the command line with ``arguments`` under the home ``home``."""
    os.environ["LONGSTRIDE_HOME"] = given["home"]
    code = await asyncio.to_thread(app.main, given["arguments"])
    if code:
        raise RuntimeError(f"longstride {given['arguments']} ended with {code}")
    return code


async def claim(given: Mapping[str, Any]) -> object:
    """Race for the session of ``folder`` against ``racers`` - 1 others; ``die``: of a kill, as its owner at work."""
    folder, racers, pid = Path(given["folder"]), int(given["racers"]), os.getpid()
    await _together(folder / "here", racers)
    won, said = False, ""
    async with await open_at(place_of(folder), create=True) as store:
        try:
            await store.claim("racer")
            won = True
            last = await store.last_step()
            for number in range(last + 1, last + 4):
                made = chunk(number)
                step = Step(number, thought="killed" if given.get("die") else str(pid), calls=made.step.calls)
                await store.commit_step(type(made)(step, "", 1, 1, "", ()))
            if given.get("die"):
                os.kill(pid, signal.SIGKILL)
        except StoreBusy as fault:
            said = str(fault)
        # held until everybody has tried
        await _together(folder / "tried", racers)
    return {"won": won, "said": said, "pid": pid}


async def _together(file: Path, racers: int) -> None:
    """Return when so many have come here."""

    def wait() -> None:
        append(file, "here\n")
        while len(file.read_text().splitlines()) < racers:
            os.sched_yield()

    await asyncio.to_thread(wait)


async def woken(given: Mapping[str, Any]) -> object:
    """An owner that is displaced while its model is asked for step 4, as if it had been away and taken for dead."""
    folder = Path(given["folder"])
    model, seen = Playing(), dict[str, object]()
    tools = [World(name, folder / EFFECTS) for name in ("search", "visit", "python")]
    other = await open_at(place_of(folder), create=True)
    async with bench(place_of(folder), model, tools, Setup(policy=FOLDING, owned=True)) as b:  # type: ignore[arg-type]
        model.store = b.store
        whole = model.complete

        async def away(request: Any) -> Any:
            reply = await whole(request)
            if b.memory.steps == 3:
                await taken_for_dead(b.store, other)
                await other.claim("successor")
                await other.commit_step(chunk(4))
                seen["effects_before"] = (folder / EFFECTS).read_text()
                seen["steps_before"] = 3
            return reply

        model.complete = away  # type: ignore[method-assign]
        try:
            seen["status"] = (await finish(b)).status
        except StoreFault as fault:
            seen["status"] = type(fault).__name__
    seen["effects"] = (folder / EFFECTS).read_text()
    held = await other.owner()
    seen["owner"] = held.label if held else ""
    seen["steps"] = await other.last_step()
    await other.aclose()
    return seen


JOBS: Mapping[str, Job] = {
    "session": session,
    "migrate": migrate,
    "io": io,
    "command": command,
    "claim": claim,
    "woken": woken,
}

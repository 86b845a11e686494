"""What must hold of a session after each kill, and at its end."""

from __future__ import annotations

import random
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path

from memory.chunking import full_text
from memory.records import JsonValue, Step
from memory.store import reads
from memory.store.address import Address
from memory.store.sql import Connection
from memory.store.verify import verify
from tests.faults.player import ACKNOWLEDGED, EFFECTS, begin, place_of
from tests.faults.script import transcript
from tests.faults.zygote import Ended, Zygote
from tests.memory.store.places import looking

KEPT = ("steps", "chunks", "questions", "blocks", "plans", "views", "keys", "usage", "events")
"""Tables whose rows stay as they are once a step is committed."""
RECENT = 2
"""Newest steps before the last one, whose keys are stored when they become old."""
GROWTH = 1.05
"""Of the time within which a session is killed, at each kill of it."""
Rows = dict[str, list[tuple[object, ...]]]


@dataclass
class Survivor:
    """One session that is killed and continued; `look` checks it after every child."""

    folder: Path
    policy: str = "fold-range"
    rows: Rows = field(default_factory=dict)
    kills: int = 0

    def session(self, zygote: Zygote, **given: object) -> Ended:
        """Continue it in a child, and look at what is left. A child that ends by itself must have completed it."""
        ended = zygote.run("session", folder=str(self.folder), policy=self.policy, **given)  # type: ignore[arg-type]
        assert ended.killed or (ended.code == 0 and ended.result["status"] == "completed"), ended
        self.kills += ended.killed
        self.look()
        return ended

    def look(self) -> None:
        """Committed rows are as they were, acknowledged steps are there, the store is whole."""
        with looking(place_of(self.folder)) as connection:
            if connection is None:
                assert not self.rows
                return
            assert [finding for finding in verify(connection) if finding.problems] == []
            rows = committed(connection)
        for table, before in self.rows.items():
            assert set(before) <= set(rows[table]), f"rows of {table} changed"
        self.rows = rows
        acknowledged = lines(self.folder / ACKNOWLEDGED)
        assert len(rows["steps"]) >= max(map(int, acknowledged), default=0)
        assert len(set(acknowledged)) == len(acknowledged), "a step was committed twice"

    def settled(self) -> bool:
        """Whether the session has settings: before that it was never begun."""
        with looking(place_of(self.folder)) as connection:
            assert connection is not None
            return reads.meta(connection, "settings") is not None

    def steps(self) -> list[Step]:
        """The committed steps."""
        with looking(place_of(self.folder)) as connection:
            assert connection is not None
            return [c.step for c in reads.chunks(connection, range(1, reads.last_step(connection) + 1))]

    def finished(self, expected: list[JsonValue]) -> None:
        """At its end: the transcript is the uninterrupted one, no computation ran twice, nothing is left undone."""
        steps = self.steps()
        assert transcript(steps) == expected
        assert all(any(call.name == "python" for call in step.calls) for step in steps if step.interrupted)
        runs = [line for line in lines(self.folder / EFFECTS) if line.startswith("python")]
        assert len(set(runs)) == len(runs), "python was run again"
        with looking(place_of(self.folder)) as connection:
            assert connection is not None
            assert connection.execute("SELECT * FROM intents").fetchall() == []
            assert connection.execute("SELECT * FROM owner").fetchall() == []
            assert reads.without_views(connection, len(steps)) == []
            blocks = connection.execute("SELECT first, last, text FROM blocks").fetchall()
            assert len(set(blocks)) == len(blocks), "a text that stands for steps was stored twice"
            keyed = {chunk for (chunk,) in connection.execute("SELECT chunk FROM keys")}
            assert set(range(1, len(steps) - RECENT)) <= keyed
            assert connection.execute("SELECT value FROM meta WHERE key = 'store.clean'").fetchone() == ("1",)
        assert all(full_text(step) for step in steps)


def committed(connection: Connection) -> Rows:
    """Every row that may not change any more, by table, in order."""
    last = reads.last_step(connection)
    number = "rowid, " if isinstance(connection, sqlite3.Connection) else ""
    settled = {"plans": f"WHERE step <= {last}", "views": f"WHERE published_step <= {last}"}
    return {
        table: connection.execute(f"SELECT {number}* FROM {table} {settled.get(table, '')} ORDER BY 1").fetchall()
        for table in KEPT
    }


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def kill_at_random(
    zygote: Zygote, folder: Path, rng: random.Random, span: float, policy: str, database: Address | None = None
) -> Survivor:
    """Kill a session at random times within ``span`` seconds until a child of it gets to its end. Where the machine has
    become slower than that, the span grows."""
    begin(folder, database)
    survivor = Survivor(folder, policy)
    while survivor.session(zygote, kill_after=rng.uniform(0.0, span)).killed:
        span *= GROWTH
        assert survivor.kills < 200, "it gets nowhere"
    return survivor

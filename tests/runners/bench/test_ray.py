"""Trials on a Ray cluster of two workers, started here. Needs the extra ``ray``.

About two and a half minutes on two idle cores, five on busy ones: most of it is Ray that starts.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from memory.store.address import Address
from memory.store.postgres_database import opened
from memory.store.sqlite import SqliteStore
from runners.devserver.model_server import ModelServer, ScriptedTurn, WireRequest
from runners.devserver.wire import Turn
from tests.runners.bench import made
from tests.runners.bench.test_kills import multihop_run, outcomes
from tests.runners.command import ROOT, Command
from tests.support.postgres import Server

pytest.importorskip("ray", reason="NO EXTRA: ray is not installed")
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(300)]
RAY = ("--executor", "ray")
DELAY_S = 1.5
VARIABLES = {"RAY_TMPDIR": "/tmp"}  # a socket's path is short


def questions(count: int) -> dict[str, str]:
    return {f"Who built the lighthouse of {made.town(at)}?": f"{made.town(at)} Andersen" for at in range(count)}


def ended(process: subprocess.Popen[str]) -> str:
    """What it said, when it ended well."""
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err[-3000:]
    return out


class Hanging(made.Answering):
    """Never answers the second call for some of the questions, the first time: a worker waits for it in mid-task.

    ``held``: questions that wait, in order.
    """

    def __init__(self, answers: dict[str, str], hanging: Sequence[str]) -> None:
        super().__init__(answers)
        self.hanging = set(hanging)
        self.held: list[str] = []

    def __call__(self, request: WireRequest) -> ScriptedTurn:
        reply = self._reply(request)
        question = self.asked[-1]
        if question in self.hanging and not reply.tool_calls:
            self.hanging.remove(question)
            self.held.append(question)
            return Turn(reply, hang_after=0)
        return reply


def owner_of(folder: Path) -> int:
    """The process that holds a session."""

    async def ask() -> int:
        async with await SqliteStore.open(folder / "session.sqlite", create=False, read_only=True) as store:
            owner = await store.owner()
        assert owner is not None
        return owner.pid

    return asyncio.run(ask())


def until(true: Any, seconds: float = 120.0) -> None:
    """Wait for a state."""
    limit = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < limit, "it never came to that"
        time.sleep(0.05)


def test_workers_killed_in_mid_task(command: Command, tmp_path: Path) -> None:
    """Three of twelve tasks lose their worker with -9. Each goes on from its last step: one call more, and no other."""
    data, out, answers = made.multihop(tmp_path / "data", 12), tmp_path / "out", questions(12)
    numbers = {question: at for at, question in enumerate(answers)}
    with ModelServer(made.Answering(answers)) as server:
        options = ("--backbone", str(made.backbone(tmp_path, server.url)), "-c", "python.enabled=false")
        assert command(*multihop_run(data, tmp_path / "alone", *options)).code == 0
    hanging = Hanging(answers, [question for question, at in numbers.items() if at in (1, 4, 9)])
    with ModelServer(hanging) as server:
        options = ("--backbone", str(made.backbone(tmp_path, server.url)), "-c", "python.enabled=false")
        process = command.start(*multihop_run(data, out, *options, *RAY), "--json", "-", variables=VARIABLES)
        for nth in range(3):
            until(lambda: len(hanging.held) > nth or process.poll() is not None)  # noqa: B023 - called at once
            assert process.poll() is None, process.communicate()[1][-3000:]
            pid = owner_of(out / "sessions" / "pace" / f"q{numbers[hanging.held[nth]]}-r1")
            assert pid != process.pid
            os.kill(pid, signal.SIGKILL)
        told = json.loads(ended(process))
    assert (told["done"], told["workers_lost"], told["stopped"]) == (12, 3, "")
    rows = made.rows_of(out)
    assert len(rows) == 12
    assert outcomes(out) == outcomes(tmp_path / "alone")
    assert Counter(Counter(hanging.asked).values()) == {2: 9, 3: 3}
    assert {row["worker"].rpartition("/")[2] for row in rows} == {"1", "2"}
    tables = command("bench", "report", str(out)).report["workers"]
    assert [sum(table[name] for table in tables) for name in ("trials", "without_result", "steps")] == [12, 0, 24]


def test_a_hundred_questions_in_a_database_lose_workers(command: Command, tmp_path: Path, postgres: Server) -> None:
    """Whenever ten more have a result, one of the two workers is killed with -9. Nothing is shared but the database."""
    data, out, answers = made.multihop(tmp_path / "data", 100), tmp_path / "out", questions(100)
    with ModelServer(made.Answering(answers)) as server:
        options = ("--backbone", str(made.backbone(tmp_path, server.url)), "-c", "python.enabled=false")
        assert command(*multihop_run(data, tmp_path / "alone", *options)).code == 0
    url = postgres.database().url
    answering = made.Answering(answers, delay=0.1)
    with ModelServer(answering) as server:
        options = ("--backbone", str(made.backbone(tmp_path, server.url)), "-c", "python.enabled=false")
        run = multihop_run(data, out, *options, *RAY, "--sessions", url)
        process = command.start(*run, "--json", "-", variables=VARIABLES)
        killed: set[int] = set()
        while len(killed) < 6:
            wanted = 10 * (len(killed) + 1)
            until(lambda: process.poll() is not None or done(out) >= wanted)  # noqa: B023 - called at once
            until(lambda: process.poll() is not None or owners(url) - killed)
            assert process.poll() is None, process.communicate()[1][-3000:]
            pid = max(owners(url) - killed, default=0)
            if pid:
                killed.add(pid)
                os.kill(pid, signal.SIGKILL)
        told = json.loads(ended(process))
    assert (told["done"], told["workers_lost"], told["stopped"]) == (100, 6, "")
    assert len(made.rows_of(out)) == 100
    assert outcomes(out) == outcomes(tmp_path / "alone")
    assert 200 <= len(answering.asked) <= 206
    assert not (out / "sessions").exists() and not list(command.home.glob("databases/*/bench-*/*.jsonl"))


def done(out: Path) -> int:
    """Results so far."""
    results = out / "results.jsonl"
    return results.read_text("ascii").count('"completed"') if results.exists() else 0


def owners(url: str) -> set[int]:
    """The processes that hold sessions of a database."""
    with opened(Address(url)) as link:
        if not link.execute("SELECT to_regclass('longstride.owner') IS NOT NULL").fetchone()[0]:
            return set()
        return {int(row[0]) for row in link.execute("SELECT pid FROM longstride.owner").fetchall()}


def test_a_worker_that_hangs_and_a_question_that_kills_its_workers(
    command: Command, tmp_path: Path, postgres: Server
) -> None:
    """One is stopped in mid-task, as by a machine that is out of reach: its trial goes on from its last step. The other
    one's loses its worker each time; it alone has no result."""
    data, out, answers, url = (
        made.multihop(tmp_path / "data", 6),
        tmp_path / "out",
        questions(6),
        postgres.database().url,
    )
    names = list(answers)
    stopped: list[int] = []

    class Hostile(made.Answering):
        def __call__(self, request: WireRequest) -> ScriptedTurn:
            reply = self._reply(request)
            if self.asked[-1] == names[1]:
                os.kill(owner_in(url, "q1"), signal.SIGKILL)
            elif self.asked[-1] == names[4] and not reply.tool_calls and not stopped:
                stopped.append(owner_in(url, "q4"))
                os.kill(stopped[0], signal.SIGSTOP)
            return reply

    with ModelServer(Hostile(answers)) as server:
        options = ("--backbone", str(made.backbone(tmp_path, server.url)), "-c", "python.enabled=false")
        run = multihop_run(data, out, *options, *RAY, "--sessions", url, "--json", "-")
        process = subprocess.run(
            [sys.executable, "-c", IMPATIENT, *run],
            env={**os.environ, "LONGSTRIDE_HOME": str(command.home), "PYTHONPATH": str(ROOT), **VARIABLES},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert process.returncode == 1, process.stderr[-3000:]
    told = json.loads(process.stdout)
    assert (told["done"], told["workers_lost"]) == (5, 4)
    rows = {row["task"]: row for row in made.rows_of(out)}
    assert {name for name, row in rows.items() if row["status"] == "completed"} == {"q0", "q2", "q3", "q4", "q5"}
    assert (rows["q1"]["status"], "3 workers died over it" in rows["q1"]["message"]) == ("crashed", True)
    assert (rows["q4"]["steps"], rows["q4"]["attempts"]) == (2, 2)
    until(lambda: not Path(f"/proc/{stopped[0]}").exists())


IMPATIENT = (
    "import sys, runners.bench.ray_executor as ray; ray.SILENCE_S = 20.0\n"
    "from runners.cli.app import main; sys.exit(main(sys.argv[1:]))"
)


def owner_in(url: str, task: str) -> int:
    """The process that holds a trial's session."""
    sql = "SELECT o.pid FROM longstride.owner o JOIN longstride.sessions s ON s.id = o.session WHERE s.name LIKE "
    with opened(Address(url)) as link:
        (row,) = link.execute(f"{sql}'%pace-{task}-r1%'").fetchall()
    return int(row[0])


def test_the_driver_killed_and_resumed(command: Command, tmp_path: Path) -> None:
    """The driver dies with -9 in the middle, its cluster with it; another one gives what one process gives."""
    data, out = made.multihop(tmp_path / "data", 6), tmp_path / "out"
    policies = ("--policy", "react,pace")
    assert command(*multihop_run(data, tmp_path / "alone", *policies)).code == 0
    process = command.start(*multihop_run(data, out, *policies, *RAY), variables=VARIABLES)
    results = out / "results.jsonl"
    until(lambda: (results.exists() and results.read_text().count('"completed"') >= 3) or process.poll() is not None)
    process.kill()
    process.communicate()
    before = made.rows_of(out)
    assert 3 <= len(before) < 12
    again = ("bench", "resume", str(out), "-q", "--concurrency", "2", *RAY)
    for _ in range(2):
        ended(command.start(*again, variables=VARIABLES))
        after = made.rows_of(out)
        assert after[: len(before)] == before
        assert len(after) == 12
    assert outcomes(out) == outcomes(tmp_path / "alone")


def test_two_workers_wait_for_a_model_nearly_twice_as_fast_as_one(command: Command, tmp_path: Path) -> None:
    """Calls a second while all workers are at work: from when each has made its first, a worker that starts takes
    seconds of a processor, until the last question is begun."""
    data, answers = made.multihop(tmp_path / "data", 8), questions(8)
    rates = []
    for workers in (1, 2):
        calls: list[tuple[float, str]] = []

        class Timed(made.Answering):
            def __call__(self, request: WireRequest) -> ScriptedTurn:
                turn = super().__call__(request)
                calls.append((time.monotonic(), self.asked[-1]))  # noqa: B023 - used in this round only
                return turn

        with ModelServer(Timed(answers, delay=DELAY_S)) as server:
            options = ("--backbone", str(made.backbone(tmp_path, server.url)), "-c", "python.enabled=false")
            run = multihop_run(data, tmp_path / f"out{workers}", *options, *RAY, "--concurrency", str(workers))
            ended(command.start(*run, variables=VARIABLES))
        firsts = {question: when for when, question in reversed(calls)}
        asked = list(dict.fromkeys(question for _, question in calls))
        begun, over = firsts[asked[workers - 1]], firsts[asked[-1]]
        rates.append((sum(begun <= when <= over for when, _ in calls) - 1) / (over - begun))
    # where others leave one worker alone so little of the processor, it is not the model that is waited for
    starved = 1 / rates[0] > 1.1 * DELAY_S
    assert rates[1] >= (1.3 if starved else 1.7) * rates[0], rates


def test_what_would_stop_every_trial_is_one_line(command: Command, tmp_path: Path) -> None:
    """A fault of a worker arrives as itself, not as Ray's traceback."""
    data = made.multihop(tmp_path / "data", 2)
    run = multihop_run(data, tmp_path / "out", "--backbone", "openai", *RAY)
    process = command.start(*run, variables={**VARIABLES, "OPENAI_API_KEY": ""})
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2, err[-3000:]
    (said,) = err.splitlines()
    assert "OPENAI_API_KEY" in said

"""How trials are dealt to workers, what happens when one dies, and limits over all that are at work at once.

The workers of `work_off` are scripted here; those of Ray are in `test_ray`.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.records import Reply, Usage
from memory.store.sqlite import SqliteStore
from runners.bench.crew import TRIES, Placement, Sign, Strength, WorkerDied, shard_of, work_off
from runners.bench.executors import LocalExecutor
from runners.bench.harness import Job, run
from runners.bench.landmarks import InFolder, Landmark, landmark
from runners.bench.planning import RunRequest, plan_run, variants_of
from runners.bench.progress import line
from runners.bench.ray_executor import (
    HeadGone,
    Hello,
    RayWorker,
    expect_answer,
    head_gone,
    patiently,
    places_of,
    read_runtime_env,
    versions,
)
from runners.bench.rows import TrialKey, TrialRow, Variant
from runners.bench.standing import Progress, RunLimits
from runners.bench.trial import Pulse, Tell, Trial, run_trial
from runners.devserver.model_server import ModelServer, ScriptedTurn, WireRequest
from runners.devserver.wire import Turn
from runners.environment import Environment, read_environment
from runners.errors import UsageFault
from tests.runners.bench import made
from tests.runners.command import Command


def trials(count: int, policies: Sequence[str] = ("pace",)) -> list[Trial]:
    return [Trial(TrialKey(policy, f"q{at}", 1), "?", {}, "") for at in range(count) for policy in policies]


@given(count=st.integers(0, 60), shards=st.integers(1, 9), order=st.data())
def test_every_trial_is_taken_once_whoever_asks(count: int, shards: int, order: st.DataObject) -> None:
    placement = Placement(trials(count, ("react", "pace")), shards)
    taken: list[TrialKey] = []
    while trial := placement.take(order.draw(st.integers(0, shards - 1))):
        taken.append(trial.key)
    assert len(placement) == 0
    assert Counter(taken) == Counter(trial.key for trial in trials(count, ("react", "pace")))


def test_the_policies_of_a_question_stay_together_and_in_order() -> None:
    placement = Placement(trials(40, ("react", "pace")), 4)
    mine = [trial.key for trial in iter(lambda: placement.take(2), None)]
    own = [key for key in mine if shard_of(key, 4) == 2]
    assert mine[: len(own)] == own
    assert [key.policy for key in own] == ["react", "pace"] * (len(own) // 2)
    numbers = [int(key.task[1:]) for key in own]
    assert numbers == sorted(numbers)
    # the rest was taken from the others, of each its last ones first
    assert len(mine) == 80


def test_a_shard_is_the_same_everywhere() -> None:
    assert [shard_of(TrialKey("pace", f"q{at}", 1), 4) for at in range(8)] == [2, 1, 0, 3, 2, 1, 0, 3]


@dataclass
class Scripted:
    """A worker that does what its script says of the n-th trial that it is given: ``done``, ``dies`` or ``waits``;
    ``done`` after the end. ``joins``: whether it comes up at the n-th time, True after the end."""

    name: str = "host/1"
    script: Iterator[str] = field(default_factory=lambda: iter(()))
    joins: Iterator[bool] = field(default_factory=lambda: iter(()))
    given: list[str] = field(default_factory=list)
    cancelled: int = 0

    async def join(self) -> None:
        if not next(self.joins, True):
            raise WorkerDied("no such package")

    async def run(self, trial: Trial, tell: Tell) -> TrialRow:
        key = trial.key
        self.given.append(key.task)
        tell(Pulse(key, 1, Usage(cost=1.0)))
        said = next(self.script, "done")
        if said == "dies":
            raise WorkerDied("killed")
        if said == "waits":
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled += 1
        return TrialRow(key.policy, key.task, key.rollout, "completed")


async def signs_of(workers: Sequence[Scripted], placement: Placement) -> list[Sign]:
    async with asyncio.timeout(30):
        return [sign async for sign in work_off(workers, placement)]


def rows_in(signs: Iterable[Sign]) -> list[TrialRow]:
    return [sign for sign in signs if isinstance(sign, TrialRow)]


async def test_a_trial_whose_worker_died_is_run_again_and_nothing_twice() -> None:
    workers = [Scripted("a/1", iter(["done", "dies", "done", "dies"])), Scripted("a/2", iter(["dies"]))]
    signs = await signs_of(workers, Placement(trials(12), 2))
    assert sorted(row.task for row in rows_in(signs)) == sorted(f"q{at}" for at in range(12))
    assert {row.status for row in rows_in(signs)} == {"completed"}
    assert {row.worker for row in rows_in(signs)} == {"a/1", "a/2"}
    given = Counter(workers[0].given + workers[1].given)
    assert sorted(given.values()) == [1] * 9 + [2] * 3
    strengths = [sign for sign in signs if isinstance(sign, Strength)]
    assert max(strength.present for strength in strengths) == 2
    assert strengths[-1].lost == 3
    # a trial with a result is not told of as under way again
    ended: set[TrialKey] = set()
    for sign in signs:
        assert not (isinstance(sign, Pulse) and sign.key in ended)
        if isinstance(sign, TrialRow):
            ended.add(sign.key)


async def test_a_trial_that_kills_its_workers_does_not_kill_the_run() -> None:
    """Nor hold it up: after the second time it comes last."""
    worker = Scripted(script=iter(["dies", "dies", "done", "done", "dies"]))
    *others, last = rows_in(await signs_of([worker], Placement(trials(3), 1)))
    assert worker.given == ["q0", "q0", "q1", "q2", "q0"]
    assert (last.status, last.task, last.finished) == ("crashed", "q0", False)
    assert "3 workers died over it, the last one host/1: killed" in last.message
    assert [(row.task, row.status) for row in others] == [("q1", "completed"), ("q2", "completed")]


async def test_a_worker_that_never_comes_up_leaves_its_shard_to_the_others() -> None:
    absent = Scripted("a/2", joins=iter([False] * TRIES))
    signs = await signs_of([Scripted("a/1"), absent], Placement(trials(8), 2))
    assert len(rows_in(signs)) == 8
    assert absent.given == []
    late = Scripted("a/2", joins=iter([False] * (TRIES - 1)))
    assert len(rows_in(await signs_of([late], Placement(trials(8), 2)))) == 8
    with pytest.raises(UsageFault, match="no worker is left: no such package"):
        await signs_of([Scripted(joins=iter([False] * TRIES))], Placement(trials(8), 1))


async def test_closing_ends_what_is_under_way() -> None:
    workers = [Scripted("a/1", iter(["waits"])), Scripted("a/2", iter(["waits"]))]
    signs = work_off(workers, Placement(trials(4), 2))
    async for sign in signs:
        if isinstance(sign, Pulse) and all(worker.given for worker in workers):
            break
    await signs.aclose()  # type: ignore[attr-defined]
    assert [worker.cancelled for worker in workers] == [1, 1]


PRICES = "prices:\n  scripted: {input: 1000, output: 1000}\n"


def job_of(command: Command, folder: Path, url: str, limits: RunLimits, heard: list[Progress]) -> Job:
    """A run of two questions over a served model whose tokens cost a cent each ten."""
    command.home.mkdir(exist_ok=True)
    (command.home / "prices.yaml").write_text(PRICES)
    data = made.multihop(folder / "data")
    backbone = str(made.backbone(folder, url))
    request = RunRequest("multihop", data, ("pace",), backbone, limit=2, overrides=("python.enabled=false",))
    plan, which, dataset = plan_run(request)
    return Job(folder / "out", plan, which, dataset, read_environment(), limits, told=heard.append)


async def test_money_under_way_counts_and_stays_on_record(command: Command, tmp_path: Path) -> None:
    """Two trials, neither ever done: what both have spent reaches the limit, and the next run begins with it."""

    def reply(request: WireRequest) -> ScriptedTurn:
        return Reply(
            "I look.", tool_calls=made.call("search"), stop_reason="tool_calls", usage=Usage(1000, output=1000)
        )

    heard: list[Progress] = []
    with ModelServer(reply) as server:
        job = job_of(command, tmp_path, server.url, RunLimits(max_cost=9), heard)
        ran = await run(job, LocalExecutor(2))
        assert "limit of 9 US dollars is reached: 10.0000 spent" in ran.stopped
        asked = len(server.requests)
        assert (await run(job, LocalExecutor(2))).stopped == ran.stopped
        assert len(server.requests) == asked
    rows = made.rows_of(tmp_path / "out")
    assert {row["status"] for row in rows} == {"interrupted"}
    assert sum(row["usage"]["cost"] for row in rows) == 10
    assert sum(row["steps"] for row in rows) == 5
    assert ran.progress.cost == 10
    assert ran.progress.without_result == 2
    assert max(now.under_way for now in heard) >= 1


async def test_time_is_up_in_the_middle_of_a_trial(command: Command, tmp_path: Path) -> None:
    with ModelServer(lambda _: Turn(Reply("x"), hang_after=0), allow_unused=True) as server:
        job = job_of(command, tmp_path, server.url, RunLimits(max_seconds=1.5), [])
        ran = await run(job, LocalExecutor(2))
        assert ran.stopped == "the limit of 1.5 seconds is reached"
        assert ran.progress.done == 0


def test_the_line_tells_of_all_workers() -> None:
    now = Progress(3, 9, {"pace": 0.5, "react": None}, 1.25, 1, under_way=2, workers=2, lost=1)
    assert line(now) == "pace 0.500  react …  $1.25  1 without result  2 under way  2 workers, 1 lost"
    assert line(Progress(0, 9, {}, None, 0)) == ""


def test_shards_are_spread_over_machines_by_their_room() -> None:
    def node(name: str, cpus: float, alive: bool = True) -> dict[str, object]:
        resources = {"CPU": cpus} if cpus else {}
        return {"NodeManagerAddress": f"10.0.0.{name}", "NodeID": name, "Alive": alive, "Resources": resources}

    nodes = [node("3", 3), node("1", 1), node("9", 0), node("2", 4, alive=False)]
    assert places_of(nodes) == ["1", "3", "3", "3"]
    assert places_of(list(reversed(nodes))) == places_of(nodes)
    assert places_of([]) == []


async def test_a_session_that_its_last_driver_still_holds_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    (trial,) = trials(1)
    statuses = iter(["store_busy", "store_busy", "completed"])

    async def busy_at_first(trial: Trial, *_: object) -> TrialRow:
        return TrialRow("pace", trial.key.task, 1, next(statuses))  # type: ignore[arg-type]

    monkeypatch.setattr("runners.bench.ray_executor.run_trial", busy_at_first)
    monkeypatch.setattr("runners.bench.ray_executor.AGAIN_S", 0.0)
    assert (await patiently(trial, Environment(Path()), lambda _: None)).status == "completed"
    monkeypatch.setattr("runners.bench.ray_executor.PATIENCE_S", 0.0)
    statuses = iter(["store_busy"])
    assert (await patiently(trial, Environment(Path()), lambda _: None)).status == "store_busy"


def variant(folder: Path) -> Variant:
    (only,) = variants_of(RunRequest("multihop", folder, ("pace",)))
    return only


async def test_a_session_in_use_is_no_crash(command: Command, tmp_path: Path) -> None:
    async with await SqliteStore.open(tmp_path / "session.sqlite", create=True) as store:
        await store.claim("somebody")
        key = TrialKey("pace", "q0", 1)
        row = await run_trial(Trial(key, "?", variant(tmp_path).tree(), str(tmp_path)), read_environment())
    assert row.status == "store_busy"
    assert "belongs to process" in row.message


MARK = InFolder(Path("mark"))


class Ray:
    """As much of Ray as a worker that says hello needs."""

    class exceptions:
        RuntimeEnvSetupError = type("RuntimeEnvSetupError", (Exception,), {})
        RayError = type("RayError", (Exception,), {})
        RayTaskError = type("RayTaskError", (RayError,), {})


@pytest.mark.parametrize(
    ("hello", "kind", "said"),
    [
        (Hello("b", "does not see /x", versions()), UsageFault, "the worker on b does not see /x"),
        (Hello("b", "", ("longstride 9", "Python 2")), UsageFault, "on b there is longstride 9 and Python 2, here"),
        (Ray.exceptions.RuntimeEnvSetupError("no\n\tlogs\nno such package"), UsageFault, "no … no such package"),
        (Ray.exceptions.RayError("it died\n\tlogs"), WorkerDied, "it died … logs"),
    ],
)
async def test_a_machine_that_lacks_something_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, hello: Hello | Exception, kind: type[Exception], said: str
) -> None:
    class Method:
        async def remote(self, mark: Landmark) -> Hello:
            if isinstance(hello, Exception):
                raise hello
            return hello

    worker = RayWorker(Ray, 0, Environment(Path()), InFolder(tmp_path / "mark"))
    monkeypatch.setattr(worker, "_begin", lambda: SimpleNamespace(hello=Method()))
    with pytest.raises(kind, match=said):
        await worker.join()


def test_nobody_at_the_address_is_said_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        expect_answer(address)
    with pytest.raises(UsageFault, match=f"Ray at {address}: "):
        expect_answer(address)
    expect_answer("auto")


async def test_a_head_that_is_gone_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while every worker waits; a head that is away for a moment ends nothing."""
    for name, value in (("GONE_S", 0.2), ("AGAIN_S", 0.01), ("BEAT_S", 0.01)):
        monkeypatch.setattr(f"runners.bench.ray_executor.{name}", value)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await head_gone(address)
    worker = Scripted(script=iter(["waits"]))
    with pytest.raises(HeadGone, match=f"Ray's head at {address} is gone"):
        async with asyncio.timeout(30):
            async for _ in work_off([worker], Placement(trials(2), 1), head_gone(address)):
                pass
    assert worker.cancelled == 1


async def test_a_worker_that_says_nothing_is_taken_for_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is heard of is waited for, however long its trial takes."""
    monkeypatch.setattr("runners.bench.ray_executor.SILENCE_S", 0.2)
    killed: list[object] = []
    row = TrialRow("pace", "q0", 1, "completed")

    async def saying(*signs: object, silent: bool) -> AsyncIterator[Awaitable[object]]:
        for sign in signs:
            await asyncio.sleep(0.05)
            yield asyncio.sleep(0, sign)
        if silent:
            await asyncio.Event().wait()

    def worker(*signs: object, silent: bool = False) -> RayWorker:
        made = RayWorker(SimpleNamespace(exceptions=Ray.exceptions, kill=killed.append), 0, Environment(Path()), MARK)
        made._actor = SimpleNamespace(run=SimpleNamespace(remote=lambda *_: saying(*signs, silent=silent)))
        return made

    heard: list[Pulse] = []
    pulse = Pulse(row.key, 1, Usage())
    (trial,) = trials(1)
    assert await worker(None, None, pulse, None, None, None, row).run(trial, heard.append) == row
    assert (heard, killed) == ([pulse], [])
    with pytest.raises(WorkerDied, match="without a result"):
        await worker(None).run(trial, heard.append)
    with pytest.raises(WorkerDied, match="silent"):
        await worker(None, silent=True).run(trial, heard.append)
    assert len(killed) == 1


@pytest.mark.parametrize(("text", "said"), [("- a", "not a mapping"), ("a: [", "cannot be read"), (None, "cannot be")])
def test_a_runtime_environment_that_is_none(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "env.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageFault, match=f"--ray-env .*{said}"):
        read_runtime_env(path)
    path.write_text("env_vars: {A: '1'}")
    assert read_runtime_env(path) == {"env_vars": {"A": "1"}}


def test_marks_of_killed_drivers_go(tmp_path: Path) -> None:
    old, new = tmp_path / ".cluster-0", tmp_path / ".cluster-1"
    old.touch()
    new.touch()
    os.utime(old, (0, 0))
    with landmark([Trial(TrialKey("pace", "q0", 1), "?", {}, str(tmp_path / "q0-r1"))]) as mark:
        assert [path for path in (old, new) if path.exists()] == [new]
        assert mark.missing() == f"does not see {tmp_path}"
        mark.show()
        assert mark.missing() == ""
    assert list(tmp_path.iterdir()) == [new]

"""Trials on a Ray cluster (extra ``ray``): one actor for each worker, spread over the machines."""

from __future__ import annotations

import asyncio
import atexit
import io
import logging
import os
import platform
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, redirect_stdout, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar, cast

from memory.records import JsonValue
from runners.bench.crew import Placement, Sign, WorkerDied, work_off
from runners.bench.landmarks import Landmark, landmark
from runners.bench.rows import TrialRow
from runners.bench.trial import Pulse, Tell, Trial, run_trial
from runners.environment import Environment
from runners.errors import UsageFault
from runners.logs import setup_logging

PATIENCE_S = 90.0
"""How long a worker waits for a session that another process still holds: that of a driver that was killed, which Ray
is about to end, or of a machine that is gone, which a database notices after a minute."""
AGAIN_S = 0.5
BEAT_S = 5.0
"""How often a worker is heard of at least, whatever its trial waits for."""
SILENCE_S = 60.0
"""After so long without a word a worker is taken for dead: it hangs, or its machine is out of reach."""
TOKEN = "RAY_AUTH_TOKEN"
GONE_S = 45.0
"""For how long nobody may listen at the head's address."""
RECIPE = "docs/cluster.md says how a cluster is started"
T = TypeVar("T")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where trials run. ``address`` None: a cluster on this machine, for the time of the run. ``runtime_env``: what Ray
    sets up for the workers (packages, variables)."""

    workers: int
    address: str | None = None
    runtime_env: Mapping[str, JsonValue] = field(default_factory=dict)


class RayExecutor:
    """Every worker has to reach the sessions, and see data and corpus under the same paths: the first is checked. A
    worker that dies costs nothing but time: its trial is taken up again from its last whole step."""

    def __init__(self, cluster: Cluster) -> None:
        """Raises UsageFault where Ray is not installed."""
        self._ray = _library()
        self._cluster = cluster

    async def run(self, trials: Sequence[Trial], environment: Environment) -> AsyncIterator[Sign]:
        """Raises UsageFault for a cluster that cannot be reached or does not have what workers need."""
        if not trials:
            return
        self._start(environment)
        gone = False
        try:
            with landmark(trials) as mark, redirect_stdout(_Said()):
                crew = [RayWorker(self._ray, number, environment, mark) for number in range(self._cluster.workers)]
                head = head_gone(self._ray.get_runtime_context().gcs_address)
                working = work_off(crew, Placement(trials, len(crew)), head)
                async with aclosing(working) as signs:  # type: ignore[type-var]
                    async for sign in signs:
                        yield sign
        except HeadGone:
            gone = True
            raise
        finally:
            self._stop(gone)

    def _stop(self, gone: bool) -> None:
        if gone:
            # it would wait for the head, and end the process without a word; without it Ray's threads crash at the end
            atexit.unregister(self._ray.shutdown)
            atexit.register(_leave)
        else:
            with redirect_stdout(_Said()):  # what it has held back until then
                self._ray.shutdown()
        os.environ.pop(TOKEN, None)

    def _start(self, environment: Environment) -> None:
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
        if self._cluster.runtime_env:
            options["runtime_env"] = dict(self._cluster.runtime_env)
        if self._cluster.address is None:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would report its use to its makers
            options |= {"address": "local", "num_cpus": self._cluster.workers, "include_dashboard": False}
        else:
            expect_answer(self._cluster.address)
            options["address"] = self._cluster.address
            if token := environment.secret(TOKEN):
                os.environ[TOKEN] = token  # the command line took it out, as all secrets; Ray looks for it there
        try:
            self._ray.init(**options)
        except (ConnectionError, ValueError, RuntimeError) as fault:
            where = self._cluster.address or "this machine"
            raise UsageFault(f"Ray at {where}: {fault}", hint=RECIPE) from fault


class _Said(io.TextIOBase):
    """What Ray prints, pages of it when a worker dies, goes to the log: standard output is the report's."""

    def write(self, text: str) -> int:
        if text.strip():
            _log.info("Ray: %s", text.strip())
        return len(text)


class RayWorker:
    """The driver's end of a worker: an actor, and a new one when that has died."""

    def __init__(self, ray: Any, number: int, environment: Environment, mark: Landmark) -> None:
        self._ray, self._number, self._environment, self._mark = ray, number, environment, mark
        self._actor: Any = None
        self.name = f"?/{number + 1}"

    async def join(self) -> None:
        """Raises WorkerDied, and UsageFault where a machine lacks what a run needs."""
        self._actor = await _aside(self._begin)
        await asyncio.to_thread(self._mark.show)
        try:
            hello: Hello = await self._actor.hello.remote(self._mark)
        except self._ray.exceptions.RuntimeEnvSetupError as fault:
            raise UsageFault(f"the runtime environment cannot be set up: {_reason(fault)}") from fault
        except self._ray.exceptions.RayError as fault:
            raise WorkerDied(_reason(fault)) from fault
        if hello.missing:
            raise UsageFault(f"the worker on {hello.host} {hello.missing}", hint=self._mark.hint)
        if hello.versions != versions():
            raise UsageFault(
                f"on {hello.host} there is {' and '.join(hello.versions)}, here {' and '.join(versions())}",
                hint="install the same on every machine",
            )
        self.name = f"{hello.host}/{self._number + 1}"

    async def run(self, trial: Trial, tell: Tell) -> TrialRow:
        exceptions = self._ray.exceptions
        try:
            return await self._heard(self._actor.run.remote(trial, self._environment), tell)
        except exceptions.RayTaskError as fault:
            raise fault.cause from None
        except (exceptions.RayError, TimeoutError) as fault:
            # it may be out of reach only: then it must not go on with what another worker takes up
            with suppress(exceptions.RayError):
                self._ray.kill(self._actor)
            silent = isinstance(fault, TimeoutError)
            raise WorkerDied(f"it was silent for {SILENCE_S:.0f} s" if silent else _reason(fault)) from fault

    async def _heard(self, said: AsyncIterator[Any], tell: Tell) -> TrialRow:
        """Raises TimeoutError for one that is silent."""
        while True:
            async with asyncio.timeout(SILENCE_S):
                try:
                    sign: Pulse | TrialRow | None = await (await anext(said))
                except StopAsyncIteration:
                    raise WorkerDied("it ended without a result") from None
            if isinstance(sign, TrialRow):
                return sign
            if sign is not None:
                tell(sign)

    def _begin(self) -> Any:
        """On the machine of its number, of those that are there, so that a shard stays where it was."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        places = places_of(self._ray.nodes())
        if not places:
            raise UsageFault("the cluster has no machine with a CPU", hint="`ray start --num-cpus=N` says how many")
        where = NodeAffinitySchedulingStrategy(places[self._number % len(places)], soft=True)
        return self._ray.remote(num_cpus=1, max_restarts=0, scheduling_strategy=where)(Remote).remote()


def places_of(nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    """Ids of the machines that are there, by address, each as often as it has CPUs, one of each before another's
    second."""
    there = sorted((node["NodeManagerAddress"], node["NodeID"]) for node in nodes if node["Alive"])
    room = {node["NodeID"]: int(node["Resources"].get("CPU", 0)) for node in nodes}
    return [name for nth in range(max(room.values(), default=0)) for _, name in there if room[name] > nth]


@dataclass(frozen=True, slots=True)
class Hello:
    """What a worker says of itself. ``missing``: what is wrong with its way to the sessions; empty for nothing."""

    host: str
    missing: str
    versions: tuple[str, ...]


class Remote:
    """The worker's end, an actor in a process of the cluster."""

    def __init__(self) -> None:
        self._logging = False

    async def hello(self, mark: Landmark) -> Hello:
        return Hello(socket.gethostname(), await asyncio.to_thread(mark.missing), versions())

    async def run(self, trial: Trial, environment: Environment) -> AsyncIterator[Pulse | TrialRow | None]:
        """What there is to tell of a trial, its row last; None for nothing. Raises what `run_trial` raises."""
        if not self._logging:
            self._logging = True
            setup_logging("warning", environment.secrets)  # Ray keeps what a worker logs in files
        loop = asyncio.get_running_loop()
        told: asyncio.Queue[Pulse | None] = asyncio.Queue()

        def tell(pulse: Pulse) -> None:
            loop.call_soon_threadsafe(told.put_nowait, pulse)

        # in a loop of its own: Ray's has to answer while a trial computes
        work = asyncio.create_task(asyncio.to_thread(asyncio.run, patiently(trial, environment, tell)))
        work.add_done_callback(lambda _: told.put_nowait(None))
        beating = asyncio.create_task(_beat(told))
        try:
            while not (work.done() and told.empty()):
                yield await told.get()
        finally:
            beating.cancel()
        yield await work


async def _beat(told: asyncio.Queue[Pulse | None]) -> None:
    while True:
        await asyncio.sleep(BEAT_S)
        told.put_nowait(None)


async def patiently(trial: Trial, environment: Environment, tell: Tell) -> TrialRow:
    """A trial whose session may still be in the hands of a process that is about to end."""
    until = time.monotonic() + PATIENCE_S
    while True:
        row = await run_trial(trial, environment, tell)
        if row.status != "store_busy" or time.monotonic() >= until:
            return row
        await asyncio.sleep(AGAIN_S)


def read_runtime_env(path: Path) -> Mapping[str, JsonValue]:
    """Ray's own form, as YAML or JSON. Raises UsageFault."""
    import yaml

    try:
        found = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as fault:
        raise UsageFault(f"--ray-env {path}: cannot be read: {fault}") from fault
    if not isinstance(found, dict):
        raise UsageFault(f"--ray-env {path}: not a mapping, such as `env_vars: {{NAME: value}}`")
    return found


def versions() -> tuple[str, ...]:
    """What has to be the same on all machines."""
    return (f"longstride {version('longstride')}", f"Python {platform.python_version()}")


def expect_answer(address: str) -> None:
    """Raises UsageFault at once where nobody listens: Ray itself would try for two minutes."""
    host, _, port = address.rpartition(":")
    if "://" in host or not port.isdecimal():
        return  # `auto`, or a form that only Ray can read
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except OSError as fault:
        raise UsageFault(f"Ray at {address}: {fault}", hint=RECIPE) from fault


async def _aside(work: Callable[[], T]) -> T:
    """Run what asks the head, and so may never come back, in a thread that nothing waits for at the end."""
    loop, result = asyncio.get_running_loop(), asyncio.Future[T]()

    def settle(value: T | None, fault: Exception | None) -> None:
        if not result.cancelled():
            result.set_exception(fault) if fault else result.set_result(cast(T, value))

    def run() -> None:
        try:
            value, fault = work(), None
        except Exception as raised:  # noqa: BLE001 - it is raised where it is waited for
            value, fault = None, raised
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, value, fault)

    threading.Thread(target=run, daemon=True, name="ray-join").start()
    return await result


def _leave() -> None:
    """The end of a process that Ray would not let go, after all has been said."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(2)  # as for every `RunnerFault`


class HeadGone(UsageFault):
    """Nobody listens at the head's address any more."""


async def head_gone(address: str) -> None:
    """Returns never. Raises HeadGone when nobody has listened there for a while: Ray itself says nothing for a
    minute, and then ends the process."""
    since = time.monotonic()
    while time.monotonic() - since < GONE_S:
        await asyncio.sleep(AGAIN_S)
        with suppress(UsageFault):
            await asyncio.to_thread(expect_answer, address)
            since = time.monotonic()
            await asyncio.sleep(BEAT_S)
    raise HeadGone(f"Ray's head at {address} is gone", hint="start the cluster anew, then go on: `bench resume`")


def _reason(fault: Exception) -> str:
    """The first and the last line of what Ray says; between them is where its logs are."""
    lines = [line.strip()[:200] for line in str(fault).splitlines() if line.strip()] or [type(fault).__name__]
    return " … ".join(dict.fromkeys((lines[0], lines[-1])))


def _library() -> Any:
    try:
        import ray
    except ImportError as fault:
        raise UsageFault("--executor ray needs Ray", hint="pip install 'longstride[ray]'") from fault
    return ray

"""One trial: a session asked one question, taken up where it was left, its figures read from its store."""

from __future__ import annotations

import asyncio
import errno
import logging
import shutil
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from agent.errors import AuthFailed, ModelMissing, Status
from agent.events import AnyEvent, Bus, ModelReplied, StepStarted
from agent.loop import NOTE
from agent.spending import Spending
from memory.errors import StoreBusy, StoreCorrupt, StoreFault, StoreFull
from memory.records import JsonValue, Step, Usage, add_usage
from memory.store.address import Address
from memory.stored import Event
from runners.bench.rows import FINISHED, TrialKey, TrialRow
from runners.bench.secrecy import private_folder
from runners.config import stored_config
from runners.environment import Environment
from runners.errors import RunnerFault
from runners.folders import SessionFolder
from runners.redact import Redactor
from runners.stores import begun, discard, open_store
from runners.toolbox import Inputs
from runners.wiring import SETTINGS, OpenSession, SessionRequest, open_session

BATCH = 256
"""Steps read from a store at once."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Trial:
    """All that a trial needs, small enough to travel to another process. ``config``: as stored in a session."""

    key: TrialKey
    prompt: str
    config: Mapping[str, JsonValue]
    folder: str
    files: tuple[str, ...] = ()
    corpus: str | None = None
    address: Address | None = None
    """Of its session, where that is in a database: then ``folder`` lasts as long as the work on it."""
    private: bool = False


@dataclass(frozen=True, slots=True)
class Pulse:
    """A trial under way. ``steps``: whole ones; ``usage``: of all its calls so far, also those before a resume."""

    key: TrialKey
    steps: int
    usage: Usage


Tell: TypeAlias = Callable[[Pulse], None]
"""Told before each call of the model. Quick, and never raises."""


async def run_trial(trial: Trial, environment: Environment, tell: Tell = lambda _: None) -> TrialRow:
    """Ask the trial's question, or go on with it. A fault of the program is logged and becomes the status ``crashed``.

    Raises RunnerFault, AuthFailed and ModelMissing: what would stop every other trial too.
    """
    folder, mine = _folder(trial), True
    try:
        return await _run(trial, folder, environment, tell)
    except (RunnerFault, AuthFailed, ModelMissing):
        raise
    except StoreBusy as fault:
        mine = False
        return without_result(trial.key, "store_busy", str(fault))
    except StoreFault as fault:
        if not fault.retryable:
            return _crashed(trial, fault, environment)
        return without_result(trial.key, "storage_failed", str(fault))
    except Exception as fault:  # noqa: BLE001 - one trial may not end the others
        return _crashed(trial, fault, environment)
    finally:
        if folder.address is not None and mine:
            # the folder above stays: another trial may be about to make its own in it
            await asyncio.to_thread(shutil.rmtree, folder.path, ignore_errors=True)


def _crashed(trial: Trial, fault: Exception, environment: Environment) -> TrialRow:
    if isinstance(fault, StoreFull) or (isinstance(fault, OSError) and fault.errno in (errno.ENOSPC, errno.EDQUOT)):
        return without_result(trial.key, "storage_full", str(fault))
    _log.exception("trial %s crashed", trial.key)
    redact = Redactor(environment.secrets.values())
    return without_result(trial.key, "crashed", redact(traceback.format_exc(limit=-4)))


def _folder(trial: Trial) -> SessionFolder:
    path = Path(trial.folder)
    if trial.address is not None and trial.private:  # the database was named for it, and no disk
        path = private_folder(path.parent) / path.name
    return SessionFolder(path, trial.address)


def without_result(key: TrialKey, status: Status, message: str) -> TrialRow:
    """How a trial ended of which nothing more can be said."""
    return TrialRow(key.policy, key.task, key.rollout, status, message=message, ended=time.time())


async def _run(trial: Trial, folder: SessionFolder, environment: Environment, tell: Tell) -> TrialRow:
    try:
        return await _work(trial, folder, environment, tell, new=not await begun(folder))
    except StoreCorrupt:
        if await _was_whole(folder):
            raise
        # killed before the session was whole: nothing of it was ever used
        await discard(folder)
        return await _work(trial, folder, environment, tell, new=True)


async def _was_whole(folder: SessionFolder) -> bool:
    """Whether a session was opened whole once: its settings are the last that is written then."""
    if folder.address is None:
        return folder.config.exists()
    async with await open_store(folder, create=False, read_only=True) as store:
        return await store.meta(SETTINGS) is not None


async def _work(trial: Trial, folder: SessionFolder, environment: Environment, tell: Tell, *, new: bool) -> TrialRow:
    inputs, bus = Inputs(trial.corpus, trial.files), Bus()
    config = stored_config(trial.config, str(trial.key)) if new else None
    folder.path.mkdir(parents=True, exist_ok=True)
    request = SessionRequest(folder, environment, bus, config, inputs, trial.prompt)
    async with open_session(request) as opened:
        bus.subscribe(_Telling(trial.key, await _used(opened), opened.loop.spending, tell))
        status, answer, message = await _outcome(opened, trial.prompt)
        return await _row(trial, opened, status, answer, message)


class _Telling:
    """Hears the loop and tells where the trial stands."""

    def __init__(self, key: TrialKey, used: Usage, spending: Spending, tell: Tell) -> None:
        self._key, self._used, self._spending, self._tell = key, used, spending, tell

    def __call__(self, event: AnyEvent) -> None:
        if isinstance(event, ModelReplied):
            self._used = add_usage(self._used, event.usage)
        elif isinstance(event, StepStarted):
            # the bus is not told of calls in the background; what counts the limits is
            cost = self._spending.limits.spent().cost or self._used.cost
            self._tell(Pulse(self._key, event.step - 1, replace(self._used, cost=cost)))


async def _used(opened: OpenSession) -> Usage:
    usage = Usage()
    for used in await opened.store.usage():
        usage = add_usage(usage, used.usage)
    return usage


async def _outcome(opened: OpenSession, prompt: str) -> tuple[Status, str, str]:
    """How the question ended. One that had ended already, its result lost on the way, is not worked on again."""
    before = _ended(await opened.store.events())
    if before is not None and before.body.get("status") in FINISHED:
        text = str(before.body.get("message", ""))
        status: Status = before.body["status"]  # type: ignore[assignment]
        return (status, text, "") if status == "completed" else (status, "", text)
    session = opened.session
    outcome = await (session.go_on() if opened.memory.question else session.ask(prompt))
    return outcome.status, outcome.answer, outcome.message


def _ended(events: Sequence[Event]) -> Event | None:
    """The end of the last stretch of work; None while one is open."""
    told = [event for event in events if event.kind in ("working", "ended")]
    return told[-1] if told and told[-1].kind == "ended" else None


@dataclass(slots=True)
class _Counts:
    tool_calls: int = 0
    tool_errors: int = 0
    unsupported: int = 0
    visited: tuple[str, ...] = ()
    created: tuple[float, ...] = ()

    def add(self, step: Step) -> None:
        self.created += (step.created,)
        for item in step.observations:
            if item.tool == NOTE:
                continue
            self.tool_calls += 1
            self.tool_errors += item.error is not None
            self.unsupported += item.tool == "parse_file" and item.error == "unsupported"
            if item.tool == "visit" and item.error is None:
                self.visited += tuple(source.url for source in item.sources)


async def _row(trial: Trial, opened: OpenSession, status: Status, answer: str, message: str) -> TrialRow:
    store, steps = opened.store, opened.memory.steps
    counts = _Counts()
    for first in range(1, steps + 1, BATCH):
        for chunk in await store.chunks(range(first, min(first + BATCH, steps + 1))):
            counts.add(chunk.step)
    plans = await store.plans()
    seconds, attempts = _time(await store.events(), counts.created)
    key = trial.key
    return TrialRow(
        policy=key.policy,
        task=key.task,
        rollout=key.rollout,
        status=status,
        answer=answer,
        message=message,
        steps=steps,
        tool_calls=counts.tool_calls,
        tool_errors=counts.tool_errors,
        unsupported=counts.unsupported,
        usage=await _used(opened),
        context_tokens=sum(plan.tokens for plan in plans),
        peak_tokens=max((plan.tokens for plan in plans), default=0),
        prefix_tokens=sum(plan.prefix_tokens or 0 for plan in plans),
        seconds=seconds,
        attempts=attempts,
        visited=tuple(dict.fromkeys(counts.visited)),
        session=Path(trial.folder).name,
        ended=time.time(),
    )


def _time(events: Sequence[Event], created: Sequence[float]) -> tuple[float, int]:
    """Seconds at work and how often it was begun. A stretch that was cut short counts up to its last step."""
    told = [(event.created, event.kind) for event in events if event.kind in ("working", "ended")]
    seconds, attempts, since, last = 0.0, 0, None, 0.0
    for when, kind in sorted([*told, *((when, "step") for when in created)]):
        if kind == "working":
            seconds += max(0.0, last - since) if since is not None else 0.0
            since, attempts = when, attempts + 1
        elif kind == "ended" and since is not None:
            seconds, since = seconds + when - since, None
        last = when
    return round(seconds, 3), max(1, attempts)

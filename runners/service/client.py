"""The client of the selection service. It never hangs and never breaks its agent: whatever the service does, dead, slow
or lying, a selection comes back within the deadline, by recency if need be.

Needs no extra. Usable from threads and from any event loop: the calls run on a loop of the client's own.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import json
import logging
import threading
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, TypeVar

import httpx
import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from memory.errors import MustKeepTooLarge
from memory.ports import TokenCounter
from memory.selection.ranked import last_k_fill
from memory.tokens import ScriptCounter
from runners.service.breaker import Breaker
from runners.service.selecting import Ask, check_ids

T = TypeVar("T")
PORT_URL = "http://127.0.0.1:8077"
MAX_ANSWER = 4 * 1024 * 1024
"""Bytes of an answer that are read."""
LEFT_ALONE = "the service failed before and is left alone"
CLOSED = "the client is closed"
_KEEP_S = 2.0
"""An idle connection is given up before the service does so."""
_LEAVE_S = 0.25
"""How long after the deadline a call is waited for that should have ended by itself."""
log = logging.getLogger(__name__)


class Untrue(Exception):
    """An answer that cannot be right."""


@dataclass(frozen=True, slots=True)
class Choice:
    """``ids`` in the order of the candidates; ``tokens`` is what they cost. ``fallback``: why recency made it; empty:
    the service did. ``selection``: its name there, for `SelectClient.used`."""

    ids: tuple[str, ...]
    tokens: int
    fallback: str = ""
    selection: str = ""


class _Answer(BaseModel):
    """What counts of an answer; the rest may be anything."""

    model_config = ConfigDict(extra="ignore", strict=True)

    selection: str = Field(max_length=200)
    selected: list[str]


class SelectClient:
    """``deadline_s`` bounds every call as a whole: connecting, sending, waiting and reading. After ``failures`` in
    a row the service is left alone for ``window_s``, so that a dead one costs at most one deadline per window (with
    ``failures`` 1)."""

    def __init__(
        self,
        url: str = PORT_URL,
        *,
        token: str | None = None,
        deadline_s: float = 2.0,
        failures: int = 1,
        window_s: float = 30.0,
        counter: TokenCounter | None = None,
    ) -> None:
        self._url = url.rstrip("/")
        self._headers = {"accept-encoding": "identity", "content-type": "application/json"}
        if token:
            self._headers["authorization"] = f"Bearer {token}"
        self._deadline_s = deadline_s
        self._counter = counter or ScriptCounter()
        self._breaker = Breaker(failures, window_s)
        self._unreported = 0
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._http: httpx.AsyncClient | None = None
        self._closed = False

    def select(self, ask: Ask) -> Choice:
        """Which candidates to keep. Raises ValueError for a request that cannot be meant, MustKeepTooLarge, and
        nothing else. Blocks: on an event loop use `aselect`."""
        ask = self._counted(ask)
        if self._closed or not self._breaker.admits():
            return self._fallback(ask, CLOSED if self._closed else LEFT_ALONE)
        future = self._begin(self._selected(ask, self._take_unreported()))
        try:
            return future.result(self._deadline_s + _LEAVE_S)
        except (concurrent.futures.TimeoutError, concurrent.futures.CancelledError):
            future.cancel()
            self._breaker.done(False)
            return self._fallback(ask, "the call did not end")

    async def aselect(self, ask: Ask) -> Choice:
        """As `select`, for coroutines."""
        ask = self._counted(ask)
        if self._closed or not self._breaker.admits():
            return self._fallback(ask, CLOSED if self._closed else LEFT_ALONE)
        call = asyncio.wrap_future(self._begin(self._selected(ask, self._take_unreported())))
        try:
            await asyncio.wait({call}, timeout=self._deadline_s + _LEAVE_S)
        except asyncio.CancelledError:
            call.cancel()
            raise
        if call.done() and not call.cancelled():
            return call.result()
        call.cancel()  # or it was, by `close`: no reason to cancel the agent as well
        self._breaker.done(False)
        return self._fallback(ask, "the call did not end")

    def used(self, choice: Choice, text: str) -> None:
        """Tell the service what the agent did next, which its estimate of recall is made from. Waits for nothing."""
        if choice.selection and not self._closed:
            self._begin(self._tell({"selection": choice.selection, "text": text}))

    def close(self) -> None:
        """End the client; calls under way fall back."""
        self._closed = True
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None and self._thread is not None:
            asyncio.run_coroutine_threadsafe(self._end(), loop)
            self._thread.join(self._deadline_s)

    def __enter__(self) -> SelectClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _counted(self, ask: Ask) -> Ask:
        """With all tokens counted here: what is checked must not be the service's own count."""
        places = check_ids(ask)
        if ask.budget < 0:
            raise ValueError(f"a budget cannot be negative: {ask.budget}")
        whole = tuple(
            one if one.tokens is not None else replace(one, tokens=self._counter.count(one.text))
            for one in ask.candidates
        )
        needed = sum(whole[places[name]].tokens or 0 for name in set(ask.must_keep))
        if needed > ask.budget:
            raise MustKeepTooLarge(needed=needed, budget=ask.budget, count=len(set(ask.must_keep)))
        return replace(ask, candidates=whole)

    async def _selected(self, ask: Ask, unreported: int) -> Choice:
        well = False
        try:
            async with asyncio.timeout(self._deadline_s):
                choice = checked(ask, await self._post("/select", _body(ask, unreported)))
            well = True
            return choice
        except TimeoutError:
            problem = f"no answer within {self._deadline_s:g} s"
        except (httpx.HTTPError, httpx.InvalidURL, OSError, Untrue) as fault:
            problem = " ".join(f"{type(fault).__name__} {fault}".split())[:300]
        except Exception as fault:
            log.exception("a call of the selection service failed in an unforeseen way")
            problem = type(fault).__name__
        finally:
            self._breaker.done(well)
        log.warning("the newest are taken, since the selection service failed: %s", problem)
        return self._fallback(ask, problem, unreported)

    async def _post(self, path: str, body: bytes) -> bytes:
        """The body of a 200. Raises Untrue for anything else."""
        if self._http is None:
            # what the environment says of proxies is not meant for a service of ours
            limits = httpx.Limits(keepalive_expiry=_KEEP_S)
            self._http = httpx.AsyncClient(timeout=self._deadline_s, trust_env=False, limits=limits)
        async with self._http.stream("POST", self._url + path, content=body, headers=self._headers) as response:
            if response.status_code != 200:
                raise Untrue(f"status {response.status_code}")
            if response.headers.get("content-encoding", "identity") != "identity":
                raise Untrue("the answer is compressed")
            parts = bytearray()
            async for part in response.aiter_raw():
                parts += part
                if len(parts) > MAX_ANSWER:
                    raise Untrue("the answer is too long")
            return bytes(parts)

    async def _tell(self, row: dict[str, str]) -> None:
        with contextlib.suppress(TimeoutError, httpx.HTTPError, httpx.InvalidURL, OSError, Untrue):
            async with asyncio.timeout(self._deadline_s):
                await self._post("/select/used", json.dumps(row).encode())

    def _fallback(self, ask: Ask, why: str, unreported: int = 0) -> Choice:
        with self._lock:
            self._unreported += unreported + 1
        return by_recency(ask, why)

    def _take_unreported(self) -> int:
        with self._lock:
            taken, self._unreported = self._unreported, 0
        return taken

    def _begin(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        with self._lock:
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                # the thread is not there yet, or was left behind by a fork, together with its connections
                self._http = None
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_run, args=(self._loop,), name="select-client", daemon=True)
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        if self._http is not None:
            await self._http.aclose()
            self._http = None
        asyncio.get_running_loop().stop()


def by_recency(ask: Ask, why: str) -> Choice:
    """The newest that fit, and what must be kept. Every candidate has its ``tokens``. Raises MustKeepTooLarge."""
    places = check_ids(ask)
    costs = np.array([one.tokens or 0 for one in ask.candidates], dtype=np.int64)
    rows = last_k_fill(costs, ask.budget, [places[name] for name in ask.must_keep])
    return Choice(tuple(ask.candidates[row].id for row in rows), int(costs[rows].sum()), fallback=why)


def checked(ask: Ask, raw: bytes) -> Choice:
    """An answer, proved: known ids, each once, must-keep among them, within the budget by our own count, put in the
    order of the candidates. Raises Untrue."""
    try:
        answer = _Answer.model_validate_json(raw)
    except ValidationError as fault:
        raise Untrue(f"no answer of a selection: {fault.errors()[0]['msg']}") from None
    chosen = set(answer.selected)
    if len(chosen) != len(answer.selected):
        raise Untrue("an id stands twice in the answer")
    known = {one.id: one.tokens or 0 for one in ask.candidates}
    if not chosen <= known.keys():
        raise Untrue("the answer names an id that is no candidate")
    if not chosen.issuperset(ask.must_keep):
        raise Untrue("the answer lacks what must be kept")
    tokens = sum(known[name] for name in chosen)
    if tokens > ask.budget:
        raise Untrue(f"the answer takes {tokens} tokens, and the budget is {ask.budget}")
    return Choice(tuple(name for name in known if name in chosen), tokens, selection=answer.selection)


def _body(ask: Ask, unreported: int) -> bytes:
    rows = [{"id": one.id, "text": one.text, "tokens": one.tokens} for one in ask.candidates]
    whole = {
        "query": ask.query,
        "candidates": rows,
        "budget": ask.budget,
        "strategy": ask.strategy,
        "must_keep": list(ask.must_keep),
        "k": ask.k,
        "mult": ask.mult,
        "drop_duplicates": ask.drop_duplicates,
        "fallbacks": min(unreported, 1_000_000),
    }
    return json.dumps(whole, ensure_ascii=False).encode("utf-8", "replace")


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()

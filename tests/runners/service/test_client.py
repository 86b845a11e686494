"""The client under a service that is dead, slow, broken or lying: its agent takes the same steps, by recency."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.errors import MustKeepTooLarge
from runners.service.breaker import Breaker
from runners.service.client import Choice, SelectClient, Untrue, by_recency, checked
from runners.service.selecting import Ask, Candidate
from tests.runners.service.liar import Behaviour, answering, dripping, flooding, lying, saying, silent
from tests.runners.service.serving import TOKEN, running
from tests.support.load import slack

ASK = Ask("q", tuple(Candidate(f"c{n}", f"text {n}", 10) for n in range(10)), 35, must_keep=("c2",))
NEWEST = ("c2", "c8", "c9")
DEADLINE_S = 0.4


def said(selected: object, **more: object) -> Behaviour:
    return answering(json.dumps({"selection": "s1", "selected": selected, **more}).encode())


GARBAGE: dict[str, Behaviour] = {
    "status 500": answering(b"{}", "500 Internal Server Error"),
    "status 204": answering(b"", "204 No Content"),
    "redirect": answering(b"", "302 Found", "location: http://127.0.0.1:1/\r\n"),
    "no json": answering(b"<html>proxy</html>"),
    "empty": answering(b""),
    "null": answering(b"null"),
    "a list": answering(b"[]"),
    "deep": answering(b"[" * 100_000),
    "cut": answering(b'{"selection": "s1", "selected": ["c2"', length=200),
    "no utf-8": answering(b'{"selection": "\xff", "selected": ["c2"]}'),
    "surrogate": answering(b'{"selection": "s", "selected": ["c2", "\\ud800"]}'),
    "no selection": answering(b'{"selected": ["c2"]}'),
    "ids that are no list": said({"c2": True}),
    "ids that are no text": said([2]),
    "unknown id": said(["c2", "c77"]),
    "id twice": said(["c2", "c2"]),
    "over the budget": said(["c0", "c1", "c2", "c3"]),
    "over the budget, denied": said(["c0", "c1", "c2", "c3"], tokens=1),
    "without must-keep": said(["c1"]),
    "nothing": said([]),
    "compressed": answering(b"\x1f\x8b\x08", headers="content-encoding: gzip\r\n"),
    "no http": saying(b"\x00\x01\x02\x03"),
    "other http": saying(b"HTTP/9.9 9999 ?\r\n\r\n"),
    "closes at once": saying(b""),
    "an endless header": dripping(b"HTTP/1.1 200 OK\r\nx-long: "),
    "an endless body": flooding,
    "dripping": dripping(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n"),
    "silent": silent,
}


def steps(client: SelectClient, count: int) -> Sequence[Choice]:
    """An agent: a selection before each of its steps."""
    return [client.select(ASK) for _ in range(count)]


@pytest.mark.parametrize("kind", GARBAGE)
def test_whatever_it_says_the_agent_takes_the_same_steps(kind: str) -> None:
    with lying(GARBAGE[kind]) as liar, SelectClient(liar.url, deadline_s=DEADLINE_S, window_s=60) as client:
        begun = time.monotonic()
        taken = steps(client, 20)
        spent = time.monotonic() - begun
    assert [choice.ids for choice in taken] == [NEWEST] * 20
    assert all(choice.fallback and choice.tokens == 30 for choice in taken)
    assert len(liar.calls) == 1, "the breaker lets one call through a window"
    assert spent < DEADLINE_S + slack()  # one deadline, and the noise of a loaded machine


def test_dead_costs_one_deadline_a_window() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        # accepts (the backlog does) and says nothing
        with SelectClient(url, deadline_s=0.2, window_s=60) as client:
            begun = time.monotonic()
            assert {choice.ids for choice in steps(client, 50)} == {NEWEST}
            assert time.monotonic() - begun < 1.2 * slack()
    with SelectClient(url, deadline_s=5, window_s=60) as client:  # nobody listens now
        assert {choice.ids for choice in steps(client, 50)} == {NEWEST}
    for url in ("http://127.0.0.1:99999", "not a url", "ftp://x", ""):
        with SelectClient(url, deadline_s=1) as client:
            assert client.select(ASK).ids == NEWEST


async def test_coroutines_fall_back_too_and_may_give_up() -> None:
    with lying(silent) as liar, SelectClient(liar.url, deadline_s=0.3, window_s=0.0) as client:
        assert (await client.aselect(ASK)).ids == NEWEST
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await client.aselect(ASK)
        # giving up leaves the breaker whole: the next one is tried again
        calls = len(liar.calls)
        async with asyncio.timeout(30):
            while len(liar.calls) == calls:
                assert (await client.aselect(ASK)).fallback
                await asyncio.sleep(0)


def test_a_good_answer_is_taken_and_falling_back_is_reported(tmp_path: Path) -> None:
    with running(tmp_path, token=TOKEN) as one:
        with SelectClient(one.url, token="wrong", window_s=60) as client:
            assert client.select(ASK).ids == NEWEST
        with SelectClient(one.url, token=TOKEN, window_s=0.0) as client:
            client._unreported = 3
            query = Ask("harbour", (Candidate("a", "the harbour of Varden"), Candidate("b", "lunch " * 40)), 20)
            choice = client.select(query)
            assert choice.ids == ("a",) and not choice.fallback and choice.selection
            assert one.service.metrics.fallbacks["client"] == 3
            assert client.select(ASK).selection
            assert one.service.metrics.fallbacks["client"] == 3
            client.used(choice, "The harbour of Varden opened.")
            seen = httpx.get(f"{one.url}/metrics", headers={"authorization": f"Bearer {TOKEN}"}).text
            while "longstride_used_strings_total 1" not in seen:
                seen = httpx.get(f"{one.url}/metrics", headers={"authorization": f"Bearer {TOKEN}"}).text
            assert "longstride_used_strings_kept_total 1" in seen and "longstride_fallback_rate 0.6" in seen
    assert client.select(ASK).fallback == "the client is closed"


def test_what_cannot_be_meant_is_said_before_any_call() -> None:
    with SelectClient("http://127.0.0.1:9") as client:
        with pytest.raises(MustKeepTooLarge):
            client.select(Ask("q", (Candidate("a", "", 50),), 10, must_keep=("a",)))
        for bad in (
            Ask("q", (Candidate("a", ""), Candidate("a", "")), 10),
            Ask("q", (Candidate("a", ""),), 10, must_keep=("b",)),
            Ask("q", (Candidate("a", "", -1),), 10),
            Ask("q", (), -1),
        ):
            with pytest.raises(ValueError):
                client.select(bad)


@given(st.binary(max_size=200) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["c1", "c2"]),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.sampled_from(["selection", "selected", "x"]), inner),
).map(lambda value: json.dumps(value).encode()))  # fmt: skip
def test_any_answer_is_proved_or_untrue(raw: bytes) -> None:
    try:
        choice = checked(ASK, raw)
    except Untrue:
        return
    assert set(choice.ids) <= {one.id for one in ASK.candidates} and "c2" in choice.ids and choice.tokens <= ASK.budget


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=20),
    st.integers(0, 200),
    st.sets(st.integers(0, 19), max_size=3),
)
def test_recency_holds_the_budget_and_what_must_be_kept(costs: list[int], budget: int, must: set[int]) -> None:
    keep = tuple(f"c{n}" for n in must if n < len(costs))
    ask = Ask("q", tuple(Candidate(f"c{n}", "", cost) for n, cost in enumerate(costs)), budget, must_keep=keep)
    try:
        choice = by_recency(ask, "why")
    except MustKeepTooLarge:
        assert sum(costs[int(name[1:])] for name in keep) > budget
        return
    assert choice.tokens <= budget and set(keep) <= set(choice.ids) and choice.fallback == "why"


def test_the_breaker_lets_one_try() -> None:
    now = [0.0]
    breaker = Breaker(2, 10.0, lambda: now[0])
    for _ in range(2):
        assert breaker.admits()
        breaker.done(False)
    assert not breaker.admits()
    now[0] = 10.0
    assert breaker.admits() and not breaker.admits()
    breaker.done(False)
    assert not breaker.admits()
    now[0] = 20.0
    assert breaker.admits()
    breaker.done(True)
    assert breaker.admits() and breaker.admits()

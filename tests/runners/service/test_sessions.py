"""Sessions over HTTP: filled, read, watched, closed and opened again; a run of the agent is watched."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from memory.store.address import Address
from runners.service import stream
from tests.runners.command import Command
from tests.runners.service.serving import Running, running

FACT = "Invoice 4711-B was paid on 3 March 2025 by Ingrid Solvang."


@pytest.fixture(params=["files", "database"])
def database(request: pytest.FixtureRequest) -> Address | None:
    """Where the sessions are; None: in files."""
    made: Address | None = request.getfixturevalue("postgres").database() if request.param == "database" else None
    return made


@pytest.fixture
def one(tmp_path: Path, database: Address | None) -> Iterator[Running]:
    with running(tmp_path, max_sessions=2, database=database) as service:
        yield service


def fill(http: httpx.Client, name: str, count: int) -> None:
    assert http.post("/v1/sessions", json={"name": name}).status_code == 201
    for number in range(1, count + 1):
        text = FACT if number == 2 else f"Turn {number} is about nothing much."
        body = {"text": text, "role": "tool", "tool": "visit"} if number == 2 else {"text": text}
        assert http.post(f"/v1/sessions/{name}/ingest", json=body).json() == {"chunk": f"c{number}"}


def read_events(
    http: httpx.Client, path: str, wanted: int, headers: dict[str, str] | None = None
) -> list[dict[str, Any]]:
    """The first ``wanted`` events of a stream: name, id and data."""
    found: list[dict[str, Any]] = []
    one: dict[str, Any] = {}
    with http.stream("GET", path, headers=headers) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        for line in answer.iter_lines():
            name, _, value = line.partition(": ")
            if line:
                one[name] = json.loads(value) if name == "data" else value
            elif "event" in one:
                found.append(one)
                one = {}
                if len(found) == wanted:
                    break
    return found


def test_a_session_is_filled_searched_read_and_assembled(one: Running) -> None:
    with httpx.Client(base_url=one.url, timeout=30) as http:
        fill(http, "a", 6)
        assert "Solvang" in http.post("/v1/sessions/a/search", json={"query": "4711-B"}).json()["found"][0]["passage"]
        assert FACT in http.post("/v1/sessions/a/glimpse", json={"chunk": "c2"}).json()["text"]
        built = http.post("/v1/sessions/a/assemble", json={"question": "Who paid 4711-B?", "budget": 1500}).json()
        assert built["tokens"] <= built["budget"] == 1500 and "Who paid" in json.dumps(built["messages"])
        session = http.get("/v1/sessions/a").json()
        assert session == {**session, "session": "a", "steps": 6, "writable": True}
        steps = http.get("/v1/sessions/a/steps", params={"after": 1, "limit": 2}).json()
        assert [step["step"] for step in steps] == [2, 3]
        given = http.post("/v1/sessions", json={}).json()["session"]
        assert {entry["session"] for entry in http.get("/v1/sessions").json()} == {"a", given}
        assert str(one.home) not in http.get("/v1/sessions").text
        for name, status in (("c9", 404), ("first", 422)):
            assert http.post("/v1/sessions/a/glimpse", json={"chunk": name}).status_code == status
        assert http.post("/v1/sessions/a/assemble", json={"budget": 3}).status_code == 422
        assert http.post("/v1/sessions/a/ingest", json={"text": "   "}).status_code == 422
        assert http.post("/v1/sessions/none/ingest", json={"text": "x"}).status_code == 404
        assert http.post("/v1/sessions", json={"name": "../x"}).status_code == 422
        # more sessions than may be open: the ones unused for longest are closed, and opened again when asked for
        for name in ("b", "c", "d"):
            fill(http, name, 2)
        assert len(one.service.sessions) <= 2
        assert http.post("/v1/sessions/a/ingest", json={"text": "and one more"}).json() == {"chunk": "c7"}


def test_events_are_sent_as_they_happen_and_resumed(one: Running) -> None:
    with httpx.Client(base_url=one.url, timeout=30) as http:
        fill(http, "a", 3)
        found = read_events(http, "/v1/sessions/a/events", 3)
        assert [(event["event"], event["id"], event["data"]["step"]) for event in found] == [
            ("step", str(n), n) for n in (1, 2, 3)
        ]
        http.post("/v1/sessions/a/assemble", json={"question": "Who?"})
        http.post("/v1/sessions/a/ingest", json={"text": "four"})
        later = read_events(http, "/v1/sessions/a/events", 2, {"last-event-id": "3"})
        assert [event["event"] for event in later] == ["plan", "step"] and later[1]["id"] == "4"
        assert later[0]["data"]["tokens"] <= later[0]["data"]["budget"]


def test_who_is_far_behind_is_told_so(one: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "BACKLOG", 4)
    with httpx.Client(base_url=one.url, timeout=30) as http:
        fill(http, "a", 8)
        (resync,) = read_events(http, "/v1/sessions/a/events?after=2", 1)
        assert resync["event"] == "resync" and resync["data"] == {"from": 2, "newest": 8}


async def test_a_stream_pages_and_ends(one: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "PAGE", 2)
    with httpx.Client(base_url=one.url, timeout=30) as http:
        await asyncio.to_thread(fill, http, "a", 5)
    closing = asyncio.Event()
    steps = []
    async with one.service.sessions.reading("a") as store:
        async for text in stream.events(store, 0, closing, poll_s=0.001):
            if "event: step" in text:
                steps.append(int(text.split("\n")[0].removeprefix("id: ")))
            if len(steps) == 5:
                closing.set()
    assert steps == [1, 2, 3, 4, 5]


def test_streams_are_bounded_and_end_with_the_service(tmp_path: Path, database: Address | None) -> None:
    with running(tmp_path, max_streams=1, database=database) as one, httpx.Client(base_url=one.url, timeout=30) as http:
        fill(http, "a", 1)
        with http.stream("GET", "/v1/sessions/a/events") as answer:
            lines = answer.iter_lines()
            while "event: step" not in next(lines):
                pass
            assert httpx.get(f"{one.url}/v1/sessions/a/events").status_code == 503
            one.service.closing.set()
            assert [line for line in lines if "event: step" in line] == [], "it ends, with nothing more to say"


def test_a_run_of_the_agent_is_watched_and_not_written_to(
    command: Command, corpus: Path, database: Address | None
) -> None:
    out = ("--out", f"{database}#film") if database else ()
    ended = command("run", "Who directed The Salt Road?", "--corpus", str(corpus), "-q", *out)
    assert ended.code == 0, ended.err
    with running(command.home, database=database) as one, httpx.Client(base_url=one.url, timeout=30) as http:
        (entry,) = http.get("/v1/sessions").json()
        name = entry["session"]
        assert entry["status"] == "completed" and http.get(f"/v1/sessions/{name}").json()["writable"] is False
        assert http.post(f"/v1/sessions/{name}/ingest", json={"text": "x"}).status_code == 409
        events = read_events(http, f"/v1/sessions/{name}/events", 2 * entry["steps"])
        assert {event["event"] for event in events} >= {"plan", "step"}


def test_a_session_of_another_process_is_busy(tmp_path: Path, database: Address | None) -> None:
    with running(tmp_path, database=database) as one, httpx.Client(base_url=one.url, timeout=30) as http:
        fill(http, "a", 2)
        with running(tmp_path, database=database) as two:
            answer = httpx.post(f"{two.url}/v1/sessions/a/ingest", json={"text": "x"}, timeout=30)
            assert answer.status_code == 409 and answer.json()["error"]["kind"] == "busy"
            assert httpx.get(f"{two.url}/v1/sessions/a/steps").json()[0]["step"] == 1

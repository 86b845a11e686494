"""Those who want the service down: hostile bodies, connections, streams, files and neighbours."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from runners.service import door, records
from runners.service.passes import Passes
from runners.service.records import Recent
from runners.service.selecting import Ask, Candidate, Selected
from tests.runners.service.liar import lying, silent
from tests.runners.service.serving import Running, running
from tests.runners.viewer.made import make_session, settle

JSON = {"content-type": "application/json"}
POLICY = b"content-security-policy: default-src 'none'"
HEAD = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n"


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path, max_streams=3) as service:
        yield service


def wire(one: Running, data: bytes = b"") -> socket.socket:
    made = socket.create_connection(("127.0.0.1", one.port), 20)
    made.sendall(data)
    return made


def rest(made: socket.socket) -> bytes:
    """What comes until the other side closes."""
    with made:
        try:
            return b"".join(iter(lambda: made.recv(65_536), b""))
        except ConnectionResetError:
            return b""


@pytest.mark.parametrize(
    ("part", "count", "said"),
    [
        (b'"candidates": [%s]', 200_000, "candidates.0.id: Field required; candidates.0.text: Field required"),
        (b'"candidates": [], "must_keep": [%s]', 200_000, "must_keep.0: Input should be a valid string"),
        (b'"candidates": [], %s', 3_000, "SelectIn: 3000 problems"),
    ],
)
def test_of_a_million_problems_the_first_few_are_looked_at(one: Running, part: bytes, count: int, said: str) -> None:
    """Eight MiB of empty objects took 85 seconds and 5 GB, since each problem was made to be told."""
    rows = b",".join(b'"k%d": 1' % n for n in range(count)) if b"[%s]" not in part else b",".join([b"{}"] * count)
    body = b'{"query": "q", "budget": 1, ' + part % rows + b"}"
    answer = httpx.post(f"{one.url}/select", content=body, headers=JSON, timeout=60)
    assert answer.status_code == 422 and answer.json()["error"]["message"] == said


def test_lists_are_bounded_everywhere(one: Running) -> None:
    assert httpx.post(f"{one.url}/prewarm", json={"texts": ["a"] * 5_001}, timeout=60).status_code == 422
    rows = [{"id": "a", "text": ""}] * 100_001
    answer = httpx.post(f"{one.url}/select", json={"query": "q", "candidates": rows, "budget": 1}, timeout=60)
    assert answer.status_code == 422 and "at most 100000" in answer.json()["error"]["message"]


def test_bodies_may_take_so_much_together(tmp_path: Path) -> None:
    with running(tmp_path, max_body=1024) as one:
        head = b"POST /select HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        held = [wire(one, head + b"content-length: 1000\r\n\r\n" + b" " * 999) for _ in range(32)]
        said = b""
        while b"503" not in said:  # the others' bodies arrive meanwhile
            said = rest(wire(one, head + b"connection: close\r\ncontent-length: 1000\r\n\r\n" + b" " * 1000))
        assert b"too many bodies" in said
        for made in held:
            made.sendall(b" ")
            assert made.recv(20).startswith(b"HTTP/1.1 400")
            made.close()
        assert httpx.post(f"{one.url}/select", content=b"{}", headers=JSON).status_code == 422, "all is given back"


@pytest.mark.parametrize("begun", [b"", b"GET /healthz HTTP/1.1\r\nhost: loc", HEAD + b"content-length: 99\r\n\r\n"])
def test_who_never_ends_asking_is_left(one: Running, monkeypatch: pytest.MonkeyPatch, begun: bytes) -> None:
    """Such connections were kept for ever, and 512 of them shut everybody out."""
    monkeypatch.setattr(door, "HEAD_S", 0.2)
    made = wire(one, begun)
    dripping = threading.Event()

    def drip() -> None:
        while not dripping.wait(0.02):
            try:
                made.sendall(b"x")
            except OSError:
                return

    thread = threading.Thread(target=drip)
    thread.start()
    rest(made)
    dripping.set()
    thread.join()


def test_who_asks_in_time_stays(one: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "HEAD_S", 5.0)
    made = wire(one)
    for _ in range(3):
        made.sendall(HEAD)
        made.sendall(b"\r\n" + HEAD + b"\r\n")  # two at once
        said = b""
        while said.count(b'{"status":"ok"}') < 2:
            said += made.recv(4096)
    made.close()


def test_who_never_reads_is_left(one: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "UNREAD_S", 0.2)
    made = wire(one)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    with pytest.raises(OSError):  # reset, or full until the time is over
        for _ in range(100_000):
            made.sendall(b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n" * 10)
    made.close()
    assert httpx.get(f"{one.url}/healthz").status_code == 200


def test_connections_are_bounded_and_what_is_no_http_is_told_so(one: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "CONNECTIONS", 4)
    held = [wire(one, b"GET") for _ in range(4)]
    said = b""
    while b" 503 " not in said:
        said = rest(wire(one))
    assert POLICY in said and b"too many connections" in said
    for made in held:
        made.close()
    said = b" 503 "
    while b" 503 " in said:  # they leave
        said = rest(wire(one, b"\x16\x03\x01\x02\x00\r\n\r\n"))
    assert said.startswith(b"HTTP/1.1 400 ") and POLICY in said and b'"kind": "http"' in said
    chunked = b"POST /select HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    said = rest(wire(one, chunked + b"transfer-encoding: chunked\r\n\r\nzz\r\n"))
    assert said.startswith(b"HTTP/1.1 400 ") and POLICY in said


def test_streams_that_begin_together_are_counted(one: Running) -> None:
    httpx.post(f"{one.url}/v1/sessions", json={"name": "a"}).raise_for_status()
    wires = [wire(one) for _ in range(24)]
    for made in wires:
        made.sendall(b"GET /v1/sessions/a/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
    said = [made.recv(12)[-3:] for made in wires]
    assert sorted(said) == [b"200"] * 3 + [b"503"] * 21
    assert one.service.streams == 3
    for made in wires:
        made.close()
    while "longstride_streams_open 0" not in httpx.get(f"{one.url}/metrics").text:
        pass


def test_files_that_are_no_sessions(one: Running, caplog: pytest.LogCaptureFixture) -> None:
    runs = one.home / "runs"
    for name, data in (("garbage", os.urandom(5000)), ("empty", b""), ("cut", b"SQLite format 3\0")):
        (runs / name).mkdir(parents=True)
        (runs / name / "session.sqlite").write_bytes(data)
    (runs / "elsewhere").symlink_to(one.home)
    (runs / "my session").mkdir()
    (runs / "my session" / "config.yaml").touch()
    with caplog.at_level(logging.WARNING), httpx.Client(base_url=one.url, timeout=30) as http:
        for name in ("garbage", "empty", "cut"):
            for path in (f"/v1/sessions/{name}", f"/v1/sessions/{name}/steps", f"/v1/sessions/{name}/events"):
                answer = http.get(path)
                assert answer.status_code == 500 and answer.json()["error"]["kind"] in ("corrupt", "store"), path
                assert str(one.home) not in answer.text
        assert not [record for record in caplog.records if record.exc_info], "a broken file is no fault of the program"
        assert http.post("/v1/sessions", json={"name": "elsewhere"}).status_code == 409
        listed = {entry["session"]: entry["status"] for entry in http.get("/v1/sessions").json()}
        assert listed == dict.fromkeys(("garbage", "empty", "cut", "my session"), "broken")
        opens = {entry["session"]: entry["opens"] for entry in http.get("/ui/api/sessions").json()}
        assert opens["garbage"] and not opens["my session"]


def test_a_session_whose_settings_are_no_longer_understood(one: Running) -> None:
    async def make() -> None:
        folder = await make_session(one.home, "old", steps=2)
        await settle(folder, {"config": {"policy": {"name": "gone"}}, "inputs": {}})

    asyncio.run(make())
    answer = httpx.get(f"{one.url}/v1/sessions/old")
    assert answer.status_code == 409 and answer.json()["error"]["kind"] == "config" and "gone" in answer.text
    assert httpx.get(f"{one.url}/ui/api/sessions/old/head").json()["replannable"] is False


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="names of files are bytes on Linux")
def test_a_name_that_is_no_text_hides_no_other(one: Running) -> None:
    folder = os.fsencode(one.home / "runs") + b"/\xff\xfe"
    os.makedirs(folder)  # noqa: PTH103
    (Path(os.fsdecode(folder)) / "config.yaml").touch()
    httpx.post(f"{one.url}/v1/sessions", json={"name": "a"}).raise_for_status()
    for path in ("/v1/sessions", "/ui/api/sessions"):
        assert {entry["session"] for entry in httpx.get(one.url + path).json()} == {"a", "\ufffd\ufffd"}


@pytest.mark.parametrize("other", ['a={"x": 1}', "a=b c", 'a="', "a=\xe9", "a[0]=1", "secure", "path=/", ";;", "="])
def test_cookies_of_other_services_on_this_machine_do_no_harm(other: str) -> None:
    passes = Passes()
    value = passes.enter(passes.issue())
    assert passes.admits("/ui/", f"{other}; {passes.cookie}={value}")
    assert not passes.admits("/ui/", f"{other}; {passes.cookie}=x") and not passes.admits("/ui/", other)


def test_what_is_remembered_of_small_selections_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_HELD", 100_000)
    recent = Recent()
    names = [recent.add(Ask("q", (Candidate("a", "b"),), 9), Selected(("a",), 1)) for _ in range(1_000)]
    assert recent.used(names[-1], "B2") == (0, 0)
    assert sum(recent.used(name, "B2") is not None for name in names) < 100


def test_what_waits_to_be_logged_is_bounded(tmp_path: Path) -> None:
    with running(tmp_path, sample=1.0) as one:
        over = threading.Event()
        one.service._logger.submit(over.wait, 30)
        body = json.dumps({"query": "q", "candidates": [{"id": "a", "text": "q"}], "budget": 9})
        for _ in range(12):
            httpx.post(f"{one.url}/select", content=body, headers=JSON).raise_for_status()
        assert one.service._logger._work_queue.qsize() <= 4
        over.set()
    assert len((tmp_path / "service" / "selections.jsonl").read_text().splitlines()) == 4


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_client_whose_thread_is_gone_goes_on(one: Running) -> None:
    """As after a fork: threads do not follow into the child. A coroutine waited for it without end."""
    from runners.service.client import SelectClient

    ask = Ask("harbour", (Candidate("a", "the harbour"), Candidate("b", "lunch " * 40)), 20)
    with SelectClient(one.url, deadline_s=5) as client:
        assert not client.select(ask).fallback
        assert client._loop is not None and client._thread is not None
        client._loop.call_soon_threadsafe(client._loop.stop)
        await asyncio.to_thread(client._thread.join, 10)
        async with asyncio.timeout(20):
            assert not (await client.aselect(ask)).fallback
    gc.collect()  # the connection that was left behind


async def test_closing_a_client_cancels_no_agent() -> None:
    from runners.service.client import SelectClient

    ask = Ask("q", (Candidate("a", "b", 1),), 20)
    with lying(silent) as liar:
        client = SelectClient(liar.url, deadline_s=20)
        call = asyncio.create_task(client.aselect(ask))
        while not liar.calls:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        await asyncio.to_thread(client.close)
        choice = await call
    assert choice.ids == ("a",) and choice.fallback

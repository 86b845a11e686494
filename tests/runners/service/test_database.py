"""Services that keep their sessions in one PostgreSQL: on several hosts, at once, and while it is away."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from memory.errors import StoreFault
from memory.store.address import Address
from memory.store.postgres_link import fault_of
from runners.service.deadline import OVERDUE
from tests.conftest import memory_disk
from tests.runners.service.process import serving
from tests.runners.service.serving import Running, running
from tests.support.postgres import Server
from tests.support.postgres import running as server_running

CANARY = "canary-p4ss-word"


@pytest.fixture
def database(postgres: Server) -> Address:
    return postgres.database()


@pytest.fixture
def own_server(postgres: Server) -> Iterator[Server]:
    """One that may be stopped."""
    with server_running(postgres.programs, memory_disk()) as server:
        yield server


def client(service: Running) -> httpx.Client:
    return httpx.Client(base_url=service.url, timeout=60)


def ingest(http: httpx.Client, name: str, text: str) -> str:
    answer = http.post(f"/v1/sessions/{name}/ingest", json={"text": text})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["chunk"])


def unavailable(answer: httpx.Response) -> None:
    """The one answer for a database that is away, of which it says nothing."""
    error = answer.json()["error"]
    assert (answer.status_code, error["kind"]) == (503, "unavailable"), answer.text
    assert int(answer.headers["retry-after"]) > 0
    assert not any(word in answer.text for word in ("127.0.0.1", "longstride", "postgresql", "Traceback", CANARY))


def connections(server: Server, database: Address) -> int:
    name = database.url.rpartition("/")[2]
    with server.connect() as connection:
        found = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = %s", (name,)).fetchone()
    return int(found[0])


def cut(server: Server, database: Address) -> None:
    """Break the connections of those who own a session."""
    with server.connect(database.url.rpartition("/")[2]) as connection:
        connection.execute("SELECT pg_terminate_backend(pid, 10000) FROM pg_locks WHERE locktype = 'advisory'")


def test_another_host_goes_on_with_what_is_in_the_database(tmp_path: Path, postgres: Server, database: Address) -> None:
    homes = [tmp_path / name for name in ("first", "second")]
    with running(homes[0], database=database) as one, client(one) as http:
        assert http.post("/v1/sessions", json={"name": "harbour"}).status_code == 201
        for number in range(1, 4):
            assert ingest(http, "harbour", f"Turn {number}: quay {number} was paid for by Ingrid.") == f"c{number}"
        built = http.post("/v1/sessions/harbour/assemble", json={"question": "Who paid?", "budget": 1500}).json()
    assert connections(postgres, database) == 0
    assert not (homes[0] / "runs").exists()
    with running(homes[1], database=database) as two, client(two) as http:
        (entry,) = http.get("/v1/sessions").json()
        assert (entry["session"], entry["steps"], entry["question"]) == ("harbour", 3, "Who paid?")
        found = http.get("/v1/sessions/harbour").json()
        assert found == {**found, "steps": 3, "writable": True}
        again = http.post("/v1/sessions/harbour/assemble", json={"question": "Who paid?", "budget": 1500}).json()
        assert again == built
        assert ingest(http, "harbour", "And one more.") == "c4"
        assert "quay 2" in http.post("/v1/sessions/harbour/glimpse", json={"chunk": "c2"}).json()["text"]
        assert http.post("/v1/sessions/harbour/search", json={"query": "quay 3"}).json()["found"][0]["chunk"] == "c3"
        for path in ("none", "none/steps", "none/events"):
            assert http.get(f"/v1/sessions/{path}").status_code == 404
        assert http.post("/v1/sessions/none/ingest", json={"text": "x"}).status_code == 404
        for name in ("../x", "a b", "x" * 65, "-a", "a#b", "ä"):
            assert http.post("/v1/sessions", json={"name": name}).status_code == 422
        assert [entry["session"] for entry in http.get("/v1/sessions").json()] == ["harbour"]


def test_more_sessions_than_may_be_open_take_no_more_connections(
    tmp_path: Path, postgres: Server, database: Address
) -> None:
    with running(tmp_path, database=database, max_sessions=3) as one, client(one) as http:
        names = [f"s{number}" for number in range(9)]
        for turn in (1, 2):
            for name in names:
                assert http.post("/v1/sessions", json={"name": name}).status_code == 201
                assert ingest(http, name, f"turn {turn} of {name}") == f"c{turn}"
        assert len(one.service.sessions) == 3
        assert connections(postgres, database) <= 3 + 2, "one for each, and two that read"
        for name in names:
            steps = http.get(f"/v1/sessions/{name}/steps").json()
            assert [step["step"] for step in steps] == [1, 2] and f"of {name}" in steps[0]["line"]


def test_of_two_services_that_begin_a_session_at_once_one_has_it(tmp_path: Path, database: Address) -> None:
    start = threading.Barrier(8)

    def begin(http: httpx.Client) -> int:
        start.wait(30)
        return http.post("/v1/sessions", json={"name": "both"}).status_code

    with (
        running(tmp_path / "1", database=database) as one,
        running(tmp_path / "2", database=database) as two,
        client(one) as first,
        client(two) as second,
        ThreadPoolExecutor(8) as threads,
    ):
        codes = list(threads.map(begin, [first, second] * 4))
        assert {frozenset(codes[0::2]), frozenset(codes[1::2])} == {frozenset({201}), frozenset({409})}
        owner, other = (first, second) if codes[0] == 201 else (second, first)
        refused = other.post("/v1/sessions/both/ingest", json={"text": "x"})
        assert refused.status_code == 409 and refused.json()["error"]["kind"] == "busy"
        assert ingest(owner, "both", "mine") == "c1"
        assert [step["step"] for step in other.get("/v1/sessions/both/steps").json()] == [1]


def test_who_lost_a_session_to_another_service_gets_it_back(
    tmp_path: Path, postgres: Server, database: Address
) -> None:
    """Its connection is cut and another service is quicker: it stops, and opens the session anew once that is free."""
    with (
        running(tmp_path / "1", database=database) as one,
        client(one) as first,
    ):
        first.post("/v1/sessions", json={"name": "s"})
        assert ingest(first, "s", "one") == "c1"
        with running(tmp_path / "2", database=database) as two, client(two) as second:
            cut(postgres, database)
            while second.post("/v1/sessions/s/ingest", json={"text": "two"}).status_code != 201:
                cut(postgres, database)  # the first one was still at work on its turn, and came back
            refused = first.post("/v1/sessions/s/ingest", json={"text": "no"})
            assert (refused.status_code, refused.json()["error"]["kind"]) == (409, "busy"), refused.text
            assert ingest(second, "s", "three") == "c3"
        assert ingest(first, "s", "four") == "c4"
        texts = [first.post("/v1/sessions/s/glimpse", json={"chunk": f"c{n}"}).json()["text"] for n in range(1, 5)]
    assert [text.rpartition(": ")[2] for text in texts] == ["one", "two", "three", "four"]


def test_a_database_that_is_away_is_503_and_nothing_is_lost(tmp_path: Path, own_server: Server) -> None:
    database = own_server.database()
    address = Address(database.url.replace("@", f":{CANARY}@"))
    with running(tmp_path, database=address, store_wait_s=0.3) as one, client(one) as http:
        http.post("/v1/sessions", json={"name": "s"})
        kept = [ingest(http, "s", f"turn {number}") for number in range(1, 4)]
        own_server.stop()
        begun = time.monotonic()
        asks: tuple[Callable[[], httpx.Response], ...] = (
            lambda: http.post("/v1/sessions/s/ingest", json={"text": "not kept"}),
            lambda: http.post("/v1/sessions/s/ingest", json={"text": "not kept either"}),
            lambda: http.post("/v1/sessions/s/assemble", json={"question": "What?"}),
            lambda: http.post("/v1/sessions", json={"name": "new"}),
            lambda: http.get("/v1/sessions"),
            lambda: http.get("/v1/sessions/s"),
            lambda: http.get("/v1/sessions/s/steps"),
            lambda: http.get("/v1/sessions/s/events"),
            lambda: http.get("/ui/api/sessions"),
            lambda: http.get("/ui/api/sessions/s/head"),
            lambda: http.get("/ui/s/s"),
        )
        for ask in asks:
            unavailable(ask())
        assert time.monotonic() - begun < 20
        assert http.get("/healthz").status_code == 200
        own_server.start()
        kept.append(ingest(http, "s", "turn 4"))
        assert kept == ["c1", "c2", "c3", "c4"]
        assert len(http.get("/v1/sessions/s/steps").json()) == 4
        assert http.post("/v1/sessions/s/assemble", json={"question": "What?"}).status_code == 200
        # an outage that is shorter than the wait is not even seen
    with running(tmp_path, database=database) as one, client(one) as http, ThreadPoolExecutor(1) as threads:
        assert ingest(http, "s", "turn 5") == "c5"
        own_server.kill()
        asked = threads.submit(ingest, http, "s", "turn 6")
        own_server.start()
        assert asked.result(60) == "c6"


def test_a_database_that_hangs_is_given_up_and_taken_up_again(tmp_path: Path, own_server: Server) -> None:
    """Its processes are stopped, connections and all; requests are answered in time, and too many are not taken."""
    database = own_server.database()
    with running(tmp_path, database=database, answer_s=1.0) as one, client(one) as http:
        http.post("/v1/sessions", json={"name": "s"})
        assert ingest(http, "s", "one") == "c1"
        with own_server.stopped(), ThreadPoolExecutor(OVERDUE + 8) as threads:
            unavailable(http.post("/v1/sessions/s/ingest", json={"text": "kept late"}))
            for answer in [threads.submit(http.get, "/v1/sessions/s/steps") for _ in range(OVERDUE)]:
                unavailable(answer.result())
            begun = time.monotonic()
            unavailable(http.get("/v1/sessions/s/steps"))
            assert time.monotonic() - begun < 0.5, "nobody waits for what cannot be had"
            assert http.get("/healthz").status_code == 200
        while http.get("/v1/sessions/s").status_code != 200:
            pass
        assert ingest(http, "s", "three") == "c3"
        assert "kept late" in http.post("/v1/sessions/s/glimpse", json={"chunk": "c2"}).json()["text"]


def test_a_database_that_is_silent_holds_up_nobody_else(tmp_path: Path) -> None:
    """It accepts connections and says nothing, as behind a broken network; the rest of the service goes on."""
    pytest.importorskip("psycopg", reason="NO POSTGRES: psycopg is not installed")
    with closing(socket.create_server(("127.0.0.1", 0), backlog=64)) as silent:
        taken: list[socket.socket] = []

        def take() -> None:
            while True:
                try:
                    taken.append(silent.accept()[0])
                except OSError:
                    return

        taking = threading.Thread(target=take)
        taking.start()
        address = Address(f"postgresql://me@127.0.0.1:{silent.getsockname()[1]}/x")
        with (
            running(tmp_path, database=address) as one,
            client(one) as http,
            ThreadPoolExecutor(24) as threads,
        ):
            asked = [threads.submit(http.post, "/v1/sessions", json={"name": f"s{n % 6}"}) for n in range(12)]
            asked += [threads.submit(http.get, path) for path in ["/v1/sessions"] * 6 + ["/v1/sessions/s1/steps"] * 6]
            while len(taken) < 6:  # that many wait for an answer at once
                time.sleep(0.01)
            for _ in range(20):
                begun = time.monotonic()
                selection = {"query": "q", "budget": 9, "candidates": [{"id": "a", "text": "some text"}]}
                with client(one) as other:
                    assert other.post("/select", json=selection).status_code == 200
                    assert other.get("/healthz").status_code == 200
                assert time.monotonic() - begun < 2
            assert not any(one.done() for one in asked)
            silent.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts, as closing does not
            # each that was kept waiting is let go; no new one is taken
            while not all(one.done() for one in asked):
                while taken:
                    taken.pop().close()
                time.sleep(0.01)
            for answer in asked:
                unavailable(answer.result())
        taking.join()


def test_what_waiting_does_not_mend_is_said_at_the_start(tmp_path: Path, postgres: Server) -> None:
    missing = postgres.url("there_is_no_such_database").replace("@", f":{CANARY}@")
    with pytest.raises(AssertionError, match="no such database"), serving(tmp_path, "--at", missing):
        pass
    assert CANARY not in (tmp_path / "stderr.txt").read_text()


def test_a_service_starts_before_its_database(tmp_path: Path) -> None:
    pytest.importorskip("psycopg", reason="NO POSTGRES: psycopg is not installed")
    pytest.importorskip("fastapi", reason="NO SERVE: the extra serve is not installed")
    store = f"postgresql://me:{CANARY}@127.0.0.1:1/x"
    with serving(tmp_path, LONGSTRIDE_STORE=store) as (url, _):
        unavailable(httpx.post(f"{url}/v1/sessions", json={"name": "a"}, timeout=30))
        unavailable(httpx.get(f"{url}/v1/sessions", timeout=30))
    said = " ".join((tmp_path / "stderr.txt").read_text().split())
    assert "until it answers" in said and CANARY not in said and "Traceback" not in said
    assert not (tmp_path / "runs").exists()


def test_the_command_keeps_sessions_in_the_database(tmp_path: Path, database: Address) -> None:
    options = ("--at", database.url, "--max-sessions", "2", "-c", "encoder.kind=hashing")
    with serving(tmp_path, *options) as (url, _), httpx.Client(base_url=url, timeout=60) as http:
        for name in ("a", "b", "c"):
            http.post("/v1/sessions", json={"name": name})
            assert ingest(http, name, "hello") == "c1"
        assert {entry["session"] for entry in http.get("/v1/sessions").json()} == {"a", "b", "c"}
    # it was killed: what it held is free as soon as the server notices
    with running(tmp_path / "elsewhere", database=database) as one, client(one) as http:
        assert ingest(http, "c", "again") == "c2"


def test_faults_of_the_server_are_no_faults_of_the_caller(tmp_path: Path) -> None:
    """A server without a connection left, or with a wrong password, as the driver says it, over the handler."""
    psycopg = pytest.importorskip("psycopg", reason="NO POSTGRES: psycopg is not installed")
    pytest.importorskip("fastapi", reason="NO SERVE: the extra serve is not installed")
    from fastapi import FastAPI
    from fastapi.testclient import TestClient

    from runners.service.faults import add_handlers

    address = Address(f"postgresql://me:{CANARY}@db.example:5432/x", "a")
    app = FastAPI()
    add_handlers(app, tmp_path, address)
    said: dict[str, Any] = {
        "full-up": 'connection to server at "127.0.0.1", port 5432 failed: FATAL: sorry, too many clients already',
        "wrong": f'FATAL: password authentication failed for user "longstride" {CANARY}',
        "starting": "FATAL: the database system is starting up",
    }

    @app.get("/{what}")
    async def fail(what: str) -> None:
        raise fault_of(psycopg.OperationalError(said[what]), address) if what in said else StoreFault(f"{address} odd")

    http: Any = TestClient(app)
    unavailable(http.get("/full-up"))
    unavailable(http.get("/starting"))
    for what in ("wrong", "odd"):
        answer = http.get(f"/{what}")
        assert (answer.status_code, answer.json()["error"]["kind"]) == (500, "store")
        assert (
            "example" not in answer.text
            and CANARY not in answer.text
            and "log" in json.loads(answer.text)["error"]["message"]
        )

"""The /v1/embeddings client against a real server on loopback that misbehaves on demand."""

from __future__ import annotations

import email.utils
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from memory.encoders.remote import HttpEncoder
from memory.errors import EncoderFault
from memory.tokens import ScriptCounter
from tests.support.load import slack


@dataclass
class Reply:
    """What the server says to one request. ``stall``: headers come, then bytes one by one until the test ends."""

    status: int = 200
    body: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    stall: bool = False
    hang_up: bool = False


class Server:
    """Answers from ``script`` first, then rightly: text of n characters -> (n, 1, 2, 3), in reverse order."""

    def __init__(self) -> None:
        self.script: list[Reply] = []
        self.requests: list[dict[str, Any]] = []
        self.authorization: list[str | None] = []
        self.over = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                payload = json.loads(self.rfile.read(int(self.headers["content-length"])))
                outer.requests.append(payload)
                outer.authorization.append(self.headers["authorization"])
                outer.answer(self, payload)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"

    def answer(self, handler: BaseHTTPRequestHandler, payload: dict[str, Any]) -> None:
        reply = self.script.pop(0) if self.script else Reply()
        if reply.hang_up:
            handler.close_connection = True
            return
        body = (
            reply.body if reply.body is not None else right(payload["input"], payload.get("dimensions", 4))
        ).encode()
        handler.send_response(reply.status)
        for name, value in reply.headers.items():
            handler.send_header(name, value)
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        if not reply.stall:
            handler.wfile.write(body)
            return
        try:
            while not self.over.wait(0.02):
                handler.wfile.write(b" ")
                handler.wfile.flush()
        except OSError:
            pass

    def close(self) -> None:
        self.over.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


def vector(text: str, dim: int = 4) -> list[float]:
    return [float(len(text)), *map(float, range(1, dim))]


def right(texts: list[str], dim: int = 4) -> str:
    rows = [{"object": "embedding", "index": at, "embedding": vector(text, dim)} for at, text in enumerate(texts)]
    return json.dumps({"object": "list", "data": rows[::-1], "model": "m", "usage": {"prompt_tokens": 1}})


def rows(*vectors: Any, first: int = 0) -> str:
    return json.dumps({"data": [{"index": at, "embedding": row} for at, row in enumerate(vectors, first)]})


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def make(server: Server, waits: list[float]) -> Iterator[Callable[..., HttpEncoder]]:
    clients: list[HttpEncoder] = []

    def build(**options: Any) -> HttpEncoder:
        clients.append(HttpEncoder(options.pop("base_url", server.url), "m", sleep=waits.append, **options))
        return clients[-1]

    yield build
    for client in clients:
        client.close()


Make = Callable[..., HttpEncoder]


def test_batches_order_and_what_is_sent(server: Server, make: Make) -> None:
    encoder = make(api_key="secret", batch_size=2)
    assert encoder.dim == 4
    server.requests.clear()
    found = encoder.encode_documents(["a", "", "bbb", "cccc", " "])
    expected = np.array([vector("a"), [0] * 4, vector("bbb"), vector("cccc"), [0] * 4], dtype=np.float32)
    norms = np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(found, expected / np.where(norms == 0, 1, norms), rtol=1e-6)
    assert found.dtype == np.float32
    assert server.requests == [
        {"model": "m", "input": texts, "encoding_format": "float"} for texts in (["a", "bbb"], ["cccc"])
    ]
    assert set(server.authorization) == {"Bearer secret"}


def test_a_known_dimension_is_asked_for_and_costs_no_request(server: Server, make: Make) -> None:
    encoder = make(dim=8)
    assert not server.requests
    assert encoder.encode_query("abc").shape == (8,)
    assert server.requests[0]["dimensions"] == 8
    assert server.authorization == [None]


def test_prefixes_and_the_window(server: Server, make: Make) -> None:
    encoder = make(dim=4, max_tokens=50, query_prefix="query: ", document_prefix="passage: ")
    encoder.encode_query("what")
    encoder.encode_documents(["long text " * 400])
    assert server.requests[0]["input"] == ["query: what"]
    sent = server.requests[1]["input"][0]
    assert sent.startswith("passage: long text")
    assert 35 <= ScriptCounter().count(sent) <= 50


def test_ids_differ_where_vectors_may(make: Make) -> None:
    options: list[dict[str, Any]] = [{"dim": 4}, {"dim": 8}, {"dim": 4, "max_tokens": 64}]
    options += [{"dim": 4, "query_prefix": "q"}, {"dim": 4, "document_prefix": "q"}]
    assert len({make(**given).id for given in options}) == 5


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (rows([1, 2, 3, 4]), "1 embeddings for 2 texts"),
        (rows([1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 4]), "3 embeddings for 2 texts"),
        (rows([1, 2, 3, 4], [1, 2, 3, 4], first=1), "wrong indices"),
        (rows([1, 2, 3, 4], [1, 2, 3]), r"\[3, 4\] dimensions, expected 4"),
        (rows([1, 2, 3, 4], [1, 2, 3, float("nan")]), "finite"),
        (rows([1, 2, 3, 4], [1, 2, 3, None]), "valid number"),
        (rows([1, 2, 3, 4], "AAAA"), "valid array"),
        ('{"error": {"message": "no such model"}}', "data: Field required"),
        ("<html>", "no embeddings"),
        ("", "no embeddings"),
    ],
)
def test_a_wrong_reply_is_refused_at_once(server: Server, make: Make, waits: list[float], body: str, said: str) -> None:
    encoder = make(dim=4)
    server.script = [Reply(body=body)]
    with pytest.raises(EncoderFault, match=said) as fault:
        encoder.encode_documents(["a", "b"])
    assert not fault.value.retryable
    assert len(server.requests) == 1
    assert waits == []


def test_zero_vectors_stay_zero(server: Server, make: Make) -> None:
    encoder = make(dim=4)
    server.script = [Reply(body=rows([0, 0, 0, 0]))]
    assert not encoder.encode_query("a").any()


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_passing_trouble_is_tried_again(server: Server, make: Make, waits: list[float], status: int) -> None:
    encoder = make(dim=4)
    server.script = [Reply(status, "busy"), Reply(hang_up=True)]
    assert encoder.encode_query("abc").any()
    assert waits == [0.5, 1.0]


def test_retry_after_is_kept_within_bounds(server: Server, make: Make, waits: list[float]) -> None:
    encoder = make(dim=4, attempts=6, max_wait_s=7.0)
    hour = email.utils.formatdate(time.time() + 3600, usegmt=True)
    past = email.utils.formatdate(time.time() - 3600, usegmt=True)
    server.script = [Reply(429, "", {"Retry-After": value}) for value in ("3", "86400", hour, past, "soon")]
    assert encoder.encode_query("abc").any()
    assert waits == [3.0, 7.0, 7.0, 0.0, 7.0]


def test_it_gives_up_and_says_so(server: Server, make: Make, waits: list[float]) -> None:
    encoder = make(dim=4, attempts=3)
    server.script = [Reply(500, "out of memory")] * 3
    with pytest.raises(EncoderFault, match="500: out of memory") as fault:
        encoder.encode_query("a")
    assert fault.value.retryable
    assert len(server.requests) == 3
    assert len(waits) == 2


@pytest.mark.parametrize(
    ("status", "hint"), [(401, "key"), (403, "key"), (404, "base_url"), (400, "max_tokens"), (413, "batch_size")]
)
def test_refusals_are_final_and_carry_a_hint(server: Server, make: Make, status: int, hint: str) -> None:
    encoder = make(dim=4, api_key="secret")
    server.script = [Reply(status, '{"error": "no"}')]
    with pytest.raises(EncoderFault, match=str(status)) as fault:
        encoder.encode_query("a")
    assert hint in fault.value.hint
    assert not fault.value.retryable
    assert "secret" not in str(fault.value)
    assert len(server.requests) == 1


def test_a_drip_ends_at_the_deadline(server: Server, make: Make) -> None:
    encoder = make(dim=4, timeout_s=0.2, attempts=1)
    server.script = [Reply(stall=True, body=" " * 100_000)]
    began = time.monotonic()
    with pytest.raises(EncoderFault, match="no whole reply") as fault:
        encoder.encode_query("a")
    assert fault.value.retryable
    assert time.monotonic() - began < 5 * slack()


def test_nobody_there(make: Make) -> None:
    with pytest.raises(EncoderFault, match="cannot be reached") as fault:
        make(base_url="http://127.0.0.1:9", attempts=2)
    assert fault.value.retryable
    for url in ("127.0.0.1:9", "ftp://127.0.0.1", "http://127.0.0.1:notaport"):
        with pytest.raises(EncoderFault) as fault:
            make(base_url=url)
        assert not fault.value.retryable
    with pytest.raises(EncoderFault, match="malformed"):
        make(api_key="kéy\n")

"""Who and what gets in, over real sockets."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from pydantic import ValidationError

from runners.environment import Secret
from runners.errors import UsageFault
from runners.service.settings import ServiceSettings, check_bind
from tests.runners.service.serving import TOKEN, Running, running

BODY = {"query": "q", "candidates": [{"id": "a", "text": "one"}], "budget": 10}
JSON = {"content-type": "application/json"}
BEARER = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("home")
    with running(home, token=TOKEN, max_body=4096, body_timeout_s=0.3, hosts=("memory.example",)) as one:
        yield one


def status(
    one: Running, headers: dict[str, str], content: bytes = b"", method: str = "POST", path: str = "/select"
) -> int:
    encoded = {name.encode(): value.encode() for name, value in headers.items()}
    with httpx.Client(verify=False) as client:
        answer = client.request(
            method, one.url + path, headers=list(encoded.items()), content=content or json.dumps(BODY).encode()
        )
    if answer.status_code != 200:
        assert set(answer.json()["error"]) == {"kind", "message", "hint"}
        assert "Traceback" not in answer.text
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in answer.headers
    assert "server" not in answer.headers or "uvicorn" in answer.headers["server"]
    return answer.status_code


@pytest.mark.parametrize(
    ("headers", "wanted"),
    [
        ({}, 401),
        ({"authorization": "Bearer wrong-wrong-wrong-wrong"}, 401),
        ({"authorization": f"Basic {TOKEN}"}, 401),
        ({"authorization": f"Bearer {TOKEN}x"}, 401),
        ({"authorization": "Bearer ÿ"}, 401),
        (BEARER, 200),
        ({"authorization": f"bearer  {TOKEN}"}, 200),
        ({**BEARER, "host": "localhost"}, 200),
        ({**BEARER, "host": "[::1]:8077"}, 200),
        ({**BEARER, "host": "MEMORY.example:80"}, 200),
        ({**BEARER, "host": "evil.example"}, 421),
        ({**BEARER, "host": "127.0.0.1.evil.example"}, 421),
        ({**BEARER, "host": "x@127.0.0.1"}, 421),
        ({**BEARER, "host": "127.0.0.1:port"}, 421),
        ({**BEARER, "host": ""}, 421),
        ({**BEARER, "origin": "https://evil.example"}, 403),
        ({**BEARER, "origin": "null"}, 403),
        ({**BEARER, "origin": "http://127.0.0.1:1"}, 403),
        ({**BEARER, "origin": "http://["}, 403),
        ({**BEARER, "origin": ""}, 403),
        ({**BEARER, "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, 403),
        ({**BEARER, "sec-fetch-site": "same-site", "sec-fetch-mode": "cors"}, 403),
        ({**BEARER, "sec-fetch-site": "same-origin", "sec-fetch-mode": "cors"}, 200),
        ({**BEARER, "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, 200),
        ({**BEARER, "origin": "http://localhost:7", "host": "localhost:7"}, 200),
        ({**BEARER, "content-type": "text/plain"}, 415),
        ({**BEARER, "content-type": "application/x-www-form-urlencoded"}, 415),
        ({**BEARER, "content-type": "application/json; charset=utf-16"}, 415),
        ({**BEARER, "content-type": "application/json;charset=UTF-8"}, 200),
        ({**BEARER, "content-encoding": "gzip"}, 415),
    ],
)  # fmt: skip
def test_the_table(guarded: Running, headers: dict[str, str], wanted: int) -> None:
    assert status(guarded, {**JSON, **headers}) == wanted


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (b"x" * 5000, 413),
        (b"{", 400),
        (b"\xff\xfe{}", 400),
        (b'{"query": "\\ud800"}', 400),
        (b"[" * 4000, 400),
        (b"[]", 422),
        (b"null", 422),
        (b'{"query": "q", "candidates": [], "budget": NaN}', 422),
        (b'{"query": "q", "candidates": [], "budget": 1, "other": 1}', 422),
        (b'{"query": "q", "candidates": [], "budget": 1e400}', 422),
        (b'{"query": "q", "candidates": [], "budget": true}', 422),
        (b'{"query": "q", "candidates": [], "budget": "1"}', 422),
        (b'{"query": "q", "candidates": [], "budget": -1}', 422),
        (b'{"query": "q", "candidates": [], "budget": 1, "strategy": "best"}', 422),
        (b'{"query": "q", "candidates": [], "budget": 1, "must_keep": ["x"]}', 422),
        (b'{"query": "q", "candidates": [{"id":"a","text":""},{"id":"a","text":""}], "budget": 1}', 422),
        (b'{"query": "q", "candidates": [{"id":"a","text":"","tokens":5}], "must_keep":["a"], "budget": 1}', 422),
        (b'{"query": "q", "candidates": [], "budget": 1}', 200),
        (b'{"query": "\\u0000", "candidates": [{"id":"\\u0000","text":"\\u202e"}], "budget": 9}', 200),
    ],
)  # fmt: skip
def test_bodies(guarded: Running, content: bytes, wanted: int) -> None:
    assert status(guarded, {**JSON, **BEARER}, content) == wanted


@pytest.mark.parametrize(
    ("method", "path", "wanted"),
    [
        ("GET", "/select", 405),
        ("OPTIONS", "/select", 405),
        ("GET", "/docs", 404),
        ("POST", "/select_debug", 404),
        ("GET", "/v1/sessions/%2e%2e%2fx", 404),
        ("GET", "/v1/sessions/..%5cx", 422),
        ("GET", "/v1/sessions/none", 404),
        ("GET", "/v1/sessions/none/events", 404),
        ("GET", "/v1/sessions/none/steps?limit=0", 422),
        ("GET", "/metrics", 200),
    ],
)  # fmt: skip
def test_paths(guarded: Running, method: str, path: str, wanted: int) -> None:
    assert status(guarded, {**JSON, **BEARER}, method=method, path=path) == wanted


def test_health_needs_no_token_but_a_name(guarded: Running) -> None:
    assert httpx.get(f"{guarded.url}/healthz").json() == {"status": "ok"}
    assert httpx.get(f"{guarded.url}/healthz", headers={"host": "evil.example"}).status_code == 421


def raw(one: Running, *parts: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", one.port), 10) as wire:
        for part in parts:
            wire.sendall(part)
        return b"".join(iter(lambda: wire.recv(4096), b""))


def test_a_body_is_counted_while_it_is_read_and_must_arrive(guarded: Running) -> None:
    head = f"POST /select HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n"
    head += "content-type: application/json\r\n"
    chunked = head.encode() + b"transfer-encoding: chunked\r\n\r\n"
    answer = raw(guarded, chunked, *[b"400\r\n" + b" " * 1024 + b"\r\n"] * 5)
    assert answer.startswith(b"HTTP/1.1 413")
    # declared, never sent; and one that lies about its length is cut there
    assert raw(guarded, head.encode() + b"content-length: 999999999\r\n\r\n").startswith(b"HTTP/1.1 413")
    assert raw(guarded, head.encode() + b"content-length: 50\r\n\r\n{").startswith(b"HTTP/1.1 408")
    twice = head.encode() + b"host: localhost\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}"
    assert raw(guarded, twice).startswith(b"HTTP/1.1 400")


def test_a_fault_of_the_program_is_told_to_the_log_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR), running(tmp_path) as one:
        one.service.select = None
        answer = httpx.post(f"{one.url}/select", json=BODY)
        assert answer.status_code == 500 and answer.json()["error"]["kind"] == "internal"
        assert "TypeError" not in answer.text and "NoneType" not in answer.text
    assert any(record.exc_info for record in caplog.records)


def test_another_bind_needs_a_token() -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        with pytest.raises(UsageFault, match="loopback"):
            check_bind(ServiceSettings(host=host))
        check_bind(ServiceSettings(host=host, token=Secret(TOKEN)))
    for host in ("127.0.0.1", "127.0.0.9", "::1", "localhost"):
        check_bind(ServiceSettings(host=host))
    assert "0.0.0.0" not in ServiceSettings(host="0.0.0.0", token=Secret(TOKEN)).allowed_hosts()
    with pytest.raises(ValidationError):
        ServiceSettings(token=Secret("short"))
    assert TOKEN not in repr(ServiceSettings(token=Secret(TOKEN)))

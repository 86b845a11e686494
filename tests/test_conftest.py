"""The guards that all tests rely on do guard."""

from __future__ import annotations

import os
import socket

import pytest

from tests.conftest import NetworkBlocked


def test_a_remote_address_is_refused() -> None:
    with socket.socket() as sock, pytest.raises(NetworkBlocked):
        sock.connect(("192.0.2.1", 80))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, pytest.raises(NetworkBlocked):
        sock.sendto(b"x", ("192.0.2.1", 53))
    with pytest.raises(NetworkBlocked):
        socket.getaddrinfo("example.org", 80)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_loopback_is_allowed(host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection((host, port), timeout=5) as client:
            assert client.getpeername()[1] == port


def test_unix_sockets_are_allowed() -> None:
    left, right = socket.socketpair()
    with left, right:
        left.sendall(b"x")
        assert right.recv(1) == b"x"


def test_no_key_is_visible() -> None:
    assert not [name for name in os.environ if name.endswith("_API_KEY")]
    assert os.environ["LONGSTRIDE_HOME"]

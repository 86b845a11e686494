"""Addresses of databases: what is shown of them is an address again, and no password is."""

from __future__ import annotations

import time

import pytest

from memory.store.address import masked, parse_address

CANARY = "canary"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql:///db#s", "postgresql:///db#s"),
        (f"postgresql:///db?host=/run/pg&password={CANARY}#s", "postgresql:///db?host=/run/pg#s"),
        (f"postgresql:///db?pass%77ord={CANARY}#s", "postgresql:///db#s"),
        (f"postgresql://u:{CANARY}%40%2F@[::1]:5433/db#s", "postgresql://u@[::1]:5433/db#s"),
        (
            f"postgresql://u:{CANARY}@a:1,[::1],b:2/db?sslmode=require",
            "postgresql://u@a:1,[::1],b:2/db?sslmode=require",
        ),
        (f"POSTGRES://u:{CANARY}@%2Frun%2Fpg/db#s", "postgresql://u@%2Frun%2Fpg/db#s"),
    ],
)
def test_what_is_shown_is_the_same_address(address: str, shown: str) -> None:
    parsed = parse_address(address)
    assert str(parsed) == shown
    assert parse_address(shown).database == parsed.database
    assert CANARY not in repr(parsed)
    assert CANARY not in masked(address.replace("%77", "w"))
    assert parsed.url.startswith("postgresql://")  # the driver takes no other spelling
    assert parsed.passwords or CANARY not in address


@pytest.mark.parametrize(
    "password",
    [
        "canary/x",
        "canary#x",
        "canary?x",
        "[canary]",
        "canary\uff0fx",
        "ca nary",
        "ca@nary",
        "canary%",
        "canary%zz",
        "canary%00",
    ],
)
def test_a_password_that_would_be_taken_for_something_else_is_not_shown(password: str) -> None:
    with pytest.raises(ValueError, match="percent-encoded") as caught:
        parse_address(f"postgresql://u:{password}@h/db#s")
    assert "nary" not in str(caught.value)


def test_masking_takes_no_time() -> None:
    before = time.process_time()
    for text in ("a" * 100_000, "x://" * 20_000, "postgresql://a:" * 10_000, "?" * 100_000):
        assert masked(text) == text
        with pytest.raises(ValueError, match=r"percent-encoded|names a database"):
            parse_address(f"postgresql://{text}")
    assert time.process_time() - before < 5

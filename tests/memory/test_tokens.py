"""The counter's algebra, which budgets are proved from, and its calibration."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.records import Message, ToolCall
from memory.tokens import CALL_OVERHEAD, MESSAGE_OVERHEAD, Calibration, ScriptCounter, message_tokens, request_tokens

COUNTER = ScriptCounter()
TEXTS = st.text(st.characters(exclude_categories=()), max_size=200)


@given(TEXTS, TEXTS)
def test_subadditive_and_monotone(a: str, b: str) -> None:
    whole = COUNTER.count(a + b)
    assert max(COUNTER.count(a), COUNTER.count(b)) <= whole <= COUNTER.count(a) + COUNTER.count(b)


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("", 0, 0),
        ("a", 1, 1),
        ("The quick brown fox jumps over the lazy dog.", 8, 11),
        ("今天天气很好，我们去公园散步吧。", 11, 15),
        ('{"order_id": "1234567890", "amount": 12.50}', 16, 26),
        ("\ud800", 1, 3),
        ("🎉🎉", 2, 5),
    ],
)
def test_counts_are_near_a_real_vocabulary(text: str, low: int, high: int) -> None:
    """Bounds around the counts of a 200K-entry byte-pair vocabulary (9, 11, 20 tokens for the three sentences)."""
    assert low <= COUNTER.count(text) <= high


def test_messages_and_requests_add_up() -> None:
    call = ToolCall("s1.0", "search", {"queries": ["人工 智能"]})
    message = Message("assistant", "thinking", tool_calls=(call,))
    parts = COUNTER.count("thinking") + COUNTER.count("search") + COUNTER.count('{"queries": ["人工 智能"]}')
    assert message_tokens(message, COUNTER) == MESSAGE_OVERHEAD + CALL_OVERHEAD + parts
    both = request_tokens([message, message], "[]", COUNTER)
    assert both == 2 * message_tokens(message, COUNTER) + COUNTER.count("[]")


def test_calibration_rises_at_once_and_falls_slowly() -> None:
    calibration = Calibration()
    assert calibration.observe(10_000, 12_500) == pytest.approx(1.25)
    assert calibration.budget(10_000) == 8_000
    assert calibration.observe(10_000, 10_000) == pytest.approx(0.9 * 1.25 + 0.1)


@pytest.mark.parametrize("reported", [None, 0, -5])
def test_calibration_ignores_nonsense(reported: int | None) -> None:
    assert Calibration().observe(10_000, reported) == 1.0


def test_calibration_is_clamped_and_needs_a_real_request() -> None:
    assert Calibration().observe(10_000, 10**12) == 2.0
    assert Calibration().observe(100, 200) == 1.0

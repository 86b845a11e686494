"""The context bar adds up, and outside text cannot steer the terminal."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from runners.meter import PARTS, Meter, one_line

counts = st.integers(0, 200_000)


def test_a_bar_by_hand() -> None:
    meter = Meter(budget=100, used=49, fixed=10, by_level=(5, 0, 20, 0), recent=15)
    assert meter.bar(20).plain == "██" + "░" + "▓▓▓▓" + "███" + "·" * 10
    assert meter.legend().plain.split("  ")[:2] == ["█ fixed 10", "░ placeholder 5"]
    assert meter.plain() == "49/100 tokens (fixed 10, placeholder 5, detailed 20, recent 15)"


@given(st.integers(1, 200_000), counts, st.tuples(counts, counts, counts, counts), counts, st.integers(8, 200))
def test_a_bar_is_as_wide_as_it_should_be(
    budget: int, fixed: int, by_level: tuple[int, int, int, int], recent: int, width: int
) -> None:
    meter = Meter(budget, fixed + sum(by_level) + recent, fixed, by_level, recent)
    bar = meter.bar(width).plain
    assert len(bar) == width
    if meter.used >= budget and meter.used:
        assert "·" not in bar
    shown = [tokens for tokens in meter.parts if tokens]
    assert len(bar.replace("·", "")) >= min(width, len(shown))
    assert len(meter.parts) == len(PARTS)


@given(st.text(), st.integers(1, 50))
def test_no_control_character_reaches_the_terminal(text: str, limit: int) -> None:
    shown = one_line(text, limit)
    assert len(shown) <= limit
    assert not [character for character in shown if unicodedata.category(character) in ("Cc", "Zl", "Zp")]


def test_escapes_are_gone() -> None:
    assert one_line("a\x1b[31mb\x9b2J\nc\u2028d", 50) == "a [31mb 2J c d"

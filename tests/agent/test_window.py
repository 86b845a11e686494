"""The budget of a session: configured, calibrated, and learned from a provider's refusals."""

from __future__ import annotations

import pytest

from agent.errors import ContextTooLong, Stop
from agent.window import Learned, Window
from memory.records import Usage


def test_window_minus_output_and_margin_unless_configured_smaller() -> None:
    assert Window(100_000, 4_000, None).budget() == 100_000 - 4_000 - 3_000
    assert Window(10_000, 4_000, None).budget() == 10_000 - 4_000 - 512
    assert Window(100_000, 4_000, 16_000).budget() == 16_000
    assert Window(10_000, 4_000, 16_000).budget() == 5_488


async def test_shrinks_by_a_fifth_four_times_then_stops_by_name() -> None:
    window = Window(100_000, 4_000, None)
    sent = 50_000
    for wanted in (40_000, 32_000, 25_600, 20_480):
        await window.shrink(sent, ContextTooLong("too long"))
        sent = window.budget()
        assert sent == wanted
    with pytest.raises(Stop) as stop:
        await window.shrink(sent, ContextTooLong("too long"))
    assert stop.value.status == "context_exhausted"


async def test_what_was_accepted_stays_the_ceiling_and_the_count_begins_anew() -> None:
    window = Window(100_000, 4_000, None)
    for _ in range(4):
        await window.shrink(1_000, ContextTooLong("too long"))
    window.observe(800, Usage(input_total=900))
    assert window.budget() == 800
    await window.shrink(700, ContextTooLong("too long"))
    assert window.budget() == 560


async def test_a_named_limit_lowers_the_window_for_ever() -> None:
    window = Window(100_000, 4_000, None)
    await window.shrink(90_000, ContextTooLong("too long", limit=32_000))
    await window.shrink(80_000, ContextTooLong("too long", limit=64_000))
    assert window.learned == Learned(32_000, 64_000)
    assert window.budget() == 32_000 - 4_000 - 960


async def test_what_was_learned_is_saved_and_taken_up_again() -> None:
    saved: list[Learned] = []

    async def save(learned: Learned) -> None:
        saved.append(learned)

    window = Window(100_000, 4_000, None, save=save)
    await window.shrink(50_000, ContextTooLong("too long"))
    assert saved == [Learned(None, 40_000)]
    assert Window(100_000, 4_000, None, learned=saved[0]).budget() == 40_000


def test_calibrates_to_what_the_provider_counts() -> None:
    window = Window(100_000, 4_000, 50_000, calibrate=True)
    window.observe(10_000, Usage(input_total=12_500))
    assert window.budget() == 40_000
    plain = Window(100_000, 4_000, 50_000)
    plain.observe(10_000, Usage(input_total=12_500))
    assert plain.budget() == 50_000

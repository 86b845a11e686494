from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from agent.events import Bus, ContextSummary, Finished, StepStarted, SummaryProgress

DONE = Finished("completed", "42")


def test_everyone_is_told_in_order():
    bus, heard = Bus(), []
    bus.subscribe(lambda event: heard.append(("a", event)))
    bus.subscribe(lambda event: heard.append(("b", event)))
    bus.emit(DONE)
    assert heard == [("a", DONE), ("b", DONE)]


def test_a_failing_listener_breaks_nothing_and_is_logged(caplog):
    bus, heard = Bus(), []

    def broken(event):
        raise ZeroDivisionError("display")

    bus.subscribe(broken)
    bus.subscribe(heard.append)
    bus.emit(DONE)
    bus.emit(DONE)
    assert heard == [DONE, DONE]
    assert len(caplog.records) == 2
    assert "ZeroDivisionError: display" in caplog.text


def test_an_interrupt_is_not_swallowed():
    bus = Bus()

    def interrupted(event):
        raise KeyboardInterrupt

    bus.subscribe(interrupted)
    with pytest.raises(KeyboardInterrupt):
        bus.emit(DONE)


def test_leaving_even_while_being_told():
    bus, heard = Bus(), []

    def once(event):
        heard.append(event)
        end()
        end()

    end = bus.subscribe(once)
    bus.subscribe(heard.append)
    bus.emit(DONE)
    bus.emit(DONE)
    assert heard == [DONE] * 3


def test_events_are_frozen():
    with pytest.raises(FrozenInstanceError):
        DONE.text = "43"
    summary = ContextSummary(10, 20, 0.5, 1, 2, (0, 1, 2, 3), (0, 1, 1, 1), 12)
    assert StepStarted(3, summary).pending_summaries == 0
    assert SummaryProgress(1, 2).failed == 0

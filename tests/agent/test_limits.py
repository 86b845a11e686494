from __future__ import annotations

import pytest
from pydantic import ValidationError

from agent.errors import Stop
from agent.limits import Limits, LimitsConfig
from memory.records import Usage
from memory.stored import UsageRow


class Hand:
    """A clock moved by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def time(self) -> float:
        return 0.0

    def monotonic(self) -> float:
        return self.now


def limits(clock=None, **config) -> Limits:
    return Limits(LimitsConfig(**config), clock or Hand())


def known(tokens=10, cost=0.5) -> Usage:
    return Usage(input_total=tokens, output=0, cost=cost)


def stopped(given: Limits, coming=0) -> str:
    with pytest.raises(Stop) as caught:
        given.check(coming)
    assert caught.value.status == "budget"
    return str(caught.value)


def test_without_limits_nothing_stops():
    given = limits()
    for _ in range(1000):
        given.charge(known())
        given.check(10**9)
    assert given.steps_left is None


def test_steps():
    given = limits(max_steps=2)
    assert given.steps_left == 2
    given.charge(known())
    given.record(UsageRow(1, "summary", "m", known()))
    given.check()
    assert given.steps_left == 1
    given.charge(known())
    assert "2 steps" in stopped(given)
    assert given.steps_left == 0


@pytest.mark.parametrize("purpose", ["step", "summary", "judge", "extract"])
def test_tokens_of_every_purpose_count_and_the_next_call_too(purpose):
    given = limits(max_tokens=100)
    given.record(UsageRow(1, purpose, "m", Usage(input_total=60, output=30, cost=0.0)))
    given.check()
    given.check(10)
    assert "max_tokens" in stopped(given, 11)
    given.record(UsageRow(1, purpose, "m", Usage(input_total=9, output=1, cost=0.0)))
    assert "100 used" in stopped(given)


def test_money():
    given = limits(max_cost_usd=1.0)
    given.charge(known(cost=0.75))
    given.check()
    given.charge(known(cost=0.25))
    assert "max_cost_usd" in stopped(given)


def test_unknown_money_is_said_not_counted_as_nothing(caplog):
    given = limits(max_cost_usd=1.0)
    given.charge(Usage(input_total=5, output=5), model="dark")
    given.charge(Usage(input_total=5, output=5), model="dark")
    given.check()
    assert given.spent().calls_without_cost == 2
    assert [record.message for record in caplog.records] == [
        "the cost of calls to dark is unknown: they are not in the limit"
    ]
    given.charge(known(cost=1.0))
    assert "2 calls of unknown size" in stopped(given)


def test_unknown_tokens_are_said_too(caplog):
    given = limits(max_tokens=10)
    given.charge(Usage(output=3, cost=0.0))
    assert given.spent().tokens == 3
    assert given.spent().calls_without_tokens == 1
    assert "tokens" in caplog.text


def test_no_limit_no_warning(caplog):
    limits(max_steps=5).charge(Usage())
    assert not caplog.records


def test_time_counts_work_not_the_pause():
    clock = Hand()
    given = Limits(LimitsConfig(max_seconds=60), clock, seconds=50)
    clock.now += 9
    given.check()
    clock.now += 1
    assert "max_seconds" in stopped(given)


def test_an_earlier_part_counts_in():
    rows = [UsageRow(1, "step", "m", known()), UsageRow(1, "summary", "m", known()), UsageRow(2, "step", "m", known())]
    given = Limits(LimitsConfig(max_steps=3), Hand(), spent=rows)
    assert given.steps_left == 1
    assert given.spent().tokens == 30
    assert given.spent().cost == 1.5


@pytest.mark.parametrize(
    "config", [{"max_steps": 0}, {"max_tokens": -1}, {"max_cost_usd": float("nan")}, {"max_seconds": 0}, {"steps": 3}]
)
def test_config_is_strict(config):
    with pytest.raises(ValidationError):
        LimitsConfig(**config)

"""Limits that give way to a 429 and come back, with a sleep that only moves the loop's own clock."""

from __future__ import annotations

import asyncio

import pytest

from agent.backbones.scripted import ScriptedBackbone
from agent.backbones.throttled import Slots, Throttled, TokenRate
from agent.errors import RateLimited, Unavailable
from memory.records import Message, Reply, Request, Usage

ASK = Request(messages=(Message("user", "hi"),), max_output_tokens=100)


class Naps:
    """A sleep that only remembers."""

    def __init__(self) -> None:
        self.taken: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("named", "low", "high"), [(None, 1.5, 2.0), (0.001, 1.0, 1.0), (30.0, 30.0, 30.0), (1e9, 120.0, 120.0)]
)
async def test_a_refused_call_waits_as_it_was_told_within_bounds(named: float | None, low: float, high: float) -> None:
    naps = Naps()
    backbone = Throttled(ScriptedBackbone([RateLimited("429", retry_after=named), "fine"]), sleep=naps)
    assert (await backbone.complete(ASK)).text == "fine"
    assert low <= naps.taken[0] <= high
    await backbone.aclose()


async def test_patience_ends() -> None:
    naps = Naps()
    inner = ScriptedBackbone(lambda _: RateLimited("429"))
    with pytest.raises(RateLimited):
        await Throttled(inner, sleep=naps, patience_s=8).complete(ASK)
    # waits of at most 2 and 4 seconds fit; a third of at least 6 does not
    assert len(inner.calls) == 3


async def test_other_faults_pass_through() -> None:
    backbone = Throttled(ScriptedBackbone([Unavailable("x")]), sleep=Naps())
    with pytest.raises(Unavailable):
        await backbone.complete(ASK)
    await backbone.aclose()


async def test_a_429_holds_every_call_back() -> None:
    naps = Naps()
    backbone = Throttled(ScriptedBackbone([RateLimited("429", retry_after=50), "a", "b"]), sleep=naps)
    first = asyncio.create_task(backbone.complete(ASK))
    await asyncio.sleep(0)
    assert [reply.text for reply in await asyncio.gather(first, backbone.complete(ASK))] == ["a", "b"]
    assert len([nap for nap in naps.taken if nap > 40]) >= 2
    await backbone.aclose()


async def test_slots_fall_to_half_and_grow_again() -> None:
    slots = Slots(8)
    gate, full = asyncio.Event(), asyncio.Event()

    async def work(fails: bool) -> None:
        async with slots.one():
            if slots.busy == 8:
                full.set()
            await gate.wait()
            if fails:
                raise RateLimited("429")

    calls = [asyncio.create_task(work(number == 0)) for number in range(8)]
    await full.wait()
    gate.set()
    await asyncio.gather(*calls, return_exceptions=True)
    assert slots.busy == 0
    fallen = slots.allowed
    assert fallen is not None
    assert 4 <= fallen < 8
    for _ in range(40):
        await work(fails=False)
    assert slots.allowed == 8
    for _ in range(9):
        await asyncio.gather(work(fails=True), return_exceptions=True)
    assert slots.allowed == 1.0


async def test_without_a_limit_a_429_sets_one_for_a_while() -> None:
    slots = Slots(None)
    with pytest.raises(RateLimited):
        async with slots.one():
            raise RateLimited("429")
    assert slots.allowed == 1.0
    async with slots.one():
        pass
    assert slots.allowed == 2.0


async def test_tokens_per_minute_are_bounded_and_corrected() -> None:
    naps = Naps()
    rate = TokenRate(1_000, 60.0, naps)
    first = await rate.take(ASK)
    assert 100 < first[1] < 120
    first[1] = 950.0
    waiting = asyncio.create_task(rate.take(ASK))
    for _ in range(5):
        await asyncio.sleep(0)
    assert naps.taken
    assert 55 < naps.taken[0] <= 60
    first[1] = 10.0  # the reply was shorter than asked for
    await waiting
    large = Request(messages=(Message("user", "word " * 9_000),))
    alone = TokenRate(1_000, 60.0, naps)
    assert (await alone.take(large))[1] > 1_000


async def test_a_reply_corrects_what_its_call_took() -> None:
    inner = ScriptedBackbone([Reply("a", usage=Usage(input_total=3, output=4))])
    backbone = Throttled(inner, tpm=10_000)
    await backbone.complete(ASK)
    assert backbone._tokens is not None
    assert [tokens for _, tokens in backbone._tokens._begun] == [7]
    await backbone.aclose()

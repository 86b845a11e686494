from __future__ import annotations

import pytest

from agent.backbones.scripted import ScriptedBackbone
from agent.pricing import Priced, Prices
from memory.records import Message, Reply, Request, Usage

FILE = """
prices:
  small: {input: 1.0, cached_input: 0.1, cache_write: 1.25, output: 4.0}
  small-*: {input: 2.0, output: 8.0}
  small-new-*: {input: 3.0, output: 9.0}
  free: {input: 0, output: 0}
"""


@pytest.fixture
def prices(tmp_path):
    path = tmp_path / "prices.yaml"
    path.write_text(FILE)
    return Prices.load(path)


def cost(prices, model, **usage):
    return prices.priced(model, Usage(**usage)).cost


def test_by_hand(prices):
    usage = {"input_total": 1_000_000, "cache_read": 600_000, "cache_write": 200_000, "output": 100_000}
    assert cost(prices, "small", **usage) == pytest.approx(0.2 * 1 + 0.6 * 0.1 + 0.2 * 1.25 + 0.1 * 4)
    assert cost(prices, "small-x", **usage) == pytest.approx(2.0 + 0.8)
    assert cost(prices, "small-new-x", **usage) == pytest.approx(3.0 + 0.9)
    assert cost(prices, "free", **usage) == 0.0


def test_unknown_is_none_never_zero(prices):
    assert cost(prices, "smal", input_total=1, output=1) is None
    assert cost(prices, "SMALL", input_total=1, output=1) is None
    assert cost(prices, "small", input_total=1) is None
    assert cost(prices, "small", output=1) is None
    assert cost(Prices(), "small", input_total=1, output=1) is None


def test_unreported_cache_is_charged_as_plain_input(prices):
    assert cost(prices, "small", input_total=1_000_000, output=0) == pytest.approx(1.0)


def test_the_providers_own_figure_stays(prices):
    assert cost(prices, "small", input_total=1, output=1, cost=7.0) == 7.0


@pytest.mark.parametrize(
    "text",
    [
        "prices: [",
        "prices: {m: {input: 1}}",
        "prices: {m: {input: -1, output: 1}}",
        "price: {}",
        "- 1",
        "prices: {m: 3}",
    ],
)
def test_a_bad_file_is_named(tmp_path, text):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"mine\.yaml"):
        Prices.load(path)


def test_an_empty_file_has_no_prices(tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text("")
    assert Prices.load(path).of("m") is None


async def test_replies_carry_their_cost(prices):
    reply = Reply("hi", usage=Usage(input_total=1_000_000, output=0))
    inner = ScriptedBackbone([reply], model="small")
    backbone = Priced(inner, prices)
    got = await backbone.complete(Request((Message("user", "?"),)))
    assert got.usage.cost == pytest.approx(1.0)
    assert (got.text, backbone.model) == ("hi", "small")
    await backbone.aclose()
